"""Whom a bot has just told something in a channel: nobody is told the same thing again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

TOLD_FOR = 60.0  # seconds: "ask me again in a minute"
REMEMBERED = 1000  # people


class Told:
    """One bot's memory of one thing that it says. `clock` gives unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: OrderedDict[tuple[int, int], float] = OrderedDict()  # channel and person → when

    def lately(self, channel_id: int, user_id: int) -> bool:
        """Whether the person was told there within the last minute."""
        return self._clock() - self._told.get((channel_id, user_id), -TOLD_FOR) < TOLD_FOR

    def note(self, channel_id: int, user_id: int) -> None:
        """The person is told now."""
        who = (channel_id, user_id)
        self._told[who] = self._clock()
        self._told.move_to_end(who)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
