"""Throttle status replies: one per person, channel and minute."""

from __future__ import annotations

from collections.abc import Callable

from cachetools import TTLCache

REPLY_SECONDS = 60.0  # as the replies say: "ask me again in a minute"
EXPLAINED_SECONDS = 7 * 86400.0  # for the explanation of a sign, while the process lives
REMEMBERED = 1000  # people
EVERYBODY = 0


class ReplyThrottle:
    """Remember a bot's replies for `seconds`. `clock` gives unix seconds."""

    def __init__(self, clock: Callable[[], float], seconds: float = REPLY_SECONDS) -> None:
        self._replies: TTLCache[tuple[int, int, str], None] = TTLCache(
            REMEMBERED, seconds, clock
        )  # channel, person, what

    def recently(self, channel_id: int, user_id: int, what: str = "") -> bool:
        """Whether the person got this reply in the channel within that time."""
        return (channel_id, user_id, what) in self._replies

    def note(self, channel_id: int, user_id: int, what: str = "") -> None:
        """Record a reply."""
        self._replies[channel_id, user_id, what] = None
