"""A room as it is opened, as pure values: its definition, the name of its thread, the message above it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

from agentic.actions.draft import MOST_TOPIC, RoomDraft
from agentic.context.entries import one_line
from agentic.state.rooms import MOST_RULES, Room, RoomMember

MOST_NAME = 100  # characters of a thread's name
MAX_NAME = 80  # characters of a person's name
UNNAMED = "Room"

_MARKS = re.compile(r"([\\*_~`|>#\[\]])")


def room_of(draft: RoomDraft, members: Sequence[RoomMember], moderator: str | None, now: float) -> Room:
    """The room, whose thread is still to be made. `moderator` is a member's key."""
    return Room(
        thread_id=0,
        channel_id=draft.channel_id,
        guild_id=draft.guild_id,
        conversation_id=str(uuid.uuid4()),
        topic=draft.topic,
        members=tuple(members),
        policy=draft.policy,
        moderator=moderator,
        rules=rules_of(draft),
        archive_minutes=draft.archive_minutes,
        turns=draft.turns,
        audience_seconds=draft.audience_seconds,
        goodbye_ends=draft.goodbye_ends,
        theme=draft.theme,
        opened_by=draft.asked_by or None,
        opened_at=now,
        changed_at=now,
    )


def rules_of(draft: RoomDraft) -> str:
    """The rules with the first question, which each member then knows."""
    question = f"Begin with this question: {draft.question.strip()}" if draft.question.strip() else ""
    return "\n".join(filter(None, (draft.rules.strip(), question)))[:MOST_RULES]


def thread_name(topic: str) -> str:
    name = one_line(topic, MOST_NAME + 1)
    if len(name) > MOST_NAME:
        name = f"{name[: MOST_NAME - 2].rstrip()} …"
    return name or UNNAMED


VOTES = "A 👍 on a post is a vote for its author."


def opening_text(room: Room, question: str = "", asked_by: str = "") -> str:
    """The message above the thread. `asked_by`: the name of the person who opened the room, which pings nobody."""
    shown = [escaped(member.shown) for member in room.members]
    who = f"{', '.join(shown[:-1])} and {shown[-1]}"
    first = f" The first question: {escaped(one_line(question, MOST_TOPIC))}" if question.strip() else ""
    opener = f" {escaped(one_line(asked_by, MAX_NAME))} opened this room." if asked_by.strip() else ""
    return f"**{escaped(room.topic)}**: {who} discuss it in this thread.{opener}{first} {VOTES}"


def escaped(text: str) -> str:
    """A person's text as it was written: its marks format nothing."""
    return _MARKS.sub(r"\\\1", text)
