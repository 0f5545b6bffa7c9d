"""For all tests."""

import gc
import os
import shutil
import threading

import pytest
from hypothesis import HealthCheck, settings

from agentic.record import recorder
from agentic.record.database import migrate
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


@pytest.fixture(scope="session", autouse=True)
def migrated_once(tmp_path_factory):
    """A recorder's new file is a copy of one that was migrated before: that costs a twentieth of the migrations."""
    ready = tmp_path_factory.mktemp("migrated") / "record.db"
    applied = migrate(ready)

    def copied(path):
        if path.exists():
            return migrate(path)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        copy = path.with_name(f"{path.name}.copy-{threading.get_ident()}")
        shutil.copy(ready, copy)
        try:
            os.link(copy, path)
        except FileExistsError:  # another recorder was faster
            return migrate(path)
        finally:
            copy.unlink()
        return applied

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "migrate", copied)
        yield
