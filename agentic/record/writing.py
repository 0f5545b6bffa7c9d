"""Write entries of the streams into the file: one transaction a batch, with the positions behind it.

So an entry and the position that says that it was read are in the file both, or neither. An entry that the file does
not take is left out, and reported; the others of its batch are written.

Each call's words are compressed by themselves. The system prompt repeats; to have it once for all calls would save
about 2 KB of each, but people's words could be in it, and would then have to be removed in a second place.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass

import aiosqlite

from agentic.record.personal_data import RecordingBlocklist, Worded, delete_messages, load_blocklist
from agentic.record.rows import (
    ACTION,
    CONSENT,
    CONVERSATION,
    DELETED_POST,
    GOES_ON,
    NO_REACTION,
    REACTION,
    REPLAY,
    SEARCH,
    UNASKED,
    WORDS,
    DayOf,
    Statement,
    Values,
    call_words_statements,
    contest_statements,
    message_statements,
    post_statements,
    profile_statements,
    room_statements,
    room_words_statements,
    search_statement,
    summary_statements,
    turn_statements,
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

LEVEL = 9
RecordEntry = Entry | TurnRecord
# Of the entry, not of the file: a number that is too large, a text that is none.
UNFIT = (OverflowError, ValueError, sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
POSITION = """
INSERT INTO positions (stream, last_id, last_n, dropped) VALUES (?, ?, ?, ?) ON CONFLICT (stream)
DO UPDATE SET last_id = excluded.last_id, last_n = excluded.last_n, dropped = excluded.dropped
"""
UNDONE_BY = {
    REACTION.sql: NO_REACTION,
    NO_REACTION: REACTION.sql,
    CONVERSATION.sql: GOES_ON,
    WORDS.sql: SEARCH,
}

log = logging.getLogger(__name__)


class Overtaken(Exception):
    """Another recorder has written to the file since this one read the positions from it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """`prompts`: whether the words of calls, and the messages of rooms, are kept; `messages`: whether logged ones are,
    and their summaries."""

    day_of: DayOf
    prompts: bool = True
    messages: bool = True


def pack(words: CallWords) -> bytes:
    """Compress a call's words, without `quoted`: it has a table of its own."""
    return zlib.compress(words.model_dump_json(exclude_defaults=True, exclude={"quoted"}).encode(), LEVEL)


def unpack(data: bytes) -> CallWords:
    """Read what `pack` made. Raises ValueError if it can't be read."""
    try:
        return CallWords.model_validate_json(zlib.decompress(data))
    except zlib.error as error:
        raise ValueError(f"the words of a call cannot be read: {error}") from error


@asynccontextmanager
async def transaction(db: aiosqlite.Connection) -> AsyncIterator[None]:
    """All of it or nothing, even if the caller is cancelled."""
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

    async def write_by(write_all: Callable[..., Awaitable[int]]) -> int:
        async with transaction(db):
            if await read_positions(db) != known:
                raise Overtaken
            removed = await write_all(db, entries, rules)
            positions = [(each.stream, *astuple(each.position)) for each in received]
            await db.executemany(POSITION, positions)
        return removed

    try:
        return await write_by(_write_entries)
    except UNFIT as error:
        log.debug("a batch has an entry that the file does not take: %s", error)
        return await write_by(_write_one_by_one)


async def _write_one_by_one(db: aiosqlite.Connection, entries: Iterable[RecordEntry], rules: Rules) -> int:
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


async def _write_entries(db: aiosqlite.Connection, entries: Sequence[RecordEntry], rules: Rules) -> int:
    """Deletions first: what is quoted or posted in the same batch must know them."""
    removed = 0
    for note in entries:
        if isinstance(note, DeletionNote):
            removed += await delete_messages(db, note)
    blocklist = await load_blocklist(db, [entry for entry in entries if isinstance(entry, Worded)])
    # Compressing long prompts takes milliseconds, which the bots would feel.
    for sql, rows in await asyncio.to_thread(lambda: join_statements(entry_statements(entries, blocklist, rules))):
        await db.executemany(sql, rows)
    return removed


def join_statements(statements: Iterable[Statement]) -> list[Statement]:
    """Join the rows of each statement, in order; but what undoes another statement's rows stays behind them."""
    whole: list[Statement] = []
    places: dict[str, list[Values]] = {}
    for sql, rows in statements:
        places.pop(UNDONE_BY.get(sql, ""), None)
        if sql not in places:
            places[sql] = []
            whole.append((sql, places[sql]))
        places[sql] += rows
    return whole


def entry_statements(
    entries: Iterable[RecordEntry], blocklist: RecordingBlocklist, rules: Rules
) -> Iterable[Statement]:
    for entry in entries:
        match entry:
            case TurnRecord():
                yield from turn_statements(blocklist.without_person(entry), rules.day_of)
            case CallWords() | RoomWords() | SearchWords() if not rules.prompts:
                pass
            case CallWords() if why := blocklist.why_not(entry):
                yield WORDS.of(entry, asked_by=None, data=None, removed=why)
            case CallWords():
                yield from call_words_statements(entry, pack(entry))
            case SearchWords():
                if not blocklist.lost_channel(entry.channel_id, None, entry.at):
                    yield search_statement(entry)
            case RoomWords():
                yield from room_words_statements(blocklist.without_blocked(entry))
            case PostWords() if blocklist.lost_post(entry):
                yield DELETED_POST.of(entry, deleted_at=entry.at)
            case PostWords():
                yield from post_statements(entry)
            case RoomNote():
                yield from room_statements(blocklist.without_opener(entry))
            case ContestNote():
                yield from contest_statements(blocklist.without_asker(entry))
            case ReactionNote() | LoggedMessage() | SummaryNote() | ProfileNote() | ConsentNote() if blocklist.has(
                entry
            ):
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
                yield CONSENT.of(entry)
            case UnaskedNote():
                yield UNASKED.of(blocklist.without_words(entry))
            case ConversationNote():
                yield CONVERSATION.of(entry)
            case ReactionNote(given=True):
                yield REACTION.of(entry)
            case ReactionNote():
                yield NO_REACTION, [(entry.message_id, entry.user_id, entry.emoji)]
            case ActionNote():
                yield ACTION.of(entry)
            case ReplayNote():
                yield REPLAY.of(entry)
