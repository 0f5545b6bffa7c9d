"""The lines that a voice has used, so that it does not repeat itself."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from zlib import crc32

MOST_ROOMS = 32  # that are remembered, the newest ones
_DIGITS = 8  # of a line's mark

Marks = dict[int, int]
"""Line's mark → when it was used: 0, 1, 2, …"""


class SaidInRooms:
    """The lines that were said in each room, by its topic. The voices of a process share them, so that no line is said
    twice in a room by anybody."""

    def __init__(self) -> None:
        self._marks: OrderedDict[str, Marks] = OrderedDict()

    def of(self, topic: str) -> Marks:
        marks = self._marks.setdefault(topic, {})
        self._marks.move_to_end(topic)
        while len(self._marks) > MOST_ROOMS:
            self._marks.popitem(last=False)
        return marks


class SaidLines:
    """Choose lines: an unused one if there is one, otherwise the one used longest ago. A line is remembered by a mark
    of 32 bits."""

    def __init__(self, rng: random.Random, marks: str = "", said: Marks | None = None) -> None:
        """`marks`: what `marks` of another object returned; `said`: a memory to share."""
        self._rng = rng
        starts = range(0, len(marks), _DIGITS)
        self._said = {} if said is None else said
        self._said |= {int(marks[start : start + _DIGITS], 16): number for number, start in enumerate(starts)}

    @property
    def marks(self) -> str:
        """The marks of the used lines, the one used longest ago first."""
        return "".join(f"{mark:0{_DIGITS}x}" for mark in self._said)

    def fresh(self, lines: Iterable[str]) -> list[str]:
        return [line for line in lines if _mark(line) not in self._said]

    def pick(self, lines: Sequence[str]) -> str:
        """Choose a line and remember it. Raises ValueError without lines."""
        if not lines:
            raise ValueError("no lines to choose from")
        unsaid = self.fresh(lines)
        line = self._rng.choice(unsaid) if unsaid else min(lines, key=lambda used: self._said[_mark(used)])
        self._said.pop(_mark(line), None)
        self._said[_mark(line)] = max(self._said.values(), default=0) + 1
        return line


def _mark(line: str) -> int:
    return crc32(line.encode())
