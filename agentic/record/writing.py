"""Write entries of the streams into the file: each batch in one transaction, with the streams' new positions.

So the file never has an entry without the position that says it was read, or the other way around. If an entry can't
be written, it is skipped and logged; the other entries of its batch are written.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple

import aiosqlite

from agentic.record.blocklist import RecordEntry, load_blocklist
from agentic.record.forgetting import delete_messages
from agentic.record.rows import Rules, entry_statements, join_statements
from agentic.record.stream_reader import Position, Received
from agentic.wire.entries import DeletionNote

# Errors of an entry, not of the file: a number that is too large, a text that can't be encoded.
UNFIT = (OverflowError, ValueError, sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
POSITION = """
INSERT INTO positions (stream, last_id, last_n, dropped) VALUES (?, ?, ?, ?) ON CONFLICT (stream)
DO UPDATE SET last_id = excluded.last_id, last_n = excluded.last_n, dropped = excluded.dropped
"""
log = logging.getLogger(__name__)


class Overtaken(Exception):
    """Another recorder has written to the file since this recorder read the positions from it."""


@asynccontextmanager
async def transaction(db: aiosqlite.Connection) -> AsyncIterator[None]:
    """Open a transaction that is committed as a whole or not at all, even if the caller is canceled."""
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
    """Write a batch. Return how many rows its deletions removed or emptied.

    `known`: the positions that the file must have. Raises Overtaken, sqlite3.Error.
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
        log.debug("writing a batch failed: %s; trying each entry", error)
        return await write_by(_write_one_by_one)


async def _write_one_by_one(db: aiosqlite.Connection, entries: Iterable[RecordEntry], rules: Rules) -> int:
    removed = 0
    for entry in entries:
        await db.execute("SAVEPOINT entry")
        try:
            removed += await _write_entries(db, [entry], rules)
        except UNFIT as error:
            await db.execute("ROLLBACK TO entry")
            log.error("recording a %s failed: %s; it is skipped", type(entry).__name__, error)
        await db.execute("RELEASE entry")
    return removed


async def _write_entries(db: aiosqlite.Connection, entries: Sequence[RecordEntry], rules: Rules) -> int:
    removed = 0
    # Deletions come first: other entries of the batch may quote a deleted message.
    for note in entries:
        if type(note) is DeletionNote:
            removed += await delete_messages(db, note)
    blocklist = await load_blocklist(db, entries)
    # In a thread, since long entries take milliseconds, which would delay the bots.
    for sql, rows in await asyncio.to_thread(lambda: join_statements(entry_statements(entries, blocklist, rules))):
        await db.executemany(sql, rows)
    return removed
