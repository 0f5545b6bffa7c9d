"""How a process ends: asked once it finishes what it has begun, asked twice it leaves.

    SIGTERM, SIGHUP, Ctrl-C → `stop` → no new turn; running ones get their grace → everything is closed, exit code 0
    Ctrl-C once more        → `hurry` → nothing is waited for; what does not close in three seconds is left

Redis has all that must be kept, so leaving loses no more than a crash would: nothing.
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
INTERRUPTED = 130  # the exit code of a process that was interrupted

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shutdown:
    """What has been asked for."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def on_signals(self) -> None:
        """Takes the process's signals over. A second SIGTERM is no hurry: service managers repeat theirs."""
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
    """Waits for each agent's running turns: `grace` seconds at most, and not at all any more once there is hurry."""
    tasks = {name: asyncio.create_task(turn, name=f"{name}: last turns") for name, turn in turns.items()}
    hurried = asyncio.create_task(hurry.wait(), name="hurry")
    waiting = {hurried, *tasks.values()}
    loop = asyncio.get_running_loop()
    end = loop.time() + grace
    while not hurried.done() and len(waiting) > 1 and (left := end - loop.time()) > 0:
        _, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    if late := [name for name, task in tasks.items() if not task.done()]:
        log.warning("turns are given up that took too long to end: %s", ", ".join(late))
    for task in waiting:
        task.cancel()
    for outcome in await asyncio.gather(*tasks.values(), return_exceptions=True):
        if isinstance(outcome, Exception):
            log.error("the last turns failed", exc_info=outcome)
