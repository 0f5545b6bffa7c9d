"""Discord's ids: 42 bits of milliseconds since 2015, then 22 bits that distinguish ids of one millisecond.

A later id is always larger, even if the clock stops or steps back: histories are ordered by id.
"""

from collections.abc import Callable
from datetime import UTC, datetime

DISCORD_EPOCH_MS = 1_420_070_400_000
_SHIFT = 22


class Snowflakes:
    """Make strictly increasing ids, larger than `after`. `clock` returns unix seconds."""

    def __init__(self, clock: Callable[[], float], after: int = 0) -> None:
        self._clock = clock
        self._last = after

    def next(self) -> int:
        fresh = (int(self._clock() * 1000) - DISCORD_EPOCH_MS) << _SHIFT
        self._last = fresh if fresh > self._last else self._last + 1
        return self._last


def created_at(snowflake: int) -> float:
    """The id's time in unix seconds."""
    return ((snowflake >> _SHIFT) + DISCORD_EPOCH_MS) / 1000


def iso(unix_seconds: float) -> str:
    """A timestamp as Discord writes it: 2026-11-20T11:32:53.123000+00:00."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="microseconds")
