"""Composing a turn of a debate in a room, on any topic, from the lines of a debater. No line is said twice in a room.

Sections of a debater's file: open, argue, reply and `to NAME` (to the one who spoke before), ask (another member),
audience (a person), angle (something new), late (near the limit), last (the last word), leave, emoji.

Fields of lines: {topic} the topic, {it} a noun phrase for it, {word} one of its words, {side} the side that the debater
takes, {last} and {quote} the previous speaker and some of their words, {other} another member, {human} and {said} a
person and their words. topics.py says what a topic gives.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

from agentic.local.voices.lines import Lines, debater
from agentic.local.voices.memory import SaidLines
from agentic.local.voices.phrases import capital, first_sentence, phrase, plain, quotable
from agentic.local.voices.scene import RoomScene, Scene
from agentic.local.voices.topics import RoomTopic, read_topic

REPLY = 0.8  # turns that begin with the previous speaker
TO_THEM = 0.6  # of those: with a line for just that speaker
ASK = 0.35
ONLY_REPLY = 0.12  # a reply and a question, no argument
LEAVE = 0.04
FIRST_REPLY = {"open": 0.4, "last": 0.3, "leave": 0.0}  # of these, those that begin with the previous speaker
FEWEST_TO_LEAVE = 4  # members; with fewer a departure would nearly end the room
FIRST_END_TURN = 4
END = 0.3  # in the last lap
SPARE = ("argue", "late", "last")  # where there is nothing left of what the turn wants
MAX_SAID = 90  # characters of a person's words

_FIELD = re.compile(r"\{(\w+)\}")
_QUOTED = re.compile(r"“[^“”]*”")


@dataclass(frozen=True, slots=True)
class Speech:
    """A turn in a room. `text` "" is silence; `ends` asks to end the room, `leaves` leaves it; `next_speaker` is a
    shown name."""

    text: str = ""
    ends: bool = False
    leaves: bool = False
    next_speaker: str | None = None


class Debater:
    """Debates for an agent in one room, whose memory is `said`. All chance comes from `rng`, also that of `said`."""

    def __init__(self, agent: str, rng: random.Random, said: SaidLines) -> None:
        self._agent, self._rng, self._said = agent, rng, said
        self._lines = debater(agent)

    def speech(self, scene: Scene, room: RoomScene) -> Speech:
        part = _Part(self._lines, scene, room, read_topic(room.topic), self._rng, self._said)
        kinds = (self._kind(room), *SPARE)
        kind, text = next(((kind, text) for kind in kinds if (text := part.text(kind))), ("silence", ""))
        ends = kind == "last" and not room.closing
        return Speech(text, ends=ends, leaves=kind == "leave", next_speaker=part.next_speaker())

    def emoji(self) -> str:
        return self._rng.choice(self._lines["emoji"])

    def _kind(self, room: RoomScene) -> str:
        """The sections that the turn comes from."""
        if room.closing or room.left == 0:
            return "last"
        if room.turn <= len(room.members) and not room.angle:
            return "open"
        lap = len(room.members)
        if room.left < lap and room.turn >= FIRST_END_TURN:
            return "last" if self._chance(END) else "late"
        if room.turn * 2 > room.turns > 0 and lap >= FEWEST_TO_LEAVE and self._chance(LEAVE):
            return "leave"
        return "angle" if room.angle else "argue"

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability


class _Part:
    """A debater's part in one turn."""

    def __init__(
        self,
        lines: Lines,
        scene: Scene,
        room: RoomScene,
        topic: RoomTopic,
        rng: random.Random,
        said: SaidLines,
    ) -> None:
        self._lines, self._scene, self._room, self._rng, self._said = lines, scene, room, rng, said
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

    def text(self, kind: str) -> str:
        """The turn's text; "" once there is nothing left to say."""
        if self._room.take_up:
            answer = self._pick("audience") or f"{self._fields['human']}, I take that up."
            return self._joined(answer, self._pick("argue"))
        if kind in ("open", "last", "leave"):
            statement = self._pick(kind)
            answers = bool(statement) and self._chance(FIRST_REPLY[kind])
            return self._joined(self._reply() if answers else "", statement)
        if kind in ("angle", "late"):
            return self._joined(self._reply() if kind == "late" else "", self._pick(kind) or self._pick("argue"))
        return self._argument()

    def next_speaker(self) -> str | None:
        return self._fields["other"] or self._fields["last"] if self._room.names_next else None

    def _argument(self) -> str:
        reply = self._reply() if self._chance(REPLY) else ""
        if reply and self._chance(ONLY_REPLY) and (question := self._pick("ask")):
            return self._joined(reply, question)
        argument = self._pick("argue")
        if not argument:
            return ""
        return self._joined(reply, argument, self._pick("ask") if self._chance(ASK) else "")

    def _reply(self) -> str:
        last = self._fields["last"]
        if last is None:
            return ""
        own = next((name for name in self._lines if name.startswith("to ") and name[3:] in last.casefold()), None)
        if own is not None and self._chance(TO_THEM) and (line := self._pick(own)):
            return line
        return self._pick("reply")

    def _pick(self, section: str) -> str:
        """An unused line of the section, filled; "" for none."""
        fitting = self._said.fresh(self._sayable(self._lines.get(section, ())))
        return capital(self._said.pick(fitting).format_map(self._fields)) if fitting else ""

    def _sayable(self, lines: Iterable[str]) -> list[str]:
        """Leave out lines with a field that this turn does not have."""
        return [line for line in lines if all(self._fields.get(name) for name in _FIELD.findall(line))]

    def _joined(self, *parts: str) -> str:
        return " ".join(filter(None, parts))

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability


def _words_of_a_person(text: str) -> str | None:
    """Their first sentence, as it can be quoted."""
    said = phrase(first_sentence(plain(text)), MAX_SAID)
    asks = said and plain(text)[len(said) :].lstrip().startswith("?")
    return f"{said}?" if asks else said or None
