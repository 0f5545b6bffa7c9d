"""Works on the words of people: one line without markup, cut at a length, as it can be quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_PHRASE = 80  # characters

_MARKUP = re.compile(r"<[@#:][^<>\n]{0,100}>|https?://\S+|[*_~|`]+")
_QUOTES = re.compile(r"[\"“”„«»]")
_FIRST = re.compile(r"^(?P<x>.+?)(?:(?<![?!.])[?!.]++(?:\s.*)?)?$")
_SUBTEXT = re.compile(r"^-# .*$", re.MULTILINE)  # Discord's small print: the note under an answer


def plain(text: str, names: Iterable[str] = ()) -> str:
    """Reduce a text to a line without markup, links, quotation marks, or mentions of `names`, and with no other @."""
    text = _QUOTES.sub("", _MARKUP.sub(" ", _SUBTEXT.sub("", text)))
    for name in sorted(filter(None, names), key=len, reverse=True):
        text = re.sub(rf"@{re.escape(name)}\b[,:]?", " ", text, flags=re.IGNORECASE)
    return " ".join(text.replace("@", "").split())


def phrase(text: str, limit: int = MAX_PHRASE) -> str:
    """Strip closing punctuation, and cut between words at `limit` characters."""
    text = text.strip().rstrip("?!.,;: ")
    if len(text) <= limit:
        return text
    return text[:limit].rpartition(" ")[0] or text[:limit]


def clipped(text: str, limit: int = MAX_PHRASE) -> str:
    """Return the text; if it's longer than `limit`, cut between words, with an ellipsis."""
    return text if len(text) <= limit else f"{phrase(text, limit - 1)}…"


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence, without the mark that ends it."""
    match = _FIRST.match(text.strip())
    return match["x"] if match else ""


def capital(text: str) -> str:
    """Begin with a capital letter, even after a quotation mark."""
    start = len(text) - len(text.lstrip('"“'))
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]
