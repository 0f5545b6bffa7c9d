"""An agent as the policies see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Speaker:
    """`talkativeness`: 0 to 1, None where its persona says nothing. `interests`: its subjects."""

    name: str
    shown: str
    talkativeness: float | None = None
    interests: tuple[str, ...] = ()
