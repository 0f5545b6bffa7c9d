"""The lines that a voice has used, so that it does not repeat itself."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence


class SaidLines:
    """Choose lines: an unused one if there is one, otherwise the one used longest ago."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._said: dict[str, int] = {}

    def fresh(self, lines: Iterable[str]) -> list[str]:
        return [line for line in lines if line not in self._said]

    def pick(self, lines: Sequence[str]) -> str:
        """Choose a line and remember it. Raises ValueError without lines."""
        if not lines:
            raise ValueError("no lines to choose from")
        unsaid = self.fresh(lines)
        line = self._rng.choice(unsaid) if unsaid else min(lines, key=self._said.__getitem__)
        self._said.pop(line, None)
        self._said[line] = max(self._said.values(), default=0) + 1
        return line
