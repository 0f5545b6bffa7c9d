"""Read turns: a filtered list, and a single turn with everything that the record has about it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

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
from agentic.record.queries.statistics import FAILURES
from agentic.record.rows import PHASE_COLUMNS, TURN_COLUMNS
from agentic.state.record_stream import unpack
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import CallRecord, CallWords, Phases, SearchWords, ToolCallRecord

TEXT_CHARACTERS = 200  # of a post, in the list
LEAD = 30  # characters before what a search found
Within = Literal["posts", "prompts"]
# Turns whose posts or prompts one page searches; the next page continues after them.
SEARCHED: Mapping[Within, int] = {"posts": 20_000, "prompts": 2_000}
Order = Literal["newest", "cost", "time"]
ORDERS: Mapping[Order, str] = {"newest": "at", "cost": "cost_usd", "time": "seconds"}
"""How a list of turns is sorted, the largest first: order → column."""
CALL_COLUMNS = ", ".join(f"calls.{name}" for name in CallRecord.model_fields)
TOOL_CALL_COLUMNS = ", ".join(ToolCallRecord.model_fields)


class Turn(TurnRecord):
    """A recorded turn, without its posts and calls. `seq` orders turns of the same time. `text`: its first words."""

    seq: int
    text: str

    @property
    def cursor(self) -> Cursor:
        return self.cursor_in("newest")

    def cursor_in(self, order: Order) -> Cursor:
        return getattr(self, ORDERS[order]), self.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Which turns a list has; None: all. Times are unix seconds: from `since` to before `until`. `text`: a text in the
    agent's posts, ignoring the case of the letters a to z, or in its prompts and answers if `within` is "prompts",
    ignoring case. `has_words`: only turns whose prompts are stored."""

    agent: str | None = None
    channel_id: int | None = None
    conversation_id: str | None = None
    outcome: str | None = None
    asked_by: int | None = None
    model: str | None = None
    since: float | None = None
    until: float | None = None
    text: str = ""
    within: Within = "posts"
    has_words: bool = False


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """The turns in a part of a time range, which begins `at` (unix seconds): their number, cost, and failures."""

    at: float
    turns: int
    cost_usd: float
    failures: int


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
COLUMNS = ", ".join(f"turns.{column}" for column in ("seq", *TURN_COLUMNS))
TURN = f"{COLUMNS}, {FIRST_TEXT} AS text"
WITH_WORDS = "EXISTS (SELECT 1 FROM words WHERE agent = turns.agent AND turn_id = turns.id AND data IS NOT NULL)"
# The text of the first post that has the searched text, from shortly before it on.
FOUND_IN_POSTS = rf"""(SELECT CASE WHEN instr(lower(posts.text), lower(?2)) <= {LEAD}
        THEN substr(posts.text, 1, {TEXT_CHARACTERS})
        ELSE '…' || substr(posts.text, instr(lower(posts.text), lower(?2)) - {LEAD}, {TEXT_CHARACTERS}) END
    FROM posts WHERE posts.agent = turns.agent AND posts.turn_id = turns.id AND posts.text LIKE ?1 ESCAPE '\'
    ORDER BY posts.message_id LIMIT 1)"""
FOUND_IN_PROMPTS = f"""(SELECT {FIRST_TEXT} FROM words
    WHERE words.agent = turns.agent AND words.turn_id = turns.id AND data IS NOT NULL AND has_text(data, ?2) LIMIT 1)"""


async def turns_page(
    db: aiosqlite.Connection,
    wanted: TurnFilter,
    *,
    order: Order = "newest",
    after: Cursor | None = None,
    count: int = 50,
) -> Page[Turn]:
    """Read a page of at most `count` turns. A page of a search for text may have few turns or none before the end."""
    count = min(count, MAX_PAGE)
    where, values = _conditions(wanted)
    place = f"({ORDERS[order]}, seq) < (?, ?)"
    ordered = f"ORDER BY {ORDERS[order]} DESC, seq DESC"
    chosen = f"SELECT seq FROM turns WHERE {' AND '.join([place, *where])} {ordered} LIMIT ?"
    values = [*(after or BEFORE_ALL), *values]
    if wanted.text:
        return await _search(db, wanted, chosen, values, order, count)
    query = f"SELECT {TURN} FROM turns WHERE seq IN ({chosen}) {ordered}"
    found = await rows(db, query, *values, count + 1)
    return page_of(map(_turn, found), count, lambda turn: turn.cursor_in(order))


async def neighbors(
    db: aiosqlite.Connection, wanted: TurnFilter, turn: Turn, order: Order = "newest"
) -> tuple[Turn | None, Turn | None]:
    """Return the turns before and after a turn in the list with this filter, whose search for text is left out."""
    where, values = _conditions(wanted)
    found: list[Turn | None] = []
    for sign, direction in ((">", "ASC"), ("<", "DESC")):
        conditions = " AND ".join([f"({ORDERS[order]}, seq) {sign} (?, ?)", *where])
        ordered = f"ORDER BY {ORDERS[order]} {direction}, seq {direction} LIMIT 1"
        query = f"SELECT {COLUMNS}, '' AS text FROM turns WHERE {conditions} {ordered}"
        row = await first(db, query, *turn.cursor_in(order), *values)
        found.append(_turn(row) if row is not None else None)
    return found[0], found[1]


async def newest_failures(db: aiosqlite.Connection, since: float, count: int, agent: str | None = None) -> list[Turn]:
    """Return the newest turns that failed since then (unix seconds), newest first."""
    wanted = [TurnFilter(agent=agent, outcome=outcome, since=since) for outcome in FAILURES]
    found = [turn for each in wanted for turn in (await turns_page(db, each, count=count)).items]
    return sorted(found, key=lambda turn: -turn.at)[:count]


async def newest_numbers(db: aiosqlite.Connection) -> tuple[int, int]:
    """Return the `seq` of the turn and the `id` of the prompt that were recorded last, 0 if there is none."""
    query = "SELECT COALESCE((SELECT max(seq) FROM turns), 0), COALESCE((SELECT max(id) FROM words), 0)"
    ((turn, words),) = await rows(db, query)
    return int(turn), int(words)


async def turns_over_time(
    db: aiosqlite.Connection, wanted: TurnFilter, until: float, parts: int
) -> tuple[TimeBucket, ...]:
    """Count the turns in equal parts of the filter's time range, which ends by `until` (unix seconds) at the latest and
    begins with the first turn if the filter says nothing else. The search for text is left out."""
    where, values = _conditions(wanted)
    condition = f"WHERE {' AND '.join(where)}" if where else ""
    begin, end = wanted.since, wanted.until or until
    if begin is None:
        ((begin,),) = await rows(db, f"SELECT min(at) FROM turns {condition}", *values)
    if begin is None or end <= begin:
        return ()
    length = (end - begin) / parts
    query = f"""SELECT min(CAST((at - ?) / ? AS INTEGER), ?) AS part, COUNT(*), SUM(cost_usd),
            SUM(outcome IN ({", ".join("?" * len(FAILURES))}))
        FROM turns {condition} GROUP BY part"""
    found = {part: sums for part, *sums in await rows(db, query, begin, length, parts - 1, *FAILURES, *values)}
    return tuple(TimeBucket(begin + part * length, *found.get(part, (0, 0.0, 0))) for part in range(parts))


def _conditions(wanted: TurnFilter) -> tuple[list[str], list[Any]]:
    """Return the conditions of a filter, except for its text, and their values."""
    columns = ("agent", "channel_id", "conversation_id", "outcome", "asked_by", "model")
    conditions = {f"turns.{name} = ?": getattr(wanted, name) for name in columns}
    conditions |= {"turns.at >= ?": wanted.since, "turns.at < ?": wanted.until}
    asked = {condition: value for condition, value in conditions.items() if value is not None}
    return [*asked, *([WITH_WORDS] if wanted.has_words else [])], list(asked.values())


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


async def turn_of_message(db: aiosqlite.Connection, message_id: int) -> Turn | None:
    """Return the turn that posted a message; None if the record doesn't have it."""
    query = f"SELECT {TURN} FROM posts JOIN turns ON turns.agent = posts.agent AND turns.id = posts.turn_id"
    row = await first(db, f"{query} WHERE posts.message_id = ?", message_id)
    return _turn(row) if row else None


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


async def _search(
    db: aiosqlite.Connection, wanted: TurnFilter, chosen: str, values: Sequence[Any], order: Order, count: int
) -> Page[Turn]:
    """Search the next SEARCHED turns of `chosen`, so that a rare word doesn't take the whole record to find."""
    pattern = "%" + wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    most, place = SEARCHED[wanted.within], FOUND_IN_POSTS
    if wanted.within == "prompts":
        place = FOUND_IN_PROMPTS
        await db.create_function("has_text", 2, has_text, deterministic=True)
    # The numbered values come first: each further "?" is the next number.
    query = f"""SELECT * FROM (SELECT {COLUMNS}, {place} AS text FROM turns WHERE seq IN ({chosen}))
        WHERE text IS NOT NULL ORDER BY {ORDERS[order]} DESC, seq DESC LIMIT ?"""
    found = await rows(db, query, pattern, wanted.text, *values, most, count + 1)
    page = page_of(map(_turn, found), count, lambda turn: turn.cursor_in(order))
    if page.next is not None:
        return page
    last = await first(
        db, f"SELECT {ORDERS[order]}, seq FROM turns WHERE seq IN ({chosen} OFFSET ?)", *values, 1, most - 1
    )
    return replace(page, next=(last[0], last[1]) if last else None)


def has_text(data: bytes, text: str) -> bool:
    """Return whether the packed words of a call have a text in the prompt, reasoning, answer, or tool calls."""
    try:
        words = unpack(data)
    except ValueError:  # from another version, or from a damaged file
        return False
    tools = json.dumps([words.options.get("rounds"), words.tool_calls], ensure_ascii=False)
    history = (message.text for message in words.history)
    sought = text.casefold()
    texts = (words.system, *history, words.text, words.completion, words.reasoning, tools)
    return any(sought in part.casefold() for part in texts)


def _turn(row: sqlite3.Row) -> Turn:
    stored = dict(row)
    phases = zip(Phases.model_fields, (stored.pop(column) for column in PHASE_COLUMNS), strict=True)
    emoji, reacted_to = stored.pop("emoji"), stored.pop("reacted_to")
    reacted = {"emoji": emoji, "message_id": reacted_to} if emoji and reacted_to else None
    known = {"round_number": stored.pop("round"), "phases": dict(phases), "reacted": reacted}
    known["image"] = bool(stored["image"])
    return Turn.model_validate({**stored, **known})
