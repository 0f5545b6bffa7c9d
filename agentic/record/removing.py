"""Removes what is remembered of deleted messages and of people who asked to be forgotten.

The index of what may be recalled follows its tables by itself (index.py). All functions run inside their caller's
transaction.
"""

from __future__ import annotations

import json

import aiosqlite

from agentic.ids import id_at
from agentic.record.memories_rows import lost_profiles
from agentic.wire.entries import DeletionNote


async def delete_of_memory(db: aiosqlite.Connection, note: DeletionNote) -> None:
    """Remove messages that were deleted, the summaries and models' profiles that are made of them, and the words of
    those sent unasked."""
    ids = json.dumps(note.message_ids)
    these = "IN (SELECT value FROM json_each(?))"
    await db.execute(lost_profiles(f"gone.message_id {these}"), (ids,))
    await db.execute(f"DELETE FROM message_log WHERE message_id {these}", (ids,))
    sources = f"SELECT summary_id FROM summary_sources WHERE message_id {these}"
    await db.execute(f"DELETE FROM summaries WHERE message_id IN ({sources})", (ids,))
    await db.execute(f"UPDATE unasked SET text = '', cause = '' WHERE message_id {these}", (ids,))
    if note.whole:
        await delete_channel_of_memory(db, note.channel_id, note.at)


async def delete_channel_of_memory(db: aiosqlite.Connection, channel_id: int, at: float) -> None:
    """Remove what was said in a channel until then, and bar what of it arrives later."""
    await db.execute(
        "INSERT INTO deleted_channels (channel_id, at) VALUES (?, ?)"
        " ON CONFLICT (channel_id) DO UPDATE SET at = max(at, excluded.at)",
        (channel_id, at),
    )
    before = (channel_id, id_at(at))
    await db.execute(lost_profiles("gone.channel_id = ? AND gone.message_id < ?"), before)
    await db.execute("DELETE FROM message_log WHERE channel_id = ? AND message_id < ?", before)
    await db.execute("DELETE FROM summaries WHERE channel_id = ? AND message_id < ?", before)
    await db.execute("UPDATE unasked SET text = '', cause = '' WHERE channel_id = ? AND message_id < ?", before)


async def forget_in_memory(db: aiosqlite.Connection, user_id: int, at: float) -> int:
    """Remove a person; how many messages of theirs went. Their refusal of unasked messages stays, and so does where and
    when a message was sent to them unasked: else the next would come too soon."""
    before = id_at(at)
    await db.execute(
        "DELETE FROM summaries WHERE at <= ?2 AND message_id IN"
        " (SELECT summary_id FROM summary_people WHERE user_id = ?1)",
        (user_id, at),
    )
    await db.execute(
        "DELETE FROM summaries WHERE message_id IN (SELECT summary_id FROM summary_sources JOIN message_log"
        " USING (message_id) WHERE author_id = ? AND (message_log.message_id < ? OR message_log.at <= ?))",
        (user_id, before, at),
    )
    theirs = (user_id, before, at)  # a message of Signal may have an id of later, by its sender's clock
    await db.execute(lost_profiles("gone.author_id = ? AND (gone.message_id < ? OR gone.at <= ?)"), theirs)
    messages = await db.execute("DELETE FROM message_log WHERE author_id = ? AND (message_id < ? OR at <= ?)", theirs)
    await db.execute(
        "DELETE FROM profiles WHERE user_id = ? AND (at <= ? OR by = 'model' AND upto < ?)", (user_id, at, before)
    )
    await db.execute("DELETE FROM consents WHERE user_id = ? AND unasked = 1 AND at <= ?", (user_id, at))
    await db.execute(
        "UPDATE unasked SET text = '', cause = '', person_id = NULL WHERE person_id = ? AND at <= ?", (user_id, at)
    )
    return max(0, messages.rowcount)
