"""Words of a text, as they are compared: casefolded, without marks; in scripts without spaces pairs of characters.

Words of any language are alike when they begin alike (ship, ships; Schiff, Schiffe; philosophy, philosophical), so no
list of endings is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

from agentic.similarity import runs

SHORTEST_WORD = 4  # letters; shorter words are mostly articles and particles
SHORTEST_BEGINNING = 4  # letters that two words share
SHARED_PART = 0.6  # of the longer one of the two


@lru_cache(maxsize=512)  # a conversation's last messages are read before each of its turns
def content_words(text: str) -> frozenset[str]:
    """The words that may carry a subject."""
    return frozenset(_content(text))


def _content(text: str) -> Iterator[str]:
    for run, spaceless in runs(text):
        if spaceless:
            yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))
        elif len(run) >= SHORTEST_WORD or run.isdigit():
            yield run


def alike(one: str, other: str) -> bool:
    """Whether two words are the same, or forms of one."""
    if one == other:
        return True
    shared = _shared_beginning(one, other)
    return shared >= SHORTEST_BEGINNING and shared >= SHARED_PART * max(len(one), len(other))


def in_common(words: Iterable[str], others: Iterable[str]) -> list[str]:
    """Those of `words` that are alike one of the others."""
    known = defaultdict[str, list[str]](list)  # by the beginning that words which are alike share
    for other in others:
        known[other[:SHORTEST_BEGINNING]].append(other)
    return [word for word in words if any(alike(word, other) for other in known.get(word[:SHORTEST_BEGINNING], ()))]


def _shared_beginning(one: str, other: str) -> int:
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return min(len(one), len(other))
