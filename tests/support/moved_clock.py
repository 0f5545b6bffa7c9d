"""A clock that a test moves ahead, for a whole program in which nobody writes for hours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from agentic.runtime.process import Runtime


class MovedClock:
    """Unix seconds: the time of day, and what it was moved ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead

    async def nobody_writes_for(
        self, seconds: float, runtime: Runtime, condition: Callable[[], object], within: float = 60.0
    ) -> None:
        """Move the clock so far that the last person's message is `seconds` old, and wait for the condition."""
        assert runtime.coordinator is not None
        async with asyncio.timeout(within):
            while not condition():
                # Again and again, since the coordinator may hear of a person's message only now.
                self.ahead += max(0.0, runtime.coordinator.idle._board.person_at + seconds - self())
                await asyncio.sleep(0.005)
