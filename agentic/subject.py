"""Which words of a text carry its subject, and whether two texts share one. Pure functions, no model.

Words that begin alike count as forms of one word (ship, ships; Schiff, Schiffe), so no list of endings is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from agentic.text import runs, tokens

MIN_WORD = 4  # letters; shorter words are mostly articles and particles
MIN_BEGINNING = 4  # letters that two words share
SHARED_PART = 0.6  # of the longer word
RECENT = 3  # messages that a text may take up instead of the topic

_COMMON_WORDS = """
    about above across actually after again against agree almost along already also although always among another
    anyone anything around because become been before begin being believe best better between both bring came cannot
    case certain come could course different does doing done down each early either else enough even ever every everyone
    everything example exactly fact find first from gets give given goes going good great have having hear here idea
    important indeed instead into itself just keep kind know last later least less like likely little long look made
    main make makes making many matter maybe mean means might more most much must myself need needs never next nobody
    nothing often once only other others over part people perhaps place point possible probably question quite rather
    real really reason right said same says seem seems seen several shall should show simply since some someone
    something sometimes still such sure take takes talk tell than that their them then there these they thing things
    think this those though thought through today together told true truly under until upon used using usually very want
    well were what when where whether which while whole whom whose will with within without word words work would wrong
    your yours you're that's it's don't claude chatgpt gemini grok"""
COMMON = frozenset(_COMMON_WORDS.split())
"""Words that two texts may share without a common subject."""


def is_about(text: str, topic: str, earlier: Sequence[str] = ()) -> bool:
    """Whether the text shares a word with the topic, or two with the last of the `earlier` messages, oldest first."""
    said, subject = content_words(text) - COMMON, content_words(topic) - COMMON
    if in_common(subject, said) or set(map(_singular, subject)) & set(map(_singular, tokens(text))):
        return True
    recent = {word for each in earlier[-RECENT:] for word in content_words(each)} - COMMON
    if not recent and not topic:
        return True
    return len(in_common(recent, said)) >= 2


def _singular(word: str) -> str:
    """Return "car" for "cars", and "city" for "cities"."""
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


@lru_cache(maxsize=512)  # a conversation's last messages are read before each of its turns
def content_words(text: str) -> frozenset[str]:
    """Return the words that may carry a subject."""
    words: set[str] = set()
    for run, spaceless in runs(text):
        if spaceless:
            words.update(run[at : at + 2] for at in range(max(1, len(run) - 1)))
        elif len(run) >= MIN_WORD or run.isdigit():
            words.add(run)
    return frozenset(words)


def alike(one: str, other: str) -> bool:
    """Whether two words are the same, or forms of one."""
    differ = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    shared = next(differ, min(len(one), len(other)))
    return one == other or (shared >= MIN_BEGINNING and shared >= SHARED_PART * max(len(one), len(other)))


def in_common(words: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the `words` that are like any of the others."""
    known = defaultdict[str, list[str]](list)  # by beginning, which words that are alike share
    for other in others:
        known[other[:MIN_BEGINNING]].append(other)
    return [word for word in words if any(alike(word, other) for other in known.get(word[:MIN_BEGINNING], ()))]
