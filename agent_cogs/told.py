"""Whom a bot has told something in a channel: nobody is told the same thing again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

TOLD_FOR = 60.0  # seconds: "ask me again in a minute"
EXPLAINED_FOR = 7 * 86400.0  # seconds, while the process lives: what a sign means
REMEMBERED = 1000  # people
EVERYBODY = 0


class Told:
    """One bot's memory of what it says. `clock` gives unix seconds; `seconds`: as long as it is not said again."""

    def __init__(self, clock: Callable[[], float], seconds: float = TOLD_FOR) -> None:
        self._clock, self._seconds = clock, seconds
        self._told: OrderedDict[tuple[int, int, str], float] = OrderedDict()  # channel, person and what → when

    def lately(self, channel_id: int, user_id: int, what: str = "") -> bool:
        """Whether the person was told there within that time."""
        return self._clock() - self._told.get((channel_id, user_id, what), -self._seconds) < self._seconds

    def note(self, channel_id: int, user_id: int, what: str = "") -> None:
        """The person is told now."""
        who = (channel_id, user_id, what)
        self._told[who] = self._clock()
        self._told.move_to_end(who)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
