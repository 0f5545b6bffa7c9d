"""Composes a debater's turn in a room, on any topic, from prepared lines. No line is said twice in a room.

Sections of a debater's file: open, argue, reply and `to NAME` (to the one who spoke before), ask (another member),
audience (a person), angle (something new), late (near the limit), last (the last word), leave, emoji.

Fields of lines: {topic} the topic, {it} a noun phrase for it, {word} one of its words that stand out, {side} the side
that the debater takes, {last} and {quote} the previous speaker and some of their words, {other} another member, {human}
and {said} a person and their words. The topic decides:

| the topic | kind | {topic} | {it} | {side} |
| --- | --- | --- | --- | --- |
| Is P equal to NP? | decided | “Is P equal to NP?” | this question | yes, no |
| Robots will take our jobs | claim | “Robots will take our jobs” | this claim | true, false |
| Remote work | thing | remote work | remote work | for, against |
| What is time? | open | “What is time?” | this question | none |
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Literal

from agentic.local.voices.scene import RoomScene, Scene, UsedLines, debater
from agentic.local.voices.wording import capital, first_sentence, phrase, plain, quotable, words_of

Kind = Literal["decided", "claim", "thing", "open"]

MAX_THING = 6  # words that fit into a sentence
MIN_WORD = 4  # letters of a word that stands out, unless it is written in capitals
REPLY = 0.8  # turns that begin with the previous speaker
TO_THEM = 0.6  # of those: with a line for just that speaker
ASK = 0.35
ONLY_REPLY = 0.12  # a reply and a question, no argument
LEAVE = 0.04
FIRST_REPLY = {"open": 0.4, "last": 0.3, "leave": 0.0}  # of these, those that begin with the previous speaker
MIN_TO_LEAVE = 4  # members; with fewer a departure would nearly end the room
FIRST_END_TURN = 4
END = 0.3  # in the last lap
SPARE = ("argue", "late", "last")  # if there is nothing left of what the turn wants
MAX_SAID = 90  # characters of a person's words

_FIELD = re.compile(r"\{(\w+)\}")
_QUOTED = re.compile(r"“[^“”]*”")

_ASKS_YES_OR_NO = words_of(
    "am are is was were do does did can could will would shall should may might must has have had isn't aren't don't"
    " doesn't can't won't shouldn't"
)
_ASKS_OPENLY = words_of("what who whom whose which where when why how what's who's")
_FINITE = _ASKS_YES_OR_NO | words_of("makes make needs need takes take gets get wins win beats beat cannot ought")
_COMMON = _FINITE | _ASKS_OPENLY | words_of(
    "about above after again against also another any around because been before being better between both each else"
    " ever every everybody everyone from good have here into itself just like many more most much need never nobody"
    " nothing often only other over really same some somebody someone something still such than that their them then"
    " there these they thing things think this those through under until very well while with within without your"
)  # fmt: skip
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
SIDES: dict[Kind, tuple[str, str] | None] = {
    "decided": ("yes", "no"), "claim": ("true", "false"), "thing": ("for", "against"), "open": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RoomTopic:
    """`name` is the whole topic, in quotation marks unless it is a thing; `it` a noun phrase for it, `words` those that
    stand out."""

    kind: Kind
    name: str
    it: str
    words: tuple[str, ...]

    def side(self, place: int) -> str | None:
        """The side of the member at this place: neighbors differ. None where there are none to take."""
        sides = SIDES[self.kind]
        return sides[place % 2] if sides is not None else None


class Debater:
    """An agent's part in one turn of a room, whose memory is `said`. All chance comes from `rng`."""

    def __init__(self, agent: str, scene: Scene, room: RoomScene, rng: random.Random, said: UsedLines) -> None:
        self._lines, self._room, self._rng, self._said = debater(agent), room, rng, said
        topic = read_topic(room.topic)
        others = [name for name in room.members if name not in (scene.me, scene.previous)]
        self._fields = {
            "topic": topic.name,
            "it": topic.it,
            "word": rng.choice(topic.words),
            "side": topic.side(room.members.index(scene.me) if scene.me in room.members else 0),
            "last": scene.previous if scene.previous in room.members else None,
            "quote": quotable(_QUOTED.sub(". ", scene.last_text)),
            "other": rng.choice(others) if others else None,
            "human": room.taken_up_by if room.take_up else None,
            "said": _words_of_a_person(room.take_up),
        }

    def speech(self) -> tuple[str, str]:
        """The section that the turn comes from, and its text; both "" for silence."""
        kinds = (self._kind(), *SPARE)
        return next(((kind, text) for kind in kinds if (text := self._text(kind))), ("", ""))

    def next_speaker(self) -> str | None:
        return self._fields["other"] or self._fields["last"] if self._room.names_next else None

    def emoji(self) -> str:
        return self._rng.choice(self._lines["emoji"])

    def _kind(self) -> str:
        """The section that the turn comes from."""
        room = self._room
        if room.closing or room.left == 0:
            return "last"
        if room.turn <= len(room.members) and not room.angle:
            return "open"
        lap = len(room.members)
        if room.left < lap and room.turn >= FIRST_END_TURN:
            return "last" if self._rng.random() < END else "late"
        if room.turn * 2 > room.turns > 0 and lap >= MIN_TO_LEAVE and self._rng.random() < LEAVE:
            return "leave"
        return "angle" if room.angle else "argue"

    def _text(self, kind: str) -> str:
        """The turn's text; "" once there is nothing left to say."""
        if self._room.take_up:
            answer = self._pick("audience") or f"{self._fields['human']}, I take that up."
            return _join(answer, self._pick("argue"))
        if kind in ("open", "last", "leave"):
            statement = self._pick(kind)
            answers = bool(statement) and self._rng.random() < FIRST_REPLY[kind]
            return _join(self._reply() if answers else "", statement)
        if kind in ("angle", "late"):
            return _join(self._reply() if kind == "late" else "", self._pick(kind) or self._pick("argue"))
        reply = self._reply() if self._rng.random() < REPLY else ""
        if reply and self._rng.random() < ONLY_REPLY and (question := self._pick("ask")):
            return _join(reply, question)
        argument = self._pick("argue")
        if not argument:
            return ""
        return _join(reply, argument, self._pick("ask") if self._rng.random() < ASK else "")

    def _reply(self) -> str:
        last = self._fields["last"]
        if last is None:
            return ""
        own = next((name for name in self._lines if name.startswith("to ") and name[3:] in last.casefold()), None)
        if own is not None and self._rng.random() < TO_THEM and (line := self._pick(own)):
            return line
        return self._pick("reply")

    def _pick(self, section: str) -> str:
        """An unused line of the section, filled; "" for none."""
        lines = self._lines.get(section, ())
        # Lines with a field that this turn does not have are left out.
        sayable = (line for line in lines if all(self._fields.get(name) for name in _FIELD.findall(line)))
        fitting = self._said.fresh(sayable)
        return capital(self._said.pick(fitting).format_map(self._fields)) if fitting else ""


def _join(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _words_of_a_person(text: str) -> str | None:
    """Their first sentence, as it can be quoted."""
    said = phrase(first_sentence(plain(text)), MAX_SAID)
    asks = said and plain(text)[len(said) :].lstrip().startswith("?")
    return f"{said}?" if asks else said or None


def read_topic(text: str) -> RoomTopic:
    said = plain(text).strip() or "this"
    words = _WORD.findall(_inside(said))
    kind = _kind(said, [word.lower() for word in words])
    if kind == "thing":
        return RoomTopic(kind, _inside(said), _inside(said), _standing_out(words) or (said,))
    it = "this claim" if kind == "claim" else "this question"
    return RoomTopic(kind, f"“{said}”", it, _standing_out(words) or (said,))


def _kind(said: str, words: list[str]) -> Kind:
    if said.endswith("?") or (words and words[0] in _ASKS_OPENLY):
        decided = bool(words) and words[0] in _ASKS_YES_OR_NO and " or " not in said.lower()
        return "decided" if decided else "open"
    if len(words) <= MAX_THING and not _FINITE.intersection(words):
        return "thing"
    return "claim"


def _inside(said: str) -> str:
    """The topic as it stands inside of a sentence: "Remote work." → "remote work"; NATO and P stay as they are."""
    said = said.rstrip(".!:; ")
    second = said[1:2]
    return said[:1].lower() + said[1:] if second.islower() else said


def _standing_out(words: list[str]) -> tuple[str, ...]:
    telling = (word for word in words if word.lower() not in _COMMON)
    return tuple(dict.fromkeys(word for word in telling if len(word) >= MIN_WORD or word.isupper()))
