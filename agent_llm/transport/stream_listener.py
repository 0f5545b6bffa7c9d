"""Who hears an answer as it grows, and what an attempt is known to have cost before it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent_llm.types import Usage


@dataclass(slots=True)
class Hearing:
    """Hears the whole text so far each time it has changed; "" when an attempt begins, or an answer begins anew.

    `told` is what the provider has said so far of the attempt's cost: one that is cut in the middle is billed too.
    """

    hear: Callable[[str], None]
    told: Usage | None = None
    _heard: str | None = None

    def begin(self) -> None:
        """An attempt begins."""
        self.told, self._heard = None, None
        self("")

    def __call__(self, text: str) -> None:
        if text != self._heard:
            self._heard = text
            self.hear(text)
