"""What a scripted voice says to people: it greets, jokes, draws, and chooses, and otherwise says what it is.

A message is read for its kind, which is a section of the answers' files. A note under the first answer to a person, and
under every sixth from then on, says that the line was written in advance, and what to set for a real answer.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from agentic.local.voices.scenes import Heard, answers_of
from agentic.local.voices.turn import Turn
from agentic.local.voices.wording import capital, first_sentence, phrase, plain

NOTE = "scripted line"
NOTE_EVERY = 6  # answers to a person
MAX_READ = 2_000  # characters of a message
MAX_QUOTE = 100  # characters of a person's words, or of a task
SHORT = 6  # words of a greeting, a thank-you, or a goodbye that is nothing else
GENTLE_THEMES = ("vent", "spiritual")

_LINK = re.compile(r"https?://")
_WORD = re.compile(r"[^\W_]")
_KINDS = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        (
            "crisis",
            r"\b(?:kill(?:ing)? myself|suicid\w*|end (?:my|it) (?:life|all)|want to die|wanna die|hurt(?:ing)? myself"
            r"|harm(?:ing)? myself|self.harm|no reason to live)\b",
        ),
        (
            "sad",
            r"\b(?:i(?:'m|’m| am| feel)(?: \w+)? (?:sad|lonely|depressed|heartbroken|miserable|hopeless|grieving|scared"
            r"|afraid|exhausted|overwhelmed)|my\b.{0,40}\b(?:died|passed away|is dying)|broke up with me"
            r"|(?:nobody|no one)(?: ever| really)? (?:listens|likes|loves|cares|understands)|lost my (?:job|\w*mother"
            r"|\w*father|\w*mum|\w*mom|\w*dad|brother|sister|wife|husband|partner|friend|dog|cat|baby))\b",
        ),
        ("draw", r"\b(?:draw|paint|sketch)(?: me| us)?\s+(?P<x>.+)|\b(?:picture|image|drawing) of\s+(?P<y>.+)"),
        ("joke", r"\b(?:tell|know|another|any|got|good|make)\b.*\bjokes?\b|^jokes?\b|\bmake (?:me|us) laugh\b"),
        (
            "who",
            r"\b(?:who|what) (?:exactly |really )?are you\b|\byour name\b|\bintroduce yourself\b"
            r"|\bare you (?:really )?(?:an? )?(?:real|human|ai|robot|bot|scripted|script|person|machine|llm|model)\b",
        ),
        (
            "how",
            r"\bhow (?:are|r) (?:you|u)\b|\bhow(?:'s|’s| is) (?:it going|life)\b|\bwhat(?:'s|’s| is) up\b"
            r"|\bhow do you do\b",
        ),
        (
            "help",
            r"^(?:please )?help(?: me)?[?!. ]*$|^(?:can|could) you help(?: me)?[?!. ]*$"
            r"|\bwhat (?:can|do|should) (?:you|i) do(?: here)?[?!. ]*$|\bhow does (?:this|it) (?:all )?work\b"
            r"|\bhow do i (?:use|start|stop|leave|quit)\b|\bwhat is this\b",
        ),
    )
)
_BRIEF = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        ("thanks", r"\b(?:thanks|thank you|thx|cheers|ty)\b"),
        ("bye", r"\b(?:bye|goodbye|good night|see you|see ya|cya|later)\b"),
        ("greet", r"^(?:hi|hello|hey|heya|hiya|yo|howdy|greetings|good (?:morning|evening|afternoon|day))\b"),
        (
            "nod",
            r"^(?:(?:ha)+|lol|lmao|wow|ok|okay|k|nice|great|good|cool|yes|yep|yeah|no|nope|sure|hm+|oh|ah|same|true"
            r"|right|fine|agreed|exactly|indeed|interesting)\W*$",
        ),
    )
)
_OR = re.compile(
    r"^(?:[^,:]*(?:[,:]|\b(?:rather|prefer|better|pick|choose|want|take)\b))?\s*"
    r"(?P<a>[^,:?]+?),? or (?P<b>[^,:?]+)\??$",
    re.I,
)
_FACT = re.compile(
    r"^(?:is|are|was|were|do|does|did|can|should|has|have|had|who|when|where|how|why|what|which)\b", re.I
)
_QUESTION = re.compile(
    r"^(?:and |so |but |well |please |let's |could you |can you )?(?:what|why|how|when|where|who|whose|which|is|are|was"
    r"|were|do|does|did|can|could|will|would|should|has|have|may|might|tell|explain|write|translate|summari[sz]e|find"
    r"|look|search|give|make|show|list|compare|recommend|suggest|describe|define|remember|read|check|solve)\b",
    re.I,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Understood:
    """A message's `kind`; `x`: the words that an answer may use, "" for none; `options` of a choice."""

    kind: str
    x: str = ""
    options: tuple[str, ...] = ()


def understand(text: str, names: Iterable[str] = (), *, files: bool = False) -> Understood:
    """Read a person's message. `names` are the mentions to leave out, `files`: something is attached."""
    said = plain(text, tuple(names)).lstrip(",:;- ")
    if not _WORD.search(said):
        return Understood("unseen" if files or _LINK.search(text) else "empty")
    for kind, pattern in _KINDS:
        if match := pattern.search(said[:MAX_READ]):
            wanted = match["x"] or match["y"] if kind == "draw" else ""
            return Understood(kind, phrase(re.sub(r",? please\b", "", wanted or "", flags=re.I), MAX_QUOTE))
    if files or _LINK.search(text):
        return Understood("unseen")
    if len(said.split()) <= SHORT and "?" not in said:
        for kind, pattern in _BRIEF:
            if pattern.search(said):
                return Understood(kind)
    match = _OR.match(said) if len(said) <= MAX_QUOTE else None
    if match and not _FACT.match(match["a"].strip()):
        return Understood("choice", options=(phrase(match["a"]), phrase(match["b"])))
    if "?" in said or _QUESTION.match(said):
        return Understood("question")
    quote = first_sentence(said)
    return Understood("statement", quote if len(quote) <= MAX_QUOTE else "")


class Answers:
    """The answers of an agent. `remedy` says what to do for a real model's answer, "" for nothing; `answered` counts
    the answers by the name of who asked."""

    def __init__(self, agent: str, rng: random.Random, heard: Heard, remedy: str, answered: Counter[str]) -> None:
        self._lines, self._rng, self._heard = answers_of(agent), rng, heard
        self._note = f"\n-# {NOTE}; {remedy}" if remedy else f"\n-# {NOTE}"
        self._answered = answered

    def to_person(self, turn: Turn, name: str, text: str, *, files: bool = False) -> tuple[str, str | None]:
        """Answer a person; return the text, and what they want drawn."""
        read = understand(text, (turn.me, *turn.others, "bots"), files=files)
        kind = "gentle" if read.kind == "statement" and turn.theme in GENTLE_THEMES else read.kind
        pick = self._rng.choice(read.options) if read.options else ""
        line = self._pick(kind, read.x).format_map({"asker": name, "x": read.x, "pick": pick, "me": turn.me})
        text = capital(line)
        return text if turn.nameless else self._with_note(text, name), read.x if kind == "draw" else None

    def joining(self, turn: Turn) -> str | None:
        """What it adds to another bot's answer: the choice that it would make; otherwise nothing."""
        read = understand(turn.asked, (turn.me, *turn.others, "bots"))
        if read.kind != "choice":
            return None
        fields = {"asker": turn.asker, "pick": self._rng.choice(read.options), "me": turn.me}
        return capital(self._pick("choice").format_map(fields))

    def to_task(self, turn: Turn) -> str | None:
        """Take up an instruction of automation; None if nobody would read it."""
        if turn.unheard:
            return None
        subject = phrase(first_sentence(plain(turn.task)), MAX_QUOTE)
        line = self._pick("news" if turn.from_outside else "task", subject)
        return self._with_note(capital(line.format_map({"x": subject, "me": turn.me})), "")

    def _pick(self, section: str, x: str = "") -> str:
        """Choose a line of the section: with `x` a line that quotes it, otherwise a line without a quote."""
        lines = self._lines[section]
        return self._heard.pick(self._rng, [line for line in lines if ("{x}" in line) == bool(x)] or lines)

    def _with_note(self, text: str, name: str) -> str:
        due = self._answered[name] % NOTE_EVERY == 0
        self._answered[name] += 1
        return text + self._note if due else text
