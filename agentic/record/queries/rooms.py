"""Rooms as they are now, with their messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import aiosqlite

from agentic.record.queries.pages import BEFORE_ALL, MOST_A_PAGE, Cursor, Page, first, page_of, rows


@dataclass(frozen=True, slots=True)
class RecordedRoom:
    """A room as agentic.state's RoomNote. `posts` and `cost_usd` are those of its members' turns."""

    thread_id: int
    channel_id: int
    guild_id: int | None
    conversation_id: str
    topic: str
    policy: str
    members: tuple[str, ...]
    left_members: tuple[str, ...]
    status: str
    why: str | None
    turns: int
    turn_number: int
    opened_by: int | None
    opened_at: float
    changed_at: float
    posts: int = 0
    cost_usd: float = 0.0

    @property
    def cursor(self) -> Cursor:
        return self.opened_at, self.thread_id


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A message in a room's thread. `agent` is its author's key, None for a person."""

    message_id: int
    author_id: int | None
    agent: str | None
    name: str
    text: str
    at: float


STORED = ", ".join(each.name for each in fields(RecordedRoom) if each.name not in ("posts", "cost_usd"))
MESSAGE = ", ".join(each.name for each in fields(RecordedMessage))
NEWEST_FIRST = "ORDER BY opened_at DESC, thread_id DESC"


async def rooms_page(
    db: aiosqlite.Connection, *, status: str | None = None, after: Cursor | None = None, count: int = 50
) -> Page[RecordedRoom]:
    """The rooms of a status (active, paused, closed; None: all), the last opened first."""
    count = min(count, MOST_A_PAGE)
    at, last_id = after or BEFORE_ALL
    found = await rows(
        db,
        f"""SELECT {STORED} FROM rooms WHERE (opened_at, thread_id) < (?1, ?2) AND (?3 IS NULL OR status = ?3)
        {NEWEST_FIRST} LIMIT ?4""",
        at,
        last_id,
        status,
        count + 1,
    )
    page = page_of(map(_room, found), count, lambda room: room.cursor)
    return replace(page, items=await _with_sums(db, page.items))


async def room_of(db: aiosqlite.Connection, thread_id: int) -> RecordedRoom | None:
    """None where the record does not have it."""
    row = await first(db, f"SELECT {STORED} FROM rooms WHERE thread_id = ?", thread_id)
    return (await _with_sums(db, (_room(row),)))[0] if row else None


async def messages_of_room(db: aiosqlite.Connection, thread_id: int) -> tuple[RecordedMessage, ...]:
    """The newest messages that the record has, in their order."""
    found = await rows(db, f"SELECT {MESSAGE} FROM room_messages WHERE thread_id = ? ORDER BY message_id", thread_id)
    return tuple(RecordedMessage(*row) for row in found)


async def _with_sums(db: aiosqlite.Connection, rooms: Sequence[RecordedRoom]) -> tuple[RecordedRoom, ...]:
    found = await rows(
        db,
        """SELECT channel_id, SUM(outcome = 'posted'), SUM(cost_usd) FROM turns
        WHERE channel_id IN (SELECT value FROM json_each(?)) GROUP BY channel_id""",
        json.dumps([room.thread_id for room in rooms]),
    )
    sums = {thread_id: (posts, cost) for thread_id, posts, cost in found}
    none = (0, 0.0)
    return tuple(
        replace(room, posts=sums.get(room.thread_id, none)[0], cost_usd=sums.get(room.thread_id, none)[1])
        for room in rooms
    )


def _room(row: Any) -> RecordedRoom:
    room = RecordedRoom(*row)
    return replace(room, members=tuple(json.loads(row["members"])), left_members=tuple(json.loads(row["left_members"])))
