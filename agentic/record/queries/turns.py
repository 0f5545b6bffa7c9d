"""Read turns: a filtered list, and a single turn with everything that the record has about it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import aiosqlite

from agentic.record.queries.posts import (
    BEFORE_ALL,
    MAX_PAGE,
    Conversation,
    Cursor,
    Page,
    Post,
    conversation_of,
    first,
    page_of,
    posts_of_turn,
    rows,
)
from agentic.record.rows import PHASE_COLUMNS, TURN_COLUMNS
from agentic.state.record_stream import unpack
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import CallRecord, CallWords, Phases, SearchWords, ToolCallRecord

TEXT_CHARACTERS = 200  # of a post, in the list
SEARCHED = 20_000  # turns whose posts one page searches; the next page continues after them
CALL_COLUMNS = ", ".join(f"calls.{name}" for name in CallRecord.model_fields)
TOOL_CALL_COLUMNS = ", ".join(ToolCallRecord.model_fields)


class Turn(TurnRecord):
    """A turn as it is recorded. `seq` orders turns of the same time. `text`: the start of its first post. Its posts and
    calls are in WholeTurn."""

    seq: int
    text: str

    @property
    def cursor(self) -> Cursor:
        return self.at, self.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Which turns a list has; None: all. Times are unix seconds: from `since` to before `until`. `text`: a text in the
    agent's posts, ignoring the case of the letters a to z."""

    agent: str | None = None
    channel_id: int | None = None
    conversation_id: str | None = None
    outcome: str | None = None
    asked_by: int | None = None
    model: str | None = None
    since: float | None = None
    until: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model. `words`: None if they aren't stored, or no longer. `removed` says why, if it isn't for their
    age: "forgotten", "deleted", or "unreadable"."""

    record: CallRecord
    words: CallWords | None
    removed: str | None


@dataclass(frozen=True, slots=True)
class WholeTurn:
    """A turn with everything that is recorded about it. `skipped`: earlier turns of its round that posted nothing."""

    turn: Turn
    calls: tuple[Call, ...]
    tool_calls: tuple[ToolCallRecord, ...]
    searches: tuple[SearchWords, ...]
    posts: tuple[Post, ...]
    conversation: Conversation | None
    skipped: tuple[Turn, ...]


FIRST_TEXT = f"""COALESCE((SELECT substr(posts.text, 1, {TEXT_CHARACTERS}) FROM posts
    WHERE posts.agent = turns.agent AND posts.turn_id = turns.id ORDER BY posts.message_id LIMIT 1), '')"""
TURN = f"{', '.join(f'turns.{column}' for column in ('seq', *TURN_COLUMNS))}, {FIRST_TEXT} AS text"
NEWEST_FIRST = "ORDER BY turns.at DESC, turns.seq DESC"
TEXT_FOUND = r"""EXISTS (SELECT 1 FROM posts
    WHERE posts.agent = turns.agent AND posts.turn_id = turns.id AND posts.text LIKE ? ESCAPE '\')"""


async def turns_page(
    db: aiosqlite.Connection, wanted: TurnFilter, *, after: Cursor | None = None, count: int = 50
) -> Page[Turn]:
    """Read a page of at most `count` turns. A page of a search for text may have few turns or none before the end."""
    count = min(count, MAX_PAGE)
    columns = ("agent", "channel_id", "conversation_id", "outcome", "asked_by", "model")
    conditions = {f"turns.{name} = ?": getattr(wanted, name) for name in columns}
    conditions |= {"turns.at >= ?": wanted.since, "turns.at < ?": wanted.until}
    asked = {condition: value for condition, value in conditions.items() if value is not None}
    where = " AND ".join(["(turns.at, turns.seq) < (?, ?)", *asked])
    values = [*(after or BEFORE_ALL), *asked.values()]
    if wanted.text:
        return await _search(db, wanted.text, where, values, count)
    found = await rows(db, f"SELECT {TURN} FROM turns WHERE {where} {NEWEST_FIRST} LIMIT ?", *values, count + 1)
    return page_of(map(_turn, found), count, lambda turn: turn.cursor)


async def whole_turn(db: aiosqlite.Connection, agent: str, turn_id: str) -> WholeTurn | None:
    """Return None if the record has no such turn."""
    row = await first(db, f"SELECT {TURN} FROM turns WHERE agent = ? AND id = ?", agent, turn_id)
    if row is None:
        return None
    turn = _turn(row)
    skipped: Iterable[sqlite3.Row] = ()
    if turn.conversation_id is not None and turn.round_number is not None:
        query = f"""SELECT {TURN} FROM turns WHERE conversation_id = ? AND round = ? AND (at, seq) < (?, ?)
        AND outcome <> 'posted' ORDER BY at, seq"""
        skipped = await rows(db, query, turn.conversation_id, turn.round_number, *turn.cursor)
    of_turn = "WHERE agent = ? AND turn_id = ? ORDER BY n"
    tool_calls = await rows(db, f"SELECT {TOOL_CALL_COLUMNS} FROM tool_calls {of_turn}", agent, turn_id)
    searches = await rows(db, f"SELECT * FROM searches {of_turn}", agent, turn_id)
    return WholeTurn(
        turn,
        await calls_of_turn(db, agent, turn_id),
        tuple(ToolCallRecord(**dict(each)) for each in tool_calls),
        tuple(SearchWords(**dict(each), pages=json.loads(each["results"])) for each in searches),
        await posts_of_turn(db, agent, turn_id),
        await conversation_of(db, turn.conversation_id) if turn.conversation_id else None,
        tuple(map(_turn, skipped)),
    )


async def calls_of_turn(db: aiosqlite.Connection, agent: str, turn_id: str) -> tuple[Call, ...]:
    query = f"""SELECT words.data, words.removed, {CALL_COLUMNS}
        FROM calls LEFT JOIN words USING (agent, turn_id, n) WHERE agent = ? AND turn_id = ? ORDER BY n"""
    calls = []
    for row in await rows(db, query, agent, turn_id):
        words, removed = None, row["removed"]
        if row["data"] is not None:
            try:
                words, removed = unpack(row["data"]), None
            except ValueError:  # from another version, or from a damaged file
                removed = "unreadable"
        calls.append(Call(CallRecord(**dict(row)), words, removed))
    return tuple(calls)


async def costliest_turns(db: aiosqlite.Connection, first_day: str, last_day: str) -> tuple[Turn, ...]:
    """Read the ten most expensive turns of these days (YYYY-MM-DD, both included), most expensive first."""
    query = f"""SELECT {TURN} FROM turns WHERE seq IN (
            SELECT seq FROM turns WHERE day BETWEEN ? AND ? AND cost_usd > 0 ORDER BY cost_usd DESC LIMIT 10)
        ORDER BY cost_usd DESC"""
    return tuple(map(_turn, await rows(db, query, first_day, last_day)))


async def turns_of_conversation(db: aiosqlite.Connection, conversation_id: str) -> tuple[Turn, ...]:
    """Read the turns, oldest first."""
    query = f"SELECT {TURN} FROM turns WHERE conversation_id = ? ORDER BY at, seq"
    return tuple(map(_turn, await rows(db, query, conversation_id)))


async def turns_of_channel(db: aiosqlite.Connection, channel_id: int) -> tuple[Turn, ...]:
    """Read the turns in a channel or thread, oldest first."""
    query = f"SELECT {TURN} FROM turns WHERE channel_id = ? ORDER BY at, seq"
    return tuple(map(_turn, await rows(db, query, channel_id)))


async def _search(db: aiosqlite.Connection, text: str, where: str, values: list[Any], count: int) -> Page[Turn]:
    """Search the posts of the next SEARCHED turns, so that a rare word doesn't take the whole record to find."""
    searched = f"SELECT turns.* FROM turns WHERE {where} {NEWEST_FIRST} LIMIT {SEARCHED}"
    query = f"SELECT {TURN} FROM ({searched}) AS turns WHERE {TEXT_FOUND} {NEWEST_FIRST} LIMIT ?"
    pattern = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    found = await rows(db, query, *values, pattern, count + 1)
    page = page_of(map(_turn, found), count, lambda turn: turn.cursor)
    if page.next is not None:
        return page
    query = f"SELECT at, seq FROM turns WHERE {where} {NEWEST_FIRST} LIMIT 1 OFFSET {SEARCHED - 1}"
    last = await first(db, query, *values)
    return replace(page, next=(last[0], last[1]) if last else None)


def _turn(row: sqlite3.Row) -> Turn:
    stored = dict(row)
    phases = zip(Phases.model_fields, (stored.pop(column) for column in PHASE_COLUMNS), strict=True)
    emoji, reacted_to = stored.pop("emoji"), stored.pop("reacted_to")
    reacted = {"emoji": emoji, "message_id": reacted_to} if emoji and reacted_to else None
    known = {"round_number": stored.pop("round"), "phases": dict(phases), "reacted": reacted}
    known["image"] = bool(stored["image"])
    return Turn.model_validate({**stored, **known})
