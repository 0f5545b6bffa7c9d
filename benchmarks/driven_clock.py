"""A clock that a measurement moves on: the programs measure a day within minutes."""

from __future__ import annotations

import time


class DrivenClock:
    """Called, returns unix seconds: the time that really passes, and what it was moved on by."""

    def __init__(self) -> None:
        self._moved_on = 0.0

    def __call__(self) -> float:
        return time.time() + self._moved_on

    async def move_on(self, seconds: float) -> None:
        self._moved_on += seconds
