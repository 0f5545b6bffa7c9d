"""The pace of turns in private chats.

Nothing there has a cooldown, and no message is refused. So that a flood of messages doesn't become a flood of turns, a
chat has at most MENTIONS_PER_MINUTE turns a minute: the next one waits, and what the person writes meanwhile joins it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from cachetools import LRUCache

MINUTE = 60.0
MAX_CHATS = 1000  # remembered


class PrivatePace:
    """Remember when the turns of each chat began. `clock` gives unix seconds."""

    def __init__(self, a_minute: int, clock: Callable[[], float]) -> None:
        self._a_minute, self._clock = max(1, a_minute), clock
        self._begun: LRUCache[int, deque[float]] = LRUCache(MAX_CHATS)

    def note(self, channel_id: int) -> None:
        """Record that a turn begins."""
        self._recent(channel_id).append(self._clock())

    def seconds_left(self, channel_id: int) -> float:
        """Return how long the chat's next turn has to wait."""
        begun = self._recent(channel_id)
        return begun[0] + MINUTE - self._clock() if len(begun) >= self._a_minute else 0.0

    def _recent(self, channel_id: int) -> deque[float]:
        """Return the beginnings of the last minute; a clock that was set back makes none of them last longer."""
        now = self._clock()
        begun = deque(at for at in self._begun.get(channel_id, ()) if 0 <= now - at < MINUTE)
        self._begun[channel_id] = begun
        return begun
