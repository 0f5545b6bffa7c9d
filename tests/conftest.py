"""For all tests."""

from hypothesis import settings

from tests.support.time_limit import pytest_timeout_set_timer as pytest_timeout_set_timer

# How long an example takes says something of the machine: a busy one must fail no test.
settings.register_profile("patient")
settings.load_profile("patient")
