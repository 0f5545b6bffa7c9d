"""Stage 5: how far back a context reaches, by messages, characters, or both: whichever limit is reached first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentic.context.entries import Entry
from agentic.context.options import Options

GROWTH = 4  # a context grows by this part of its characters before it is cut back to them
LABEL = 40  # characters of id, time and name, about


@dataclass(frozen=True, slots=True)
class Depth:
    """`messages` and `characters` (None: no limit) right after a cut; `step`: by how many messages the window then
    grows."""

    messages: int
    step: int
    characters: int | None = None

    @classmethod
    def of(cls, options: Options, share: float = 1.0) -> Depth:
        """`share`: the part of the messages (0 to 1) that the channel's theme needs; at least one message."""
        wanted = max(1, math.ceil(options.max_messages * share))
        return cls(wanted, options.step(wanted), options.max_characters)

    def start(self, entries: Sequence[Entry]) -> int:
        """Return the index of the first entry after a cut. The newest entry is always included."""
        earliest = max(0, len(entries) - self.messages)
        if self.characters is None:
            return earliest
        left, index = self.characters, len(entries)
        while index > earliest and (left := left - weight(entries[index - 1])) >= 0:
            index -= 1
        return min(index, max(0, len(entries) - 1))

    def allows(self, entries: Sequence[Entry]) -> bool:
        """Whether a window over these entries need not be cut yet."""
        if len(entries) > self.messages + self.step:
            return False
        if self.characters is None or len(entries) == 1:
            return True
        return sum(map(weight, entries)) <= self.characters + self.characters // GROWTH


def weight(entry: Entry) -> int:
    """The approximate number of characters that an entry takes."""
    return len(entry.text) + sum(map(len, entry.extras)) + LABEL
