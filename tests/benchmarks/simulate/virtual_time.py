"""An event loop without waiting: when nothing is left to do now, its clock jumps to the next timer.

asyncio's own sleeps and timeouts follow it, so code that takes its time from the loop lives through a week in minutes.
Nothing may come from outside (sockets, threads): nobody would know at which virtual time it came.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingToWaitFor(Exception):
    """All tasks wait for something that nobody will do."""


class _Jumping(selectors.SelectSelector):
    """Instead of waiting for so long, move the clock on by it. The loop's own socket pair is the only one registered,
    and silent."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise NothingToWaitFor("every task waits, and no timer is left")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is in seconds since its start."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine as asyncio.run does, in virtual time. Raises NothingToWaitFor."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
