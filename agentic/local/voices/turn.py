"""A voice's turn, read from the labels of a prompt. Labels only: a voice never reads the prompt's text."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentic.chat.directory import clean_name
from agentic.local.voices.scenes import MAX_TOPIC
from agentic.local.voices.wording import phrase, plain


class Turn:
    """`human` wrote into the conversation and waits for an answer, `asker` has called the voice. `task`: an instruction
    of automation, from outside or not; `unheard`: its answer is not posted; `query`: the subject of an unprompted
    message. `members` of a room in speaking order; `taken_up`: what people said there, each with the person's name.
    `sides`: a member's name → its side."""

    def __init__(self, labels: Mapping[str, str], *, me: str) -> None:
        """All labels are optional; `me` is the voice's name if there is none."""

        def said(key: str) -> str:
            return labels.get(key, "").strip()

        def name(key: str, default: str = "friend") -> str:
            return clean_name(said(key)) if said(key) else default

        self.me = said("display_name") or me
        self.others = _names(said("others"))
        self.theme = said("theme")
        self.trigger = said("trigger") or "mention"
        self.topic = phrase(plain(said("topic")), MAX_TOPIC)
        self.asked, self.asked_files, self.asker = said("asked"), bool(said("asked_files")), name("asker")
        self.human, self.human_said = name("human_name", ""), said("human_said")
        self.human_files = bool(said("human_files"))
        self.last_speaker, last = name("last_speaker", ""), said("last_message_id")
        self.last_message_id = int(last) if last.isdecimal() and self.last_speaker != self.me else None
        self.task, self.from_outside = said("task"), bool(said("task_from_outside"))
        self.unheard = bool(said("task_unheard"))
        self.query = said("task_query") if said("task_unasked") else None
        self.nameless = bool(said("arena"))  # nobody may learn who answers
        self.in_room = bool(said("room"))
        self.in_thread = self.in_room or bool(said("thread"))  # of a room, which may be paused or have other members
        self.room_topic = labels.get("topic", "")
        self.room_turn, self.room_turns = _whole(said("room")), _whole(said("room_turns"))
        self.members = _names(said("members"))
        self.names_next, self.closing = bool(said("names_next")), bool(said("closing"))
        several = [(clean_name(who), text) for who, text in json.loads(said("questions") or "[]")]
        single = [(name("take_up_by", name("human_name")), said("take_up"))] if said("take_up") else []
        self.taken_up = several or single
        self.format, self.phase = said("format"), said("phase")
        sides = (each.rpartition("=") for each in said("sides").split(",") if "=" in each)
        self.sides = {clean_name(name): side.strip() for name, _, side in sides}

    @property
    def turns_left(self) -> int:
        """Return the room's turns after this one, a large number without a limit."""
        return self.room_turns - self.room_turn if self.room_turns else 1_000


def _names(text: str) -> tuple[str, ...]:
    return tuple(clean_name(name) for name in text.split(",") if name.strip())


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0
