"""Shuts a process down: on the first signal it finishes its running turns, on the second it exits.

    SIGTERM, SIGHUP, Ctrl-C → `stop` → no new turn; running ones get a grace period → everything is closed, exit code 0
    Ctrl-C once more        → `hurry` → no waiting; exit after three seconds at the latest

All persistent state is in Redis, so an early exit loses no more than a crash would: nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

LEAVE_SECONDS = 3.0
INTERRUPTED = 130  # exit code of an interrupted process

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shutdown:
    """The requested shutdown: `stop` after the first signal, `hurry` after a second Ctrl-C."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def on_signals(self) -> None:
        """Install the signal handlers. A second SIGTERM sets no hurry: service managers repeat theirs."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.stop.set)
        loop.add_signal_handler(signal.SIGINT, self.interrupted)

    def interrupted(self) -> None:
        """Ctrl-C was typed."""
        if not self.stop.is_set():
            self.stop.set()
        elif not self.hurry.is_set():
            self.hurry.set()
            asyncio.get_running_loop().call_later(LEAVE_SECONDS, os._exit, INTERRUPTED)


async def last_turns(turns: Mapping[str, Coroutine[Any, Any, None]], grace: float, hurry: asyncio.Event) -> None:
    """Wait for the agents' running turns, at most `grace` seconds and only until `hurry`."""
    tasks = {name: asyncio.create_task(turn, name=f"{name}: last turns") for name, turn in turns.items()}
    hurried = asyncio.create_task(hurry.wait(), name="hurry")
    waiting = {hurried, *tasks.values()}
    loop = asyncio.get_running_loop()
    end = loop.time() + grace
    while not hurried.done() and len(waiting) > 1 and (left := end - loop.time()) > 0:
        _, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    if late := [name for name, task in tasks.items() if not task.done()]:
        log.warning("turns did not end in time and are cancelled: %s", ", ".join(late))
    for task in waiting:
        task.cancel()
    for outcome in await asyncio.gather(*tasks.values(), return_exceptions=True):
        if isinstance(outcome, Exception):
            log.error("the last turns failed", exc_info=outcome)
