"""By which bots of its process a persona reads, and posts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from agentic.runtime.rooms import bots_to_see_by


def bot(name: str, *, ready: bool = True, held: bool = True, failure: str | None = None, online: bool = True) -> Any:
    was_online = asyncio.Event()
    if ready:
        was_online.set()
    cog = SimpleNamespace(host=SimpleNamespace(ready=was_online), channels=name)
    return SimpleNamespace(cog=cog, lease=SimpleNamespace(is_held=held), failure=failure, online=online)


def test_those_that_are_online_come_first_and_none_that_cannot_see() -> None:
    bots = [
        bot("an outage", online=False),
        bot("never online", ready=False),
        bot("another process's", held=False),
        bot("failed", failure="it could not stay online"),
        bot("well"),
    ]
    assert list(bots_to_see_by(bots)) == ["well", "an outage"]
    assert list(bots_to_see_by(bots[1:4])) == []
