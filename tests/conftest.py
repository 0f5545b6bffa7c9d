"""For all tests."""

from hypothesis import settings

# How long an example takes says something of the machine: a busy one must fail no test.
settings.register_profile("patient")
settings.load_profile("patient")
