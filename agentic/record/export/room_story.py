"""A room as an export shows it: its agents' posts, and between them what people said in its thread.

People have keys of their own in a story, from the order in which they spoke: an export has their names, never their
ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import aiosqlite

from agentic.record.database import opened
from agentic.record.export.render import FORMATS, file_name
from agentic.record.export.story import Look, Message, Story, messages_of
from agentic.record.queries.conversations import Conversation
from agentic.record.queries.posts import posts_of_channel
from agentic.record.queries.rooms import RecordedMessage, RecordedRoom, messages_of_room, room_of
from agentic.record.queries.turns import turns_of_channel


@dataclass(frozen=True, slots=True)
class Exported:
    """A page, and a name for its file."""

    name: str
    text: str


async def room_page(record_file: Path, thread_id: int, kind: str = "html", look: Look | None = None) -> Exported | None:
    """A room as `html`, `md` or `json`, from the record's file; None where it does not have the room. Raises
    RecordError, sqlite3.Error."""
    async with opened(record_file) as db:
        return await export_room(db, thread_id, kind, look or Look())


async def export_room(db: aiosqlite.Connection, thread_id: int, kind: str, look: Look) -> Exported | None:
    """As `room_page`, from a record that is open."""
    story = await read_room_story(db, thread_id, look)
    if story is None:
        return None
    return Exported(file_name("room", story.began, story.conversation.topic or "", kind), FORMATS[kind](story))


async def read_room_story(db: aiosqlite.Connection, thread_id: int, look: Look) -> Story | None:
    """None where the record does not have the room. Deleted messages are left out."""
    room = await room_of(db, thread_id)
    if room is None:
        return None
    said = await messages_of_room(db, thread_id)
    people = _keys(said)
    look = replace(look, names={**_names(said, people), **look.names})
    posts = await messages_of(db, await posts_of_channel(db, thread_id), await turns_of_channel(db, thread_id), look)
    recorded = {post.message_id for post in posts}
    others = [_message(each, people, look) for each in said if each.message_id not in recorded]
    messages = sorted((*posts, *others), key=lambda message: message.message_id)
    speakers = tuple(dict.fromkeys(message.agent for message in messages))
    began = datetime.fromtimestamp(room.opened_at, look.zone)
    return Story(_as_conversation(room), look, began, tuple(messages), speakers)


def _keys(said: Iterable[RecordedMessage]) -> Mapping[int | None, str]:
    """Person's id → a key that no agent has."""
    ids = dict.fromkeys(each.author_id for each in said if each.agent is None)
    return {author_id: f"@{number}" for number, author_id in enumerate(ids, start=1)}


def _names(said: Iterable[RecordedMessage], people: Mapping[int | None, str]) -> dict[str, str]:
    """Each speaker's newest name."""
    return {each.agent or people[each.author_id]: each.name for each in said if each.name}


def _message(said: RecordedMessage, people: Mapping[int | None, str], look: Look) -> Message:
    key = said.agent or people[said.author_id]
    at = datetime.fromtimestamp(said.at, look.zone)
    return Message(said.message_id, key, at, said.text, None, (), 0.0, person=said.agent is None)


def _as_conversation(room: RecordedRoom) -> Conversation:
    ended = None if room.status == "active" else room.changed_at
    return Conversation(
        id=room.conversation_id,
        channel_id=room.channel_id,
        theme="room",
        starter="",
        topic=room.topic,
        policy=room.policy,
        started_at=room.opened_at,
        ended_at=ended,
        ended_because=room.why,
        rounds=room.turn_number,
        messages=room.posts,
        skips=0,
        cost_usd=room.cost_usd,
    )
