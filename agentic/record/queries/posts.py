"""Read the agents' conversations and posts, rooms, and the actions of owners and moderators.

A page of a list starts after the last item of the page before, so page 500 is as quick as the first.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import aiosqlite

from agentic.wire.entries import ActionNote, ConversationNote, RoomMessage, RoomNote

T = TypeVar("T")
# The time of a page's last item, and its `seq` or id, which orders items of the same time.
Cursor = tuple[float, int | str]

MAX_PAGE = 500
BEFORE_ALL: Cursor = (math.inf, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items, newest first. `next`: where the next page starts, None after the last page."""

    items: tuple[T, ...]
    next: Cursor | None


async def rows(db: aiosqlite.Connection, sql: str, *values: Any) -> Sequence[sqlite3.Row]:
    return list(await db.execute_fetchall(sql, values))


async def first(db: aiosqlite.Connection, sql: str, *values: Any) -> sqlite3.Row | None:
    found = await rows(db, sql, *values)
    return found[0] if found else None


def page_of(found: Iterable[T], count: int, cursor: Callable[[T], Cursor]) -> Page[T]:
    """Return a page of `count` items. `found` has one item more if the list continues."""
    items = tuple(found)
    return Page(items[:count], cursor(items[count - 1]) if len(items) > count else None)


async def actions_page(db: aiosqlite.Connection, *, after: Cursor | None = None, count: int = 50) -> Page[ActionNote]:
    count = min(count, MAX_PAGE)
    at, last_id = after or BEFORE_ALL
    columns = ", ".join(ActionNote.model_fields)
    query = f"SELECT {columns} FROM actions WHERE (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?"
    found = await rows(db, query, at, str(last_id), count + 1)
    return page_of((ActionNote(**dict(row)) for row in found), count, lambda note: (note.at, note.id))


class Conversation(ConversationNote):
    """A conversation with the number of its turns and the agents that had one. `ended_at`: None if it's running, or if
    its end is unknown."""

    turns: int = 0
    agents: tuple[str, ...] = ()

    @property
    def cursor(self) -> Cursor:
        return self.started_at, self.id


CONVERSATION_COLUMNS = ", ".join(ConversationNote.model_fields)
NEWEST_FIRST = "ORDER BY started_at DESC, id DESC"


async def conversations_page(
    db: aiosqlite.Connection,
    *,
    channel_id: int | None = None,
    theme: str | None = None,
    after: Cursor | None = None,
    count: int = 50,
) -> Page[Conversation]:
    count = min(count, MAX_PAGE)
    tests = {"channel_id = ?": channel_id, "theme = ?": theme}
    asked = {condition: value for condition, value in tests.items() if value is not None}
    where = " AND ".join(["(started_at, id) < (?, ?)", *asked])
    at, last_id = after or BEFORE_ALL
    query = f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE {where} {NEWEST_FIRST} LIMIT ?"
    found = await rows(db, query, at, str(last_id), *asked.values(), count + 1)
    page = page_of((Conversation(**dict(row)) for row in found), count, lambda each: each.cursor)
    return replace(page, items=await _with_turns(db, page.items))


async def conversation_of(db: aiosqlite.Connection, conversation_id: str) -> Conversation | None:
    """Return None if the record doesn't have it."""
    row = await first(db, f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE id = ?", conversation_id)
    return (await _with_turns(db, [Conversation(**dict(row))]))[0] if row else None


async def last_conversation(db: aiosqlite.Connection) -> Conversation | None:
    """Return the newest conversation with a post; None if there is none."""
    query = f"""SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE EXISTS (
            SELECT 1 FROM turns WHERE turns.conversation_id = conversations.id AND turns.outcome = 'posted')
        {NEWEST_FIRST} LIMIT 1"""
    row = await first(db, query)
    return (await _with_turns(db, [Conversation(**dict(row))]))[0] if row else None


async def _with_turns(db: aiosqlite.Connection, found: Sequence[Conversation]) -> tuple[Conversation, ...]:
    """Add the sums of their turns. A conversation's own sums are written at its end; until then its turns' sums are
    larger."""
    query = """SELECT conversation_id, COALESCE(MAX(round), 0), SUM(outcome = 'posted'), SUM(outcome <> 'posted'),
            SUM(cost_usd), COUNT(*), GROUP_CONCAT(DISTINCT agent)
        FROM turns WHERE conversation_id IN (SELECT value FROM json_each(?)) GROUP BY conversation_id"""
    turns = await rows(db, query, json.dumps([each.id for each in found]))
    sums = {conversation_id: values for conversation_id, *values in turns}

    def with_sums(each: Conversation) -> Conversation:
        *numbers, count, agents = sums.get(each.id, (0, 0, 0, 0.0, 0, ""))
        names = ("rounds", "messages", "skips", "cost_usd")
        largest = {name: max(getattr(each, name), number) for name, number in zip(names, numbers, strict=True)}
        theirs = tuple(sorted(filter(None, agents.split(","))))
        return each.model_copy(update={**largest, "turns": count, "agents": theirs})

    return tuple(map(with_sums, found))


@dataclass(frozen=True, slots=True)
class Reaction:
    """A reaction to a post. `emoji`: as Discord writes it. `user_id` may be an agent's."""

    emoji: str
    user_id: int
    at: float


@dataclass(frozen=True, slots=True)
class Post:
    """A message that an agent posted. `text`: "" if it was deleted. `picture`: its media type, None without one."""

    message_id: int
    agent: str
    turn_id: str
    channel_id: int
    at: float
    text: str
    answers_message_id: int | None
    deleted_at: float | None
    picture: str | None
    reactions: tuple[Reaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    data: bytes
    media_type: str


POST_COLUMNS = ", ".join(f"posts.{each.name}" for each in fields(Post) if each.name not in ("picture", "reactions"))


async def posts_of_turn(db: aiosqlite.Connection, agent: str, turn_id: str) -> tuple[Post, ...]:
    return await _read_posts(db, "posts", "posts.agent = ? AND posts.turn_id = ?", agent, turn_id)


async def posts_of_conversation(db: aiosqlite.Connection, conversation_id: str) -> tuple[Post, ...]:
    joined = "turns JOIN posts ON posts.agent = turns.agent AND posts.turn_id = turns.id"
    return await _read_posts(db, joined, "turns.conversation_id = ?", conversation_id)


async def posts_of_channel(db: aiosqlite.Connection, channel_id: int) -> tuple[Post, ...]:
    return await _read_posts(db, "posts", "posts.channel_id = ?", channel_id)


async def _read_posts(db: aiosqlite.Connection, table: str, condition: str, *values: Any) -> tuple[Post, ...]:
    query = f"""SELECT {POST_COLUMNS}, pictures.media_type FROM {table} LEFT JOIN pictures USING (message_id)
    WHERE {condition} ORDER BY posts.message_id"""
    posts = [Post(*row) for row in await rows(db, query, *values)]
    query = """SELECT message_id, emoji, user_id, at FROM reactions
        WHERE message_id IN (SELECT value FROM json_each(?)) ORDER BY message_id, at"""
    found = await rows(db, query, json.dumps([post.message_id for post in posts]))
    given: dict[int, list[Reaction]] = defaultdict(list)
    for message_id, *reaction in found:
        given[message_id].append(Reaction(*reaction))
    return tuple(replace(post, reactions=tuple(given[post.message_id])) for post in posts)


async def picture_of(db: aiosqlite.Connection, message_id: int) -> Picture | None:
    row = await first(db, "SELECT data, media_type FROM pictures WHERE message_id = ?", message_id)
    return Picture(*row) if row else None


async def turn_of_post(db: aiosqlite.Connection, message_id: int) -> tuple[str, str] | None:
    """Return the agent and the turn that posted a message; None if the record doesn't have it."""
    row = await first(db, "SELECT agent, turn_id FROM posts WHERE message_id = ?", message_id)
    return (row[0], row[1]) if row else None


class RecordedRoom(RoomNote):
    """A room with the posts and costs of its members' turns."""

    posts: int = 0
    cost_usd: float = 0.0


ROOM_COLUMNS = ", ".join(name for name in RoomNote.model_fields if name != "left") + ", left_members"


async def room_of(db: aiosqlite.Connection, thread_id: int) -> RecordedRoom | None:
    """Return None if the record doesn't have it."""
    row = await first(db, f"SELECT {ROOM_COLUMNS} FROM rooms WHERE thread_id = ?", thread_id)
    if row is None:
        return None
    query = "SELECT coalesce(SUM(outcome = 'posted'), 0), coalesce(SUM(cost_usd), 0) FROM turns WHERE channel_id = ?"
    ((posts, cost),) = await rows(db, query, thread_id)
    lists = {"members": json.loads(row["members"]), "left": json.loads(row["left_members"])}
    return RecordedRoom(**{**dict(row), **lists}, posts=posts, cost_usd=cost)


async def messages_of_room(db: aiosqlite.Connection, thread_id: int) -> tuple[RoomMessage, ...]:
    """Read the room's recorded messages, oldest first."""
    query = f"SELECT {', '.join(RoomMessage.model_fields)} FROM room_messages WHERE thread_id = ? ORDER BY message_id"
    return tuple(RoomMessage(**dict(row)) for row in await rows(db, query, thread_id))
