"""Turning a person's words to the listener's side: "my garden" → "your garden", "I disagree with you" → "you disagree
with me". Pure.

"I" and "me" are both "you", "am" and "are" both "are", so a word's neighbours decide. Where they do not, there is no
turned text: a wrong one reads worse than none.
"""

from __future__ import annotations

import re

from agentic.local.voices.phrases import words_of

_SAME = {
    "my": "your", "mine": "yours", "myself": "yourself", "me": "you", "your": "my", "yours": "mine",
    "yourself": "myself", "i'm": "you're", "i've": "you've", "i'll": "you'll", "i'd": "you'd", "you're": "I'm",
    "you've": "I've", "you'll": "I'll", "you'd": "I'd",
}  # fmt: skip
_BE_OF_YOU = {"am": "are", "was": "were", "wasn't": "weren't"}
_BE_OF_ME = {"are": "am", "were": "was", "weren't": "wasn't"}
_AUXILIARIES = words_of(
    "am are was were wasn't weren't do did does don't didn't have had haven't hadn't can can't could couldn't will"
    " won't would wouldn't should shouldn't may might must shall"
)
_VERBS = _AUXILIARIES | words_of(
    "agree ask asked believe came come disagree feel felt forget forgot gave get give go got hate hear heard help"
    " helped keep knew know learn leave left let like liked live look looked love loved made make mean meant meet met"
    " mentioned miss missed need never play played promise promised put read really remember repeat run said saw say"
    " see seem sent showed sleep speak spoke start take talk talked tell think thought took told tried try turn"
    " understand understood use used want wanted went work worked write wrote always also just only often still"
)
_ADVERBS = words_of("also always just never not often only probably really still")
_BEFORE_AN_OBJECT = words_of(
    "about against around at beside between by except for from in into near of on over past to toward towards under"
    " upon with without"
)
_TRANSITIVE = words_of(
    "ask asked believe bother call called find found follow give gave hate hear heard help helped invite kiss know"
    " like liked love loved meet met miss missed need remember saw see show showed tell thank thanks told trust want"
    " wanted watch welcome"
)
_BEFORE_A_CLAUSE = words_of("as believe feel glad guess heard hope know mean said say sure think thought wish")
_BEFORE_A_SUBJECT = words_of(
    "because but how if so that then though unless until what when whenever where whether which while who why"
)
_AFTER_AN_OBJECT = _BEFORE_AN_OBJECT | words_of(
    "a again already an and as at because but if or so soon than that the then though today tomorrow tonight too very"
    " when while yesterday"
)
_ALL_OF = re.compile(r"\b(all|both|each|either|few|half|many|most|none|one|some|any|two|three|four) of you\b", re.I)
_UNSAFE = re.compile(
    r"\b(?:(?:you|i|me) (?:and|or)|(?:and|or) (?:you|i|me)|you (?:all|both|guys|two|three|four|people|lot)|y'all"
    r"|we|us|our|ours|ourselves|yourselves|we're|we've|we'll|we'd|aren't (?:i|you)|ain't)\b",
    re.I,
)
_WRONG = re.compile(
    r"\b(?:of|to|for|with|at|from) I\b|\bare I\b|\bI are\b|\bam you\b|\byou (?:am|was)\b|\bI were\b", re.I
)
_WORD = re.compile(r"[\w'-]+|[^\w'-]+")


def turned(text: str, before: str = "") -> str | None:
    """Turn a sentence or a part of one; `before` is the word in front of it. None where no safe turning is known."""
    text = text.replace("’", "'")
    text = _ALL_OF.sub(r"\1 of us", text)
    if _UNSAFE.search(text.replace(" of us", "")):
        return None
    tokens = _WORD.findall(text)
    places = [place for place, token in enumerate(tokens) if token[0].isalnum()]
    words = [tokens[place] for place in places]
    new = _turned_words(words, before.lower())
    if new is None:
        return None
    for place, word in zip(places, new, strict=True):
        tokens[place] = word
    said = "".join(tokens)
    return None if _WRONG.search(said) else said


def _turned_words(words: list[str], before: str) -> list[str] | None:
    low = [word.lower() for word in words]
    new = [_SAME.get(word, kept) for word, kept in zip(low, words, strict=True)]
    for at, word in enumerate(low):
        if word == "i":
            new[at] = "you"
            _agree(low, new, at, _BE_OF_YOU)
        elif word == "you":
            role = _role(low, at, before)
            if role is None:
                return None
            new[at] = "I" if role == "subject" else "me"
            if role == "subject":
                _agree(low, new, at, _BE_OF_ME)
    return new


def _role(low: list[str], at: int, before: str) -> str | None:
    """Whether "you" is a subject or an object, None if that is not clear."""
    previous = low[at - 1] if at else before
    following = low[at + 1] if at + 1 < len(low) else ""
    if previous in _AUXILIARIES:
        return "subject"
    if previous in _BEFORE_AN_OBJECT:
        return None if following in _AUXILIARIES else "object"
    if previous in _BEFORE_A_SUBJECT or (not previous and following):
        return "subject"
    if previous in _TRANSITIVE and (not following or following in _AFTER_AN_OBJECT):
        return "object"
    return "subject" if following in _VERBS and previous in _BEFORE_A_CLAUSE else None


def _agree(low: list[str], new: list[str], at: int, forms: dict[str, str]) -> None:
    """Let a form of "to be" right before a subject, or after it and its adverbs, agree with the new one."""
    if at and low[at - 1] in forms:
        new[at - 1] = forms[low[at - 1]]
        return
    after = at + 1
    while after < len(low) and (low[after] in _ADVERBS or low[after].endswith("ly")):
        after += 1
    if after < len(low) and low[after] in forms:
        new[after] = forms[low[after]]
