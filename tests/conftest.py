"""For all tests."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support import warm_start
from tests.support.redis_server import end_shared_redis
from tests.support.time_limit import pytest_timeout_set_timer as pytest_timeout_set_timer

# How long an example takes says something of the machine: a busy one must fail no test.
# CI repeats the same examples, so that a change fails there only for what it does; other runs look for new ones.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("patient")

gc.disable()  # while modules are imported and tests collected, nothing becomes garbage


def pytest_configure(config):
    """All workers have their programs forked by one process."""
    if hasattr(config, "workerinput"):
        warm_start.use(config.workerinput["warm_start"])
    else:
        warm_start.address()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["warm_start"] = warm_start.address()


def pytest_collection_finish():
    """What was imported stays: to look through it again and again takes a tenth of the time of all tests."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_sessionfinish():
    end_shared_redis()
