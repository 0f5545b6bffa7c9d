"""Recognise an order to be silent or to speak again: a message that holds nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

MAX_ORDER = 200  # characters, mentions included

_MENTION = re.compile(r"<@[!&]?\d+>")
_ORDER = re.compile(r"(stop|resume)(?: +(\d{1,4}) ?(m|min|minutes?|h|hours?)?)?[ .!]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Order:
    """A person's order. `seconds`: None if no time was given."""

    word: Literal["stop", "resume"]
    seconds: float | None = None


def order_in(text: str) -> Order | None:
    """Return the order that a message consists of, ignoring mentions: "stop", "stop 30" (minutes), "stop 2h",
    "resume"."""
    if len(text) > MAX_ORDER:
        return None
    found = _ORDER.fullmatch(" ".join(_MENTION.sub(" ", text).split()))
    if found is None:
        return None
    if found[1].lower() == "resume":
        return Order("resume") if found[2] is None else None
    unit = 3600 if (found[3] or "m").lower().startswith("h") else 60
    return Order("stop", float(found[2]) * unit if found[2] and int(found[2]) else None)
