"""Whom a bot has told something in a channel: nobody is told the same thing again and again."""

from __future__ import annotations

from collections.abc import Callable

from cachetools import TTLCache

TOLD_FOR = 60.0  # seconds: "ask me again in a minute"
EXPLAINED_FOR = 7 * 86400.0  # seconds, while the process lives: what a sign means
REMEMBERED = 1000  # people
EVERYBODY = 0


class ReplyThrottle:
    """One bot's memory of what it says. `clock` gives unix seconds; `seconds`: as long as it is not said again."""

    def __init__(self, clock: Callable[[], float], seconds: float = TOLD_FOR) -> None:
        self._told: TTLCache[tuple[int, int, str], None] = TTLCache(REMEMBERED, seconds, clock)  # channel, person, what

    def recently(self, channel_id: int, user_id: int, what: str = "") -> bool:
        """Whether the person was told there within that time."""
        return (channel_id, user_id, what) in self._told

    def note(self, channel_id: int, user_id: int, what: str = "") -> None:
        """The person is told now."""
        self._told[channel_id, user_id, what] = None
