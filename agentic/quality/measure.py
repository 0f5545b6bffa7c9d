"""Judge whether a bot's post is a good turn. Pure functions: no model is asked what it thinks of another.

A turn is good if its post has none of these faults:

    off topic       few words of the subject or of the last messages, and (with an embedding model) another meaning
    repeats         whole stretches of an earlier message, of the prompt, or of itself
    form or label   remains of the form, a name or role before the words, an introduction such as "Here's my reply:"
    wrong speaker   speaks as another bot, or to or about itself
    incomplete      ends in the middle of a sentence, is nearly empty, or is far too long
    language        another language than the conversation

The measure is strict where a reader notices immediately, and lenient elsewhere. It can't see whether a post is clever
or true: the conversations are written to a file to be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentic.language import language_of
from agentic.subject import RECENT, is_about
from agentic.text import tokens
from agentic.turn.cleaning import begins_a_form

Fault = Literal["off topic", "repeats", "form or label", "wrong speaker", "incomplete", "language"]
FAULTS: tuple[Fault, ...] = ("off topic", "repeats", "form or label", "wrong speaker", "incomplete", "language")

GRAM = 4  # words
MAX_COPIED = 0.3  # share of the post's grams that may be in the earlier messages
MAX_STRETCH = 9  # words in a row that may be copied, as a quotation
MAX_PROMPT_SHARE = 0.5  # grams that may be in the instructions
MAX_OWN_REPEATS = 0.25  # grams that may occur again in the post itself
MIN_WORDS = 4
MAX_WORDS = 300
MIN_MEANING = 0.45  # cosine of a post and its subject that counts as on topic without a shared word

_ROLES = r"assistant|user|system|model|human|ai|bot|answer|response|reply|message|text|topic|output|post|speaker|me|you"
_LABEL = r"(?im)^[ \t>*_#\[(-]*(?:{names})(?: \(you\))?[\])]?[*_]*[ \t]?[:：][*_]*(?=\s|\w|\Z)"
_MARKS = re.compile(r"\[(?:msg|note|reactions|tool|system|summary)\b|<\|[^|\n]{1,40}\||\[/?INST\]|</?s>|<(?:/)?think>")
_HEADING = re.compile(r"(?m)^#{1,4} \S")
_INTRODUCTION = re.compile(
    r"(?i)\A\W*(?:(?:sure|certainly|of course|absolutely|okay|ok)\b[^\n:.]{0,20}[,!.]\s*)?"
    r"(?:here(?:'s|’s| is| are)\b[^\n]{0,100}:|(?:sure|certainly|of course)[^\n]{0,80}:\s*(?:\n|$))"
)
_PLACEHOLDER = re.compile(r"(?i)\A\W*(?:\w+ or null|null|none|your message|message text|\.\.\.|…)\W*\Z")
_QUOTED = re.compile(r"(?m)^>.*$")
_ENDED = re.compile(r"[.!?…。！？؟।][\"'”’»)\]*_~`\s]*\Z|```\s*\Z|https?://\S+\s*\Z")
_CUT = re.compile(r"(?:\w|,|;|:)\s*(?:…|\.\.\.)\Z")  # "and so the…", as the program ends what the limit cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A post and what it is judged by. `topic` and `earlier` (messages, oldest first) are what it should be about;
    `others` the names of the other speakers; `instructions` the prompt without the messages; `meaning` the cosine of
    the post and its subject, if there is an embedding model."""

    speaker: str
    text: str
    topic: str = ""
    earlier: Sequence[str] = ()
    others: Collection[str] = ()
    instructions: str = ""
    meaning: float | None = None


def faults_of(post: Post) -> tuple[Fault, ...]:
    """Return what is wrong with the post, or nothing for a good one."""
    checks: Mapping[Fault, bool] = {
        "off topic": not is_on_topic(post),
        "repeats": repeats(post),
        "form or label": has_form(post),
        "wrong speaker": speaks_as_other(post),
        "incomplete": not is_complete(post.text),
        "language": is_in_another_language(post),
    }
    return tuple(fault for fault in FAULTS if checks[fault])


# -- on topic ----------------------------------------------------------------------------------------------------------


def is_on_topic(post: Post) -> bool:
    """Whether the post is about its topic or the last messages by its words, or near them in meaning."""
    if post.meaning is not None and post.meaning >= MIN_MEANING:
        return True
    return is_about(post.text, post.topic, post.earlier)


# -- repeats -----------------------------------------------------------------------------------------------------------


def repeats(post: Post) -> bool:
    words = tokens(_QUOTED.sub(" ", post.text))
    grams = _grams(words)
    if not grams:
        return bool(words) and any(words == tokens(text) for text in post.earlier)
    known = {gram for text in post.earlier for gram in _grams(tokens(text))}
    if _share(grams, known) > MAX_COPIED or _longest_stretch(grams, known) > MAX_STRETCH:
        return True
    told = set(_grams(tokens(post.instructions)))
    if _share(grams, told) > MAX_PROMPT_SHARE or _longest_stretch(grams, told) > MAX_STRETCH:
        return True
    again = sum(count - 1 for count in Counter(grams).values())
    return again / len(grams) > MAX_OWN_REPEATS


def _grams(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1)]


def _share(grams: Sequence[tuple[str, ...]], known: Collection[tuple[str, ...]]) -> float:
    return sum(gram in known for gram in grams) / len(grams)


def _longest_stretch(grams: Sequence[tuple[str, ...]], known: Collection[tuple[str, ...]]) -> int:
    """Return the number of words in the longest run of known grams."""
    longest = run = 0
    for gram in grams:
        run = run + 1 if gram in known else 0
        longest = max(longest, run)
    return longest + GRAM - 1 if longest else 0


# -- form and speaker --------------------------------------------------------------------------------------------------


def has_form(post: Post) -> bool:
    text = post.text
    return bool(
        begins_a_form(text)
        or _MARKS.search(text)
        or _HEADING.search(text)
        or _INTRODUCTION.search(text)
        or _PLACEHOLDER.search(text)
        or re.search(_LABEL.format(names=_ROLES), text)
        or _has_label(text, (post.speaker, *post.others))
    )


def speaks_as_other(post: Post) -> bool:
    """Whether it has another one's label, claims another one's name, or talks to or about its own speaker."""
    others, own = _either(post.others), re.escape(post.speaker)
    if _has_label(post.text, post.others) or re.search(rf"[.!?…\"”] (?:{others}): ", post.text):
        return True
    claims = (
        rf"(?i)\b(?:I am|I['’]m|my name is|this is|speaking as)\s+(?:{others})\b(?!['’])(?=\W*(?:here|and|,|\.|!|$))"
    )
    if post.others and re.search(claims, post.text):
        return True
    if post.others and re.search(rf"(?i)\A\W*(?:as )?(?:{others}) here\b|\A\W*as (?:{others}), I\b", post.text):
        return True
    addresses = rf"(?i)\A\W*@?{own}\s*,|[,\s]@{own}\b|\b(?:agree with|thanks|thank you|hi|hello|hey),?\s+{own}\b"
    verbs = r"is|was|has|would|will|can|should|must|did|[a-z]+s"
    about_itself = rf"(?<!I am )(?<!I['’]m )\b{own}(?:['’]s\s+[a-z]|\s+(?:{verbs})\b)"
    return any(re.search(pattern, post.text) for pattern in (addresses, about_itself))


def _has_label(text: str, names: Collection[str]) -> bool:
    return bool(names) and re.search(_LABEL.format(names=_either(names)), text) is not None


def _either(names: Collection[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or r"(?!)"


# -- complete ----------------------------------------------------------------------------------------------------------


def is_complete(text: str) -> bool:
    """Whether it is a whole text of a bearable length: it ends a sentence, or with an emoji."""
    words, said = tokens(text), text.rstrip()
    if len(words) < MIN_WORDS:
        return any(not char.isascii() for char in said) or (len(words) >= 2 and bool(_ENDED.search(said)))
    if len(words) > MAX_WORDS or _CUT.search(said) or said.count("```") % 2:
        return False
    return bool(_ENDED.search(said)) or not (said[-1].isalnum() or said[-1] in ",;:-–—(\"'{[<*_`")


# -- language ----------------------------------------------------------------------------------------------------------


def is_in_another_language(post: Post) -> bool:
    """Whether the post is certainly in another language than its subject and the messages before it."""
    place = " ".join((post.topic, *post.earlier[-RECENT:]))
    own, theirs = language_of(post.text), language_of(place)
    return own is not None and theirs is not None and own != theirs
