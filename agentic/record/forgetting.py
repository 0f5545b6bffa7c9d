"""Remove the data of people who asked to be forgotten, and deleted messages, as STORED says (personal_data.py).

The tables `forgotten`, `deleted_messages`, and `deleted_channels` remember both for as long as older entries may still
arrive, so that these don't restore the words (blocklist.py). If a person writes again after `/forget me`, the new
messages are recorded.

The functions run inside their caller's transaction. Triggers update the search index (recall.py). The pages of removed
words are overwritten (database.py), and pages in the write-ahead log are removed when it's emptied.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import aiosqlite

from agentic.ids import FIRST_ELSEWHERE, MAX_ID, id_at, is_snowflake
from agentic.record.personal_data import IDS, RECORD, Effect, Sql, StoredData
from agentic.state.forget_requests import RemovedWords
from agentic.wire.entries import DeletionNote

FORGOTTEN, DELETED = "forgotten", "deleted"  # why a prompt has lost its words
MAX_EXPORTED = 20_000  # rows of a table

# Finds a person's private chats with one agent in Discord. A turn may lack the server if its channel was deleted by
# then, so a chat isn't private if any row has a server, another person, or a second agent there.
_PRIVATE_CHATS = """
WITH chats (id) AS (
  SELECT value FROM json_each(:named)
  UNION SELECT channel_id FROM turns WHERE asked_by = :person AND guild_id IS NULL
  UNION SELECT unasked.channel_id FROM unasked JOIN turns USING (channel_id)
    WHERE person_id = :person AND guild_id IS NULL
  UNION SELECT channel_id FROM message_log WHERE author_id = :person AND guild_id IS NULL
)
SELECT id FROM chats WHERE id BETWEEN 1 AND :last
AND NOT EXISTS (SELECT * FROM turns WHERE channel_id = chats.id AND (guild_id IS NOT NULL OR asked_by <> :person))
AND NOT EXISTS (
  SELECT * FROM message_log WHERE channel_id = chats.id AND (guild_id IS NOT NULL OR author_id <> :person)
)
AND (
  SELECT count(*) FROM (
    SELECT agent FROM turns WHERE channel_id = chats.id UNION SELECT agent FROM posts WHERE channel_id = chats.id
  )
) <= 1
"""
_BY_PEOPLE = """
SELECT count(*) FROM message_log
WHERE channel_id = :channel AND author = 'person' AND (message_id < :before OR at <= :at)
"""
_KEEP_NEWEST = "DO UPDATE SET at = max(at, excluded.at)"


async def forget_person(
    db: aiosqlite.Connection, person: int, asked_at: int, chats: Collection[int] = ()
) -> RemovedWords:
    """Remove a person's data from before a request (unix milliseconds), and all words in the person's private chats:
    the request's `chats`, and chats that the record knows. The person's later messages are recorded again."""
    at = asked_at / 1000
    values = {"person": person, "at": at, "before": id_at(at), "why": FORGOTTEN}
    # Groups of other services have no server either, so only the request's chats are known to be private there.
    known = {"person": person, "named": json.dumps([*chats]), "last": FIRST_ELSEWHERE - 1}
    private = {row[0] for row in await db.execute_fetchall(_PRIVATE_CHATS, known)}
    private |= {chat for chat in chats if not is_snowflake(chat)}
    await db.execute(f"INSERT INTO forgotten (user_id, at) VALUES (:person, :at) ON CONFLICT {_KEEP_NEWEST}", values)
    removed: Counter[str] = Counter()
    for row in RECORD:
        times = [f"{row.at} <= :at"] if row.at else []
        times += [f"{row.sent} < :before"] if row.sent else []
        condition = row.theirs or (f"{row.person} = :person AND ({' OR '.join(times)})" if row.person else "")
        removed[row.counted] += await apply(db, row, row.on_forget, condition, values)
    for chat in sorted(private):
        there = await db.execute_fetchall(_BY_PEOPLE, {**values, "channel": chat})
        removed["messages"] += next(iter(there))[0]  # the person's messages with another id
        await _delete(db, DeletionNote(channel_id=chat, message_ids=(), at=at, whole=True), FORGOTTEN, until=at)
    return RemovedWords(at=asked_at, **{name: removed[name] for name in ("prompts", "turns", "reactions", "messages")})


_ROWS = {row.table: row for row in RECORD if row.name}
_OF_ROOM = {
    "contests": "id = 'room-' || :channel",
    "conversations": "channel_id = :channel",
    "rooms": "thread_id = :channel",
}
"""What the record has about a room besides messages and turns, and the condition that finds it."""


async def delete_messages(db: aiosqlite.Connection, note: DeletionNote) -> int:
    """Remove these messages, and the words of every prompt that quotes them or led to them.

    If the whole channel was deleted, the prompts of all turns there are removed too. Return how many rows were removed
    or emptied.
    """
    return await _delete(db, note, DELETED, until=math.inf)


async def _delete(db: aiosqlite.Connection, note: DeletionNote, why: str, until: float) -> int:
    """Delete messages; of a whole channel, all messages before `until` (unix seconds)."""
    before = MAX_ID if until == math.inf else id_at(until)
    values = {"channel": note.channel_id, "at": until, "before": before, "deleted_at": note.at, "why": why}
    ids = set(note.message_ids)
    if note.whole:
        for row in RECORD:
            if row.message and row.channel:
                said = f"SELECT {row.message} FROM {row.table} WHERE {row.channel} = :channel"
                found = await db.execute_fetchall(f"{said} AND ({row.message} < :before OR at <= :at)", values)
                ids.update(each[0] for each in found)
        await db.execute(
            f"INSERT INTO deleted_channels (channel_id, at) VALUES (:channel, :deleted_at) ON CONFLICT {_KEEP_NEWEST}",
            values,
        )
    values["ids"] = json.dumps(sorted(ids))
    await db.execute(
        "INSERT INTO deleted_messages (message_id, at) SELECT value, :deleted_at FROM json_each(:ids) WHERE true"
        " ON CONFLICT DO NOTHING",
        values,
    )
    removed = 0
    for row in RECORD:
        gone = row.gone or (f"{row.message} IN ({IDS})" if row.message else "")
        for condition in (gone, row.there if note.whole else ""):
            removed += await apply(db, row, row.on_delete, condition, values)
    if note.room:
        for table, condition in _OF_ROOM.items():
            removed += await apply(db, _ROWS[table], "delete", condition, values)
    return removed


async def apply(
    db: aiosqlite.Connection, row: StoredData, effect: Effect, condition: str, values: Mapping[str, Any]
) -> int:
    """Apply an effect to the rows that meet a condition, and delete their children. Return how many rows there were."""
    if effect == "keep" or not condition:
        return 0
    if row.only:
        condition, values = f"({condition}) AND {row.only[0]} = :only", {**values, "only": row.only[1]}
    if row.children:
        found = await db.execute_fetchall(f"SELECT rowid FROM {row.table} WHERE {condition}", values)
        if not (rows := [each[0] for each in found]):
            return 0
        condition, values = "rowid IN (SELECT value FROM json_each(:rows))", {**values, "rows": json.dumps(rows)}
        for table, (theirs, ours) in row.children.items():
            keys = f"SELECT {ours} FROM {row.table} WHERE {condition}"
            await db.execute(f"DELETE FROM {table} WHERE ({theirs}) IN ({keys})", values)
    if effect == "delete":
        done = await db.execute(f"DELETE FROM {row.table} WHERE {condition}", values)
    else:
        texts = {name: value if isinstance(value, Sql) else f":new_{name}" for name, value in effect.items()}
        clause = ", ".join(f"{name} = {text}" for name, text in texts.items())
        new = {f"new_{name}": value for name, value in effect.items()}
        done = await db.execute(f"UPDATE {row.table} SET {clause} WHERE {condition}", {**values, **new})
    return done.rowcount


def _of_people(row: StoredData, people: Collection[int]) -> tuple[str, dict[str, Any]]:
    """Return FROM and WHERE of a query for a person's rows, and its values. The column may have ids as texts."""
    only = f" AND {row.only[0]} = :only" if row.only else ""
    where = f"CAST({row.person} AS INTEGER) IN (SELECT value FROM json_each(:people)){only}"
    return f"FROM {row.table} WHERE {where}", {"people": json.dumps([*people]), "only": row.only and row.only[1]}


def count_person(db: sqlite3.Connection, person: int) -> dict[str, int]:
    """Return how many rows the record has about a person, by the nouns in STORED."""
    counts: dict[str, int] = {}
    for row in RECORD:
        if row.noun:
            query, values = _of_people(row, [person])
            counts[row.noun] = db.execute(f"SELECT count(*) {query}", values).fetchone()[0]
    return counts


def export_person(db: sqlite3.Connection, people: Collection[int]) -> dict[str, list[dict[str, Any]]]:
    """Return the person's rows by table, newest first. `people`: the person's ids."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in RECORD:
        if row.person and row.export:
            query, values = _of_people(row, people)
            newest = f"{query} ORDER BY {row.at or row.sent} DESC LIMIT {MAX_EXPORTED}"
            rows = db.execute(f"SELECT {', '.join(row.export.split())} {newest}", values)
            found.setdefault(row.table, []).extend(map(dict, rows))
    return found
