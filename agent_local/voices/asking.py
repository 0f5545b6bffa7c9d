"""Reading a person's message: its kind, and the words that an answer needs.

`understand` tries the most specific forms first; a message that fits none is reflected in the person's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent_local.voices.phrases import phrase, plain, turned

Kind = Literal[
    "greet", "how", "who", "help", "thanks", "bye", "joke",
    "draw", "opinion", "yesno", "math", "choice", "why", "reflect",
]  # fmt: skip

SMALL_TALK: frozenset[Kind] = frozenset({"greet", "how", "who", "help", "thanks", "bye", "joke", "draw"})

_THING = r"\s+(?P<x>.+)"
_WITH_SUBJECT: tuple[tuple[Kind, str], ...] = (
    ("draw", rf"\b(?:draw|paint|sketch)(?: me| us)?{_THING}"),
    ("draw", rf"\b(?:picture|image|drawing) of{_THING}"),
    ("opinion", rf"\b(?:think|opinion|opinions|take|view|views|thoughts|feel) (?:about|of|on){_THING}"),
    ("opinion", rf"\bdo you (?:like|love|hate|enjoy){_THING}"),
)
_PLAIN: tuple[tuple[Kind, str], ...] = (
    ("joke", r"\bjoke\b|\bmake (?:me|us) laugh\b"),
    ("who", r"\b(?:who|what) are you\b|\byour name\b|\bintroduce yourself\b"),
    ("who", r"\bare you (?:an? )?(?:real|human|ai|robot|bot|scripted|script|person|machine|llm|model)\b"),
    ("how", r"\bhow (?:are|r) (?:you|u)\b|\bhow(?:'s|’s| is) it going\b|\bwhat(?:'s|’s| is) up\b"),
    ("help", r"^help\b|\b(?:can|could) you help\b|\bwhat can (?:you|i) do\b|\bhow does (?:this|it) work\b"),
    ("thanks", r"\b(?:thanks|thank you|thx|cheers)\b"),
    ("bye", r"\b(?:bye|goodbye|good night|see you|see ya)\b"),
)
_SUM = re.compile(
    r"(?:what(?:'s|’s| is)|how much is|calculate)?[\s(]*\d[\d.,\s]*"
    r"(?:[-+×/^÷x]|%? ?of|plus|minus|times|divided by)[-+×/^÷x\d.,()\s]*[=?!.]*",
    re.IGNORECASE,
)
_WHY = re.compile(r"\bwhy\b.+", re.IGNORECASE)
_OR = re.compile(
    r"^(?:.*(?:[,:]|\b(?:rather|prefer|better|is it|pick|choose|do you want)\b))?\s*"
    r"(?P<a>[^,:?]+?),? or (?P<b>[^,:?]+)(?P<mark>\??)$",
    re.IGNORECASE,
)
_CHOOSING = re.compile(r"\b(?:rather|prefer|pick|choose)\b", re.IGNORECASE)
_YES_NO = re.compile(
    r"^(?:and |so |but )?(?:is|are|was|were|am|do|does|did|can|could|will|would|should|shall|has|have|had|may|might)"
    r"(?:n't)?\s.+",
    re.IGNORECASE,
)
_HELLO = re.compile(
    r"^(?:hi|hello|hey|heya|hiya|yo|howdy|greetings|good (?:morning|evening|afternoon|day))\b", re.IGNORECASE
)
_HELLO_WORDS = 4
_CLOSING = re.compile(r"^(?P<x>.+?)(?:[?!.]+(?:\s.*)?)?$")


@dataclass(frozen=True, slots=True)
class Utterance:
    """A message that was understood: `x` is its subject, or the question in the listener's words."""

    kind: Kind
    x: str = ""
    options: tuple[str, ...] = ()


def understand(text: str, names: Iterable[str] = ()) -> Utterance:
    """Read a person's message; `names` are the mentions to leave out."""
    said = plain(text, names).lstrip(",:;- ")
    if not said:
        return Utterance("greet")
    if _SUM.fullmatch(plain(text.replace("*", "×"), names).lstrip(",:;- ")):  # a * of a sum is no markup
        return Utterance("math")
    return _subject(said) or _set_phrase(said) or _question(said) or _statement(said)


def _subject(said: str) -> Utterance | None:
    for kind, pattern in _WITH_SUBJECT:
        match = re.search(pattern, said, re.IGNORECASE)
        if match and (x := _words(match["x"])):
            return Utterance(kind, x)
    return None


def _set_phrase(said: str) -> Utterance | None:
    return next((Utterance(kind) for kind, pattern in _PLAIN if re.search(pattern, said, re.IGNORECASE)), None)


def _question(said: str) -> Utterance | None:
    if match := _WHY.search(said):
        return Utterance("why", _words(match[0]))
    if (match := _OR.match(said)) and (match["mark"] or _CHOOSING.search(said)):
        return Utterance("choice", options=(_words(match["a"]), _words(match["b"])))
    if _YES_NO.match(said):
        return Utterance("yesno", _words(said))
    return None


def _statement(said: str) -> Utterance:
    if _HELLO.match(said) and len(said.split()) <= _HELLO_WORDS:
        return Utterance("greet")
    return Utterance("reflect", turned(phrase(said)))


def _words(text: str) -> str:
    """The first sentence, from the listener's side."""
    match = _CLOSING.match(text.strip())
    return turned(phrase(match["x"])) if match else ""
