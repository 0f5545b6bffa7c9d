"""New ids, as Discord gives them.

A later id is always larger, even if the clock stops or steps back: histories are ordered by id.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from agentic.ids import id_at


class Snowflakes:
    """Make strictly increasing ids, larger than `after`. `clock` returns unix seconds."""

    def __init__(self, clock: Callable[[], float], after: int = 0) -> None:
        self._clock = clock
        self._last = after

    def next(self) -> int:
        fresh = id_at(self._clock())
        self._last = fresh if fresh > self._last else self._last + 1
        return self._last


def iso(unix_seconds: float) -> str:
    """A timestamp as Discord writes it: 2026-11-20T11:32:53.123000+00:00."""
    return datetime.fromtimestamp(unix_seconds, UTC).isoformat(timespec="microseconds")
