"""Batches of entries in one transaction.

The words of a call as they lie in the file.

Each call is compressed for itself. The system prompt repeats; to have it once for all calls would save about 2 KB of
each, but people's words could be in it, and would then have to be removed in a second place.

Writes what was read of the streams into the file: one transaction a batch, with the positions behind it.

So an entry and the position that says that it was read are in the file both, or neither. An entry that the file does
not take is left out, and reported; the others of its batch are written.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiosqlite

from agentic.record.personal_data import Barred, Worded, barred, delete_messages
from agentic.record.rows import (
    CONVERSATION,
    GOES_ON,
    NO_REACTION,
    REACTION,
    SEARCH,
    WORDS,
    DayOf,
    Statement,
    Values,
    call_words_statements,
    consent_statement,
    contest_statements,
    deleted_post_statement,
    message_statements,
    note_statement,
    post_statements,
    profile_statements,
    removed_words_statement,
    room_statements,
    room_words_statements,
    search_statement,
    summary_statements,
    turn_statements,
    unasked_statement,
)
from agentic.record.stream_reader import Position, Received
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import (
    ActionNote,
    CallWords,
    ConsentNote,
    ContestNote,
    ConversationNote,
    DeletionNote,
    Entry,
    LoggedMessage,
    PostWords,
    ProfileNote,
    ReactionNote,
    ReplayNote,
    RoomNote,
    RoomWords,
    SearchWords,
    SummaryNote,
    UnaskedNote,
)

log = logging.getLogger(__name__)


LEVEL = 9


def pack(words: CallWords) -> bytes:
    """`quoted` is left out: it has a table of its own."""
    return zlib.compress(words.model_dump_json(exclude_defaults=True, exclude={"quoted"}).encode(), LEVEL)


def unpack(data: bytes) -> CallWords:
    """Read what `pack` made. Raises ValueError where it cannot be read."""
    try:
        return CallWords.model_validate_json(zlib.decompress(data))
    except zlib.error as error:
        raise ValueError(f"the words of a call cannot be read: {error}") from error


# Of the entry, not of the file: a number that is too large, a text that is none.
UNFIT = (OverflowError, ValueError, sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
POSITION = """
INSERT INTO positions (stream, last_id, last_n, dropped) VALUES (?, ?, ?, ?) ON CONFLICT (stream)
DO UPDATE SET last_id = excluded.last_id, last_n = excluded.last_n, dropped = excluded.dropped
"""
UNDONE_BY = {REACTION: NO_REACTION, NO_REACTION: REACTION, CONVERSATION: GOES_ON, WORDS: SEARCH}


class Overtaken(Exception):
    """Another recorder has written to the file since this one read the positions from it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """`prompts`: whether the words of calls, and the messages of rooms, are kept; `messages`: whether logged ones are,
    and their summaries."""

    day_of: DayOf
    prompts: bool = True
    messages: bool = True


@asynccontextmanager
async def transaction(db: aiosqlite.Connection) -> AsyncIterator[None]:
    """All of it or nothing, also where the caller is cancelled."""
    await db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        await db.rollback()
        raise
    await db.commit()


async def read_positions(db: aiosqlite.Connection) -> dict[str, Position]:
    found = await db.execute_fetchall("SELECT stream, last_id, last_n, dropped FROM positions")
    return {row[0]: Position(row[1], row[2], row[3]) for row in found}


async def write(
    db: aiosqlite.Connection, received: Sequence[Received], known: Mapping[str, Position], rules: Rules
) -> int:
    """Write a batch. Returns how many rows lost words by deletions in it.

    `known` are the positions that the file must have. Raises Overtaken, sqlite3.Error.
    """
    entries = [entry for each in received for entry in each.entries]
    try:
        async with transaction(db):
            await _check(db, known)
            removed = await _write_entries(db, entries, rules)
            await _write_positions(db, received)
    except UNFIT as error:
        log.debug("a batch has an entry that the file does not take: %s", error)
        async with transaction(db):
            await _check(db, known)
            removed = await _write_one_by_one(db, entries, rules)
            await _write_positions(db, received)
    return removed


async def _check(db: aiosqlite.Connection, known: Mapping[str, Position]) -> None:
    if await read_positions(db) != known:
        raise Overtaken


async def _write_positions(db: aiosqlite.Connection, received: Iterable[Received]) -> None:
    behind = [(each.stream, each.position) for each in received]
    await db.executemany(POSITION, [(stream, at.last_id, at.last_n, at.dropped) for stream, at in behind])


async def _write_one_by_one(db: aiosqlite.Connection, entries: Iterable[Entry | TurnRecord], rules: Rules) -> int:
    removed = 0
    for entry in entries:
        await db.execute("SAVEPOINT entry")
        try:
            removed += await _write_entries(db, [entry], rules)
        except UNFIT as error:
            await db.execute("ROLLBACK TO entry")
            log.error("an entry cannot be recorded and is left out (%s): %s", type(entry).__name__, error)
        await db.execute("RELEASE entry")
    return removed


async def _write_entries(db: aiosqlite.Connection, entries: Sequence[Entry | TurnRecord], rules: Rules) -> int:
    """Deletions first: what is quoted or posted in the same batch must know them."""
    removed = 0
    for note in entries:
        if isinstance(note, DeletionNote):
            removed += await delete_messages(db, note)
    bars = await barred(db, [entry for entry in entries if isinstance(entry, Worded)])
    # Compressing long prompts takes milliseconds, which the bots would feel.
    for sql, rows in await asyncio.to_thread(lambda: joined(entry_statements(entries, bars, rules))):
        await db.executemany(sql, rows)
    return removed


def joined(statements: Iterable[Statement]) -> list[Statement]:
    """The rows of each statement together, in order; but what undoes another statement's rows stays behind them."""
    whole: list[Statement] = []
    places: dict[str, list[Values]] = {}
    for sql, rows in statements:
        places.pop(UNDONE_BY.get(sql, ""), None)
        if sql not in places:
            places[sql] = []
            whole.append((sql, places[sql]))
        places[sql] += rows
    return whole


def entry_statements(entries: Iterable[Entry | TurnRecord], bars: Barred, rules: Rules) -> Iterable[Statement]:
    for entry in entries:
        match entry:
            case TurnRecord():
                yield from turn_statements(bars.without_person(entry), rules.day_of)
            case CallWords():
                if rules.prompts:
                    why = bars.why_not(entry)
                    yield from (
                        [removed_words_statement(entry, why)] if why else call_words_statements(entry, pack(entry))
                    )
            case SearchWords():
                if rules.prompts and not bars.lost_channel(entry.channel_id, None, entry.at):
                    yield search_statement(entry)
            case PostWords():
                yield from [deleted_post_statement(entry)] if bars.lost_post(entry) else post_statements(entry)
            case RoomWords():
                if rules.prompts:
                    yield from room_words_statements(bars.without_barred(entry))
            case RoomNote():
                yield from room_statements(bars.without_opener(entry))
            case ContestNote():
                yield from contest_statements(bars.without_asker(entry))
            case ReactionNote() | LoggedMessage() | SummaryNote() | ProfileNote() | ConsentNote() if bars.bars(entry):
                pass
            case LoggedMessage() | SummaryNote() if not rules.messages:
                pass
            case LoggedMessage():
                yield from message_statements(entry)
            case SummaryNote():
                yield from summary_statements(entry)
            case ProfileNote():
                yield from profile_statements(entry)
            case ConsentNote():
                yield consent_statement(entry)
            case UnaskedNote():
                yield unasked_statement(bars.without_words(entry))
            case ConversationNote() | ReactionNote() | ActionNote() | ReplayNote():
                yield note_statement(entry)
