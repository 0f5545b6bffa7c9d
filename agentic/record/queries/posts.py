"""Read the agents' conversations and posts, rooms, and the actions of owners and moderators.

A page of a list starts after the last item of the page before, so page 500 is as quick as the first.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import aiosqlite

from agentic.formats import FORMATS
from agentic.state.rooms import VOTE
from agentic.wire.entries import (
    ActionNote,
    Contender,
    ContestNote,
    ConversationNote,
    RoomConclusion,
    RoomMessage,
    RoomNote,
)

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
    """A conversation with the number of its turns and their agents. `ended_at`: None if it's running or unknown."""

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
    """Add the sums of their turns, which are larger until a conversation's own sums are written at its end."""
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


async def read_names(
    db: aiosqlite.Connection, channels: Iterable[int], people: Iterable[int]
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the topics of those channels that are rooms, and the names under which those people wrote last."""
    query = "SELECT thread_id, topic FROM rooms WHERE thread_id IN (SELECT value FROM json_each(?))"
    topics: dict[int, str] = dict(await rows(db, query, json.dumps(list(channels))))  # type: ignore[arg-type]
    query = """SELECT value, COALESCE(
            (SELECT name FROM message_log WHERE author_id = value ORDER BY message_id DESC LIMIT 1),
            (SELECT name FROM room_messages WHERE author_id = value ORDER BY message_id DESC LIMIT 1))
        FROM json_each(?)"""
    names = {person: name for person, name in await rows(db, query, json.dumps(list(people))) if name}
    return topics, names


async def picture_of(db: aiosqlite.Connection, message_id: int) -> Picture | None:
    row = await first(db, "SELECT data, media_type FROM pictures WHERE message_id = ?", message_id)
    return Picture(*row) if row else None


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
    has_post = "EXISTS (SELECT 1 FROM posts WHERE posts.agent = turns.agent AND turn_id = turns.id)"
    query = f"SELECT coalesce(SUM({has_post}), 0), coalesce(SUM(cost_usd), 0) FROM turns WHERE channel_id = ?"
    ((posts, cost),) = await rows(db, query, thread_id)
    lists = {name: json.loads(row[name]) for name in ("members", "sides", "ledger")}
    lists["left"] = json.loads(row["left_members"])
    return RecordedRoom(**{**dict(row), **lists}, posts=posts, cost_usd=cost)


async def messages_of_room(db: aiosqlite.Connection, thread_id: int) -> tuple[RoomMessage, ...]:
    """Read the room's recorded messages, oldest first."""
    query = f"SELECT {', '.join(RoomMessage.model_fields)} FROM room_messages WHERE thread_id = ? ORDER BY message_id"
    return tuple(RoomMessage(**dict(row)) for row in await rows(db, query, thread_id))


CONCLUSION_LISTS = ("arguments", "agreed", "unsettled", "message_ids", "people")
CONCLUSION_COLUMNS = ", ".join(RoomConclusion.model_fields)


def conclusion_in(row: sqlite3.Row) -> RoomConclusion:
    """Read a row with CONCLUSION_COLUMNS."""
    return RoomConclusion(**{**dict(row), **{name: json.loads(row[name]) for name in CONCLUSION_LISTS}})


async def conclusion_of(db: aiosqlite.Connection, thread_id: int) -> RoomConclusion | None:
    """Return what came of a room when it closed last; None if it never closed or the record doesn't have it."""
    row = await first(db, f"SELECT {CONCLUSION_COLUMNS} FROM room_conclusions WHERE thread_id = ?", thread_id)
    return conclusion_in(row) if row is not None else None


async def votes_in_room(db: aiosqlite.Connection, thread_id: int, bots: Collection[int] = ()) -> Mapping[str, int]:
    """Return agent → people's votes so far, if any: one for each person and post. Reactions of `bots` don't count."""
    query = """SELECT agent, count(*) FROM (
            SELECT DISTINCT agent, message_id, user_id FROM posts JOIN reactions USING (message_id)
            WHERE posts.channel_id = ?1 AND deleted_at IS NULL AND substr(emoji, 1, 1) = ?2 AND length(emoji) <= 2
            AND posts.at >= coalesce((SELECT opened_at FROM rooms WHERE thread_id = ?1), 0)
            AND user_id NOT IN (SELECT value FROM json_each(?3)))
        GROUP BY agent ORDER BY count(*) DESC, agent"""
    return dict(await rows(db, query, thread_id, VOTE, json.dumps([*bots])))  # type: ignore[arg-type]


async def models_in_room(db: aiosqlite.Connection, thread_id: int) -> Mapping[str, tuple[str, ...]]:
    """Return agent → the models (provider/model) of its posts, in the order in which it first used them."""
    query = """SELECT agent, model FROM turns WHERE channel_id = ?1 AND model <> ''
        AND id IN (SELECT turn_id FROM posts WHERE channel_id = ?1) GROUP BY agent, model ORDER BY min(at)"""
    found: dict[str, list[str]] = defaultdict(list)
    for agent, model in await rows(db, query, thread_id):
        found[agent].append(model)
    return {agent: tuple(models) for agent, models in found.items()}


async def has_room_up_to(db: aiosqlite.Connection, thread_id: int, turn: int, closed_at: float | None) -> bool:
    """Return whether the record has the room's posts up to its turn number `turn`, with their texts, and what came of
    it when it closed at `closed_at` (None: that isn't needed)."""
    query = """SELECT coalesce(max(room_turn), 0) >= ?2
            AND NOT EXISTS (SELECT 1 FROM posts WHERE channel_id = ?1 AND text = '' AND deleted_at IS NULL
                AND message_id NOT IN (SELECT message_id FROM pictures))
            AND (?3 IS NULL OR EXISTS (SELECT 1 FROM room_conclusions WHERE thread_id = ?1 AND closed_at >= ?3))
        FROM turns WHERE channel_id = ?1 AND outcome = 'posted'"""
    found = await first(db, query, thread_id, turn, closed_at)
    return found is not None and bool(found[0])


CAN_BE_WON = "contests.id NOT IN (SELECT 'room-' || thread_id FROM rooms WHERE format IN ({}))".format(
    ", ".join(f"'{name}'" for name, each in FORMATS.items() if each.phases and not each.has_sides)
)
"""A condition: somebody can win the contest. A panel or an interview has no winner."""


async def contests_of_agent(db: aiosqlite.Connection, agent: str, count: int) -> tuple[ContestNote, ...]:
    """Read an agent's newest contests, newest first, each with all its contenders."""
    query = f"""SELECT id, kind, at, channel_id, question, asked_by FROM contests
        WHERE id IN (SELECT contest_id FROM contenders WHERE agent = ?) AND {CAN_BE_WON}
        ORDER BY at DESC, id DESC LIMIT ?"""
    contests = await rows(db, query, agent, count)
    query = f"""SELECT contest_id, {", ".join(Contender.model_fields)} FROM contenders
        WHERE contest_id IN (SELECT value FROM json_each(?)) ORDER BY votes DESC, agent, model"""
    entries: dict[str, list[Contender]] = defaultdict(list)
    for row in await rows(db, query, json.dumps([each["id"] for each in contests])):
        entries[row["contest_id"]].append(Contender(**dict(row)))
    return tuple(ContestNote(**dict(each), contenders=tuple(entries[each["id"]])) for each in contests)
