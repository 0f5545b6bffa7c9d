"""A voice's knowledge of its turn: the labels of a Prompt, cleaned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentic.chat.directory import clean_name
from agentic.local.voices.phrases import phrase, plain

MAX_TOPIC = 60  # characters


@dataclass(frozen=True, slots=True)
class RoomScene:
    """A turn in a room: the number of the post to make, and the limit. `members` in speaking order; `closing`: the room
    ends after this turn; `angle`: what to bring in, because the talk repeats itself; `take_up`: what a person said."""

    topic: str
    turn: int
    turns: int
    members: tuple[str, ...]
    names_next: bool
    closing: bool
    angle: str
    take_up: str
    taken_up_by: str

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> RoomScene:
        return cls(
            topic=labels.get("topic", ""),
            turn=_whole(labels.get("room", ""), 1),
            turns=_whole(labels.get("room_turns", ""), 0),
            members=_names(labels.get("members", "")),
            names_next=bool(labels.get("names_next")),
            closing=bool(labels.get("closing")),
            angle=labels.get("angle", ""),
            take_up=labels.get("take_up", ""),
            taken_up_by=clean_name(labels.get("take_up_by") or labels.get("human_name") or "friend"),
        )

    @property
    def left(self) -> int:
        """Turns after this one; many where there is no limit."""
        return self.turns - self.turn if self.turns else 1_000


@dataclass(frozen=True, slots=True)
class Scene:
    """`last`: the previous speaker, None for nobody or the voice itself. `aside`: a person has just spoken or was just
    answered, so the last message is no part of the bots' conversation. `human` wrote into it and waits for an answer,
    `asker` has called the voice. `task`: the instruction of automation, or `news` from outside; `unheard`: the answer
    is not posted."""

    me: str
    others: tuple[str, ...]
    theme: str
    trigger: str
    topic: str
    round: int
    asked: str
    asked_files: bool
    asker: str
    last: str | None
    last_text: str
    last_message_id: str | None
    aside: bool
    human: str | None
    human_said: str
    human_files: bool
    task: str
    news: bool
    unheard: bool
    query: str | None = None  # of a message that nobody asked for: what it is about
    room: RoomScene | None = None
    nameless: bool = False  # nobody may learn who answers

    @classmethod
    def of(cls, labels: Mapping[str, str], *, me: str) -> Scene:
        """Read a prompt's labels; all of them are optional."""

        def said(key: str) -> str:
            return labels.get(key, "").strip()

        me = said("display_name") or me
        last = clean_name(said("last_speaker")) if said("last_speaker") else None
        message_id = said("last_message_id")
        return cls(
            me=me,
            others=_names(said("others")),
            theme=said("theme"),
            trigger=said("trigger") or "mention",
            topic=phrase(plain(said("topic")), MAX_TOPIC),
            round=_whole(said("round"), 1),
            asked=said("asked"),
            asked_files=bool(said("asked_files")),
            asker=clean_name(said("asker")) if said("asker") else "friend",
            last=None if last == me else last,
            last_text=said("last_text"),
            last_message_id=message_id if message_id.isdecimal() and last != me else None,
            aside=bool(said("aside")),
            human=clean_name(said("human_name")) if said("human_name") else None,
            human_said=said("human_said"),
            human_files=bool(said("human_files")),
            task=said("task"),
            news=bool(said("task_from_outside")),
            unheard=bool(said("task_unheard")),
            query=said("task_query") if said("task_unasked") else None,
            room=RoomScene.of(labels) if said("room") else None,
            nameless=bool(said("arena")),
        )

    @property
    def previous(self) -> str | None:
        """The previous speaker of the bots' conversation; None for the voice itself or after an aside."""
        return None if self.aside else self.last

    @property
    def fields(self) -> dict[str, str]:
        """The fields of lines."""
        return {
            "me": self.me,
            "last": self.last or "",
            "topic": self.topic or "this",
            "human": self.human or "",
            "asker": self.asker,
        }


@dataclass(frozen=True, slots=True)
class Words:
    """The text of a turn; `picture` describes a requested picture."""

    text: str
    topic: str | None = None
    picture: str | None = None


def _names(text: str) -> tuple[str, ...]:
    return tuple(clean_name(name) for name in text.split(",") if name.strip())


def _whole(text: str, default: int) -> int:
    return int(text) if text.strip().isdecimal() else default
