"""A voice's knowledge of its turn: the labels of a Prompt, cleaned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_discord.objects.mentions import clean_name
from agent_local.voices.phrases import phrase, plain

MAX_TOPIC = 60  # characters


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
            others=tuple(clean_name(name) for name in said("others").split(",") if name.strip()),
            theme=said("theme"),
            trigger=said("trigger") or "mention",
            topic=phrase(plain(said("topic")), MAX_TOPIC),
            round=int(said("round")) if said("round").isdecimal() else 1,
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
