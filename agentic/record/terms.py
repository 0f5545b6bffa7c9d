"""The terms by which memories are found: words of any script as they are compared, and the forms that are alike.

SQLite's tokenizers do not split Chinese, Japanese or Thai, so texts are split here, and the index has the terms with
spaces between them. Terms are letters and digits alone, so a query of them has no operators.
"""

from __future__ import annotations

import math

from agentic.similarity import runs

SHORTEST = 3  # letters of a word; with digits also shorter ones
BEGINNING = 4  # letters that forms of one word share at least
SHARED_PART = 0.6  # of the longer one of the two
MOST_LETTERS = 40  # of a term

# Words that are in every question. A long log shows by itself that they are common; a short one does not.
_QUESTION_WORDS = """
    about all and any are but can could did does ever for from had has have her here him his how its like may mention
    mentioned more not now our out said say she should some tell that the their them then there they thing things think
    this was were what when where which who why will with would you your
    aber als auch auf aus bei bin das dass dem den der des die dies ein eine einen einer erzählt etwas gesagt haben hat
    hatte ich ihr ist kann mal mir mit nach nicht noch oder schon sein sich sie sind über und uns von war warum was wann
    wenn wer wie wir wird wurde zum zur
    avec ce ces cette dans des dit elle est être les leur lui mais nous par pas pour qu que quel quelle quand qui quoi
    son sont sur une vous
    como con cuál cuando del dijo donde ella ellos esta este esto las los más para pero por porque qué que quién son
    sus una
"""
_IN_QUESTIONS = frozenset(_QUESTION_WORDS.split())


def terms(text: str) -> list[str]:
    """The terms of a text in order; in scripts without spaces pairs of characters."""
    found: list[str] = []
    for run, spaceless in runs(text):
        if spaceless:
            found += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
        elif len(run) >= SHORTEST or not run.isalpha():
            found.append(run[:MOST_LETTERS])
    return found


def asked_terms(query: str) -> list[str]:
    """The terms of a question that may be its subject, each once."""
    return [term for term in dict.fromkeys(terms(query)) if term not in _IN_QUESTIONS]


def index_terms(text: str) -> str:
    return " ".join(terms(text))


def beginning(term: str) -> str:
    """The letters that all forms of a word begin with: "tomatoes" → "tomat", as tomato. Short words have none."""
    if len(term) < BEGINNING or not term.isalpha():
        return term
    return term[: max(BEGINNING, math.ceil(SHARED_PART * len(term)))]


def has_forms(term: str) -> bool:
    return len(term) >= BEGINNING and term.isalpha()


def alike(one: str, other: str) -> bool:
    """Whether two terms are the same, or forms of one word."""
    if one == other:
        return True
    longer = max(len(one), len(other))
    shared = max(BEGINNING, math.ceil(SHARED_PART * longer))
    return min(len(one), len(other)) >= shared and one[:shared] == other[:shared] and (one + other).isalpha()
