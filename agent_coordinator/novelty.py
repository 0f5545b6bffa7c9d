"""A judge of whether a conversation still brings anything new: pure, by code, for all policies.

Looked for, in the newest messages of the agents since a person last wrote: one that says nearly what an earlier one
said, the same first words again and again, mutual agreement, farewells, thanks. What repeats gets a new angle, which
the next speaker is given in words of ours; nothing of the messages is in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from agent_coordinator.phrases import AGREEMENT, FAREWELL, THANKS, says
from agentic.similarity import says_again, tokens

Repetition = Literal["duplicate", "openings", "agreement", "farewells", "thanks"]

COMPARED = 12  # earlier messages
OPENING_WORDS = 3
SAME_OPENINGS = 3  # of the last LOOKED_AT messages
LOOKED_AT = 4
AGREEMENTS = 3  # in a row
FIRST_WORDS = 15  # where a message says that it agrees
COURTESIES = 2  # farewells or thanks in a row
SHORT = 30  # words; a longer message has more in it than a courtesy

ANGLES: Mapping[Repetition, str] = {
    "duplicate": "something that nobody has mentioned yet, since the talk repeats itself: a case, a number, a cost, or "
    "somebody whom it concerns",
    "openings": "another beginning than the last messages had, and an example, a doubt or a consequence that nobody "
    "has drawn",
    "agreement": "the other side, for all have agreed: a flaw, something missing, or a question that it leaves open",
    "farewells": "something new that is worth staying for, instead of another goodbye",
    "thanks": "something new, instead of more thanks",
}


def repetition_in(texts: Sequence[str]) -> Repetition | None:
    """How the newest of these messages, oldest first, repeats the others; None where it is new."""
    return next((kind for kind, repeats in _CHECKS.items() if repeats(texts)), None)


def _is_duplicate(texts: Sequence[str]) -> bool:
    return says_again(texts[-1], texts[-COMPARED - 1 : -1])


def _begins_alike(texts: Sequence[str]) -> bool:
    openings = [tuple(tokens(text)[:OPENING_WORDS]) for text in texts[-LOOKED_AT:]]
    return len(openings[-1]) == OPENING_WORDS and Counter(openings)[openings[-1]] >= SAME_OPENINGS


def _all_agree(texts: Sequence[str]) -> bool:
    last = texts[-AGREEMENTS:]
    return len(last) == AGREEMENTS and all(says(" ".join(text.split()[:FIRST_WORDS]), AGREEMENT) for text in last)


def _all_are(phrases: tuple[str, ...]) -> Callable[[Sequence[str]], bool]:
    def courtesies(texts: Sequence[str]) -> bool:
        last = texts[-COURTESIES:]
        return len(last) == COURTESIES and all(len(tokens(text)) <= SHORT and says(text, phrases) for text in last)

    return courtesies


_CHECKS: Mapping[Repetition, Callable[[Sequence[str]], bool]] = {
    "duplicate": lambda texts: bool(texts) and _is_duplicate(texts),
    "openings": lambda texts: bool(texts) and _begins_alike(texts),
    "agreement": _all_agree,
    "farewells": _all_are(FAREWELL),
    "thanks": _all_are(THANKS),
}
