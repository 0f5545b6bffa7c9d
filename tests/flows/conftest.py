"""Whole programs, several at a time on one machine."""

from __future__ import annotations

import pytest

from agentic.runtime import bot as bot_run
from agentic.wire.connection import RedisConnection
from tests.support import warm_start

BUSY = 1.5  # seconds for a command: a machine on which the tests run side by side is busy, and Redis is not away


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setitem(RedisConnection.__init__.__kwdefaults__, "command_timeout", BUSY)
    monkeypatch.setattr(bot_run, "GUILD_READY_SECONDS", 0.03)  # the stand-in sends all guilds at once


@pytest.fixture(scope="session")
def warm():
    """Programs start without delay: nothing in this process waits for imports."""
    warm_start.ask({})
