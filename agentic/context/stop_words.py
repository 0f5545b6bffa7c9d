"""Recognise an order to be silent or to speak again: a message that holds nothing else.

People write it in a hurry, so what stands around the words does not matter: signs of sentences and of markup, emoji, a
slash before it, wide letters, characters that nobody sees.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

MAX_ORDER = 200  # characters, mentions included

_MENTION = re.compile(r"<@[!&]?\d+>")
_ORDER = re.compile(r"(stop|resume)(?:[ .,!]+\1)*(?: (\d{1,4}) ?(m|min|minutes?|h|hours?)?)?", re.IGNORECASE)
_QUOTED = re.compile(r"\s*>")  # words of somebody else


@dataclass(frozen=True, slots=True)
class Order:
    """A person's order. `seconds`: None if no time was given."""

    word: Literal["stop", "resume"]
    seconds: float | None = None


def order_in(text: str) -> Order | None:
    """Return the order that a message consists of, ignoring mentions: "stop", "stop 30" (minutes), "stop 2h",
    "resume"."""
    if len(text) > MAX_ORDER or _QUOTED.match(text):
        return None
    found = _ORDER.fullmatch(_bare(_MENTION.sub(" ", text)))
    if found is None:
        return None
    if found[1].lower() == "resume":
        return Order("resume") if found[2] is None and "?" not in text else None
    unit = 3600 if (found[3] or "m").lower().startswith("h") else 60
    return Order("stop", float(found[2]) * unit if found[2] and int(found[2]) else None)


def _bare(text: str) -> str:
    """The text on one line from its first letter or digit to its last."""
    plain = unicodedata.normalize("NFKC", text)
    seen = "".join(char for char in plain if char.isspace() or unicodedata.category(char) not in ("Cc", "Cf"))
    places = [place for place, char in enumerate(seen) if char.isalnum()]
    return " ".join(seen[places[0] : places[-1] + 1].split()) if places else ""
