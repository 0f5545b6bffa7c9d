"""Quoting other people: pure functions over text from a chat."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_PHRASE = 80  # characters
QUOTE_WORDS = range(3, 9)

_MARKUP = re.compile(r"<[@#:][^<>\n]{0,100}>|https?://\S+|[*_~|`]+")
_QUOTES = re.compile(r"[\"“”„«»]")
_CLAUSES = re.compile(r"[.!?;:,\n…()]+")
_FIRST = re.compile(r"^(?P<x>.+?)(?:(?<![?!.])[?!.]++(?:\s.*)?)?$")
_SUBTEXT = re.compile(r"^-# .*$", re.MULTILINE)  # Discord's small print: the note under an answer


def words_of(text: str) -> frozenset[str]:
    """A set of words, written as a text."""
    return frozenset(text.split())


_NO_BEGINNING = words_of(
    "and but or so which since because that if when while whatever whether what who where how has have is are do does"
    " can would could let pull"
)


def plain(text: str, names: Iterable[str] = ()) -> str:
    """Reduce a text to one line without markup, links, quotation marks or mentions of `names`; other @names lose
    their @."""
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


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence, without the mark that ends it."""
    match = _FIRST.match(text.strip())
    return match["x"] if match else ""


def quotable(text: str) -> str | None:
    """The first clause that is short enough to be quoted."""
    if "[posted image" in text:
        return None
    for clause in _CLAUSES.split(plain(gist(text))):
        words = clause.split()
        if len(words) in QUOTE_WORDS and len(clause) <= MAX_PHRASE and words[0].lower() not in _NO_BEGINNING:
            return clause.strip()
    return None


def gist(text: str) -> str:
    """The words after the last colon, without the introduction."""
    return text.rpartition(": ")[2].strip()


def capital(text: str) -> str:
    """Begin with a capital letter, also inside of a quotation mark."""
    start = len(text) - len(text.lstrip('"“'))
    return text[:start] + text[start : start + 1].upper() + text[start + 1 :]
