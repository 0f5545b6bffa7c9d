"""Whether a text says nearly what another one said: words in any script, and their shingles, alike on both sides.

A shingle is a run of SHINGLE words. Texts are compared by the share of the newer one's shingles that an earlier one
has, so a long answer to a short one repeats nothing, and a text within a longer one repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agentic.coordination_names import folded

SHINGLE = 3  # words
SAID_BEFORE = 0.5  # of the text's shingles, in one earlier text
FEWEST_SHINGLES = 4  # a shorter text repeats nothing

_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"  # Thai, Burmese, Khmer, Japanese, Chinese
)
_RUN = re.compile(rf"[{_SPACELESS}]+|[^\W_{_SPACELESS}]+")
_IS_SPACELESS = re.compile(rf"[{_SPACELESS}]")
_MARKS = re.compile(r"https?://\S+|<[@#:a][^<>\s]*+>")  # addresses; mentions and emoji as Discord writes them

Shingles = frozenset[tuple[str, ...]]


def runs(text: str) -> Iterator[tuple[str, bool]]:
    """Runs of letters and digits, casefolded, without addresses and marks, and whether the script has no spaces."""
    for run in _RUN.findall(folded(_MARKS.sub(" ", text))):
        yield run, _IS_SPACELESS.match(run) is not None


def tokens(text: str) -> list[str]:
    """All words in order; a character of a script without spaces is one by itself."""
    found: list[str] = []
    for run, spaceless in runs(text):
        found.extend(run if spaceless else (run,))
    return found


def shingles(text: str) -> Shingles:
    words = tokens(text)
    return frozenset(tuple(words[at : at + SHINGLE]) for at in range(len(words) - SHINGLE + 1))


def says_again(text: str, earlier: Iterable[str]) -> bool:
    """Whether the text says nearly what one of the earlier ones said."""
    own = shingles(text)
    if len(own) < FEWEST_SHINGLES:
        return False
    return any(len(own & shingles(other)) >= SAID_BEFORE * len(own) for other in earlier)
