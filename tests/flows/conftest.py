"""Whole programs, several at a time on one machine."""

from __future__ import annotations

import pytest

from agent_protocol.connection.link import RedisLink

BUSY = 1.5  # seconds for a command: a machine on which the tests run side by side is busy, and Redis is not away


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setitem(RedisLink.__init__.__kwdefaults__, "command_timeout", BUSY)
