"""Keep words out of the record: words of people who asked to be forgotten, and words of deleted messages.

An entry may reach the file after a message that it quotes was deleted. Entries are checked in the columns that STORED
names for their table (personal_data.py).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiosqlite

from agentic.ids import MAX_ID, id_at
from agentic.record.forgetting import DELETED, FORGOTTEN
from agentic.record.personal_data import RECORD, StoredData
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import Entry, LoggedMessage, PackedCall, ProfileNote, RoomConclusion, RoomWords, SummaryNote

RecordEntry = Entry | TurnRecord
_ROWS = {kind: [row for row in RECORD if row.entry is kind] for kind in {row.entry for row in RECORD}}
_WITH_CONDITIONS = {row.entry for row in RECORD if row.only}


def rows_of(entry: RecordEntry) -> Sequence[StoredData]:
    """Return the entries of STORED about this kind of data."""
    kind = type(entry)  # pydantic takes half a microsecond for each isinstance, and every entry comes here
    rows = _ROWS.get(kind, ())
    if kind not in _WITH_CONDITIONS:
        return rows
    return [row for row in rows if row.only is None or getattr(entry, row.only[0]) == row.only[1]]


@dataclass(frozen=True, slots=True)
class RecordingBlocklist:
    """Whose words must not be recorded: `people` (id → when they asked to be forgotten), deleted `messages`, whole
    `channels` (id → when they were deleted), and `turns` whose posts were deleted. `logged`: messages that summaries
    and profiles are made of → when they were last read. Times are unix seconds."""

    people: dict[int, float]
    messages: frozenset[int]
    channels: dict[int, float]
    turns: frozenset[tuple[str, str]]
    logged: Mapping[int, float] = field(default_factory=dict)

    def admit(self, entry: RecordEntry) -> RecordEntry | None:
        """Return the entry as it may be recorded, None if it may not."""
        if type(entry) is RoomWords:
            (row,) = rows_of(entry)
            kept = (
                each
                for each in entry.messages
                if not self.is_deleted(each, row, entry.thread_id) and not self.is_forgotten(each, row)
            )
            return entry.model_copy(update={"messages": tuple(kept)})
        if (type(entry) is SummaryNote or type(entry) is RoomConclusion) and self._blocks_summary(entry):
            return None
        if type(entry) is ProfileNote and any(self.logged.get(each, MAX_ID) > entry.at for each in entry.message_ids):
            return None  # a message left the log or was edited while the profile was made
        for row in rows_of(entry):
            for applies, effect in ((self.is_deleted, row.on_delete), (self.is_forgotten, row.on_forget)):
                if applies(entry, row):
                    if effect == "delete":
                        return None
                    if effect != "keep":
                        entry = entry.model_copy(update=dict(effect))
        return entry

    def why_not(self, words: PackedCall) -> str | None:
        """Return FORGOTTEN or DELETED if these words must not be recorded."""
        if self._asked_after(words.asked_by, words.at):
            return FORGOTTEN
        for message_id, author_id in words.quoted.items():
            if message_id in self.messages:
                return DELETED
            # Words outside of messages, such as an agent's note, are as old as their prompt. On some services a
            # message's id has the time of the sender's clock, which may be ahead.
            sent = message_id if message_id >= 0 else None
            if self._asked_after(author_id, words.at, sent):
                return FORGOTTEN
        has_lost_post = (words.agent, words.turn_id) in self.turns
        return DELETED if has_lost_post or self._lost_channel(words.channel_id, None, words.at) else None

    def is_deleted(self, entry: RecordEntry, row: StoredData, channel_id: int | None = None) -> bool:
        """Return whether its message was deleted, alone or with its whole channel."""
        if not self.messages and not self.channels:
            return False
        message_id = int(getattr(entry, row.message)) if row.message else None
        if message_id in self.messages:
            return True
        channel_id = channel_id or (getattr(entry, row.channel) if row.channel else None)
        return channel_id is not None and self._lost_channel(channel_id, message_id, entry.at)  # type: ignore[union-attr]

    def is_forgotten(self, entry: RecordEntry, row: StoredData) -> bool:
        """Return whether its person has asked to be forgotten since."""
        if not row.person or not self.people:
            return False
        sent = getattr(entry, row.sent) if row.sent else None
        return self._asked_after(getattr(entry, row.person), getattr(entry, row.at) if row.at else None, sent)

    def _blocks_summary(self, note: SummaryNote | RoomConclusion) -> bool:
        """Return whether a summary has words of deleted or edited messages, or of forgotten people.

        Messages in the log are by nobody who was forgotten. Other messages may be, if they are old enough.
        """
        if not self.messages.isdisjoint(note.message_ids):
            return True
        if any(self.logged.get(source, note.at) > note.at for source in note.message_ids):
            return True  # edited while the summary was made, which may have the old words
        unknown = min((source for source in note.message_ids if source not in self.logged), default=None)
        return any(self._asked_after(person, note.at, unknown) for person in note.people)

    def _asked_after(self, person: int | str | None, at: float | None, sent: int | None = None) -> bool:
        """Return whether the person asked to be forgotten after this time, or after the message `sent`."""
        asked_at = self.people.get(int(person)) if person and str(person).isdecimal() else None
        if asked_at is None:
            return False
        return (at is not None and at <= asked_at) or (sent is not None and sent < id_at(asked_at))

    def _lost_channel(self, channel_id: int, message_id: int | None, at: float) -> bool:
        """Return whether words from this time were deleted with their channel. It compares both the time and the
        message's id, which may be from another clock."""
        gone_at = self.channels.get(channel_id)
        if gone_at is None:
            return False
        return at <= gone_at or (message_id is not None and message_id < id_at(gone_at))


async def load_blocklist(db: aiosqlite.Connection, entries: Iterable[RecordEntry]) -> RecordingBlocklist:
    """Load what is needed to check these entries."""
    by_kind: dict[type, list[Any]] = defaultdict(list)
    for entry in entries:
        by_kind[type(entry)].append(entry)
    people = await db.execute_fetchall("SELECT user_id, at FROM forgotten")
    channels = await db.execute_fetchall("SELECT channel_id, at FROM deleted_channels")
    notes = [*by_kind[SummaryNote], *by_kind[ProfileNote], *by_kind[RoomConclusion]]
    sources = {source for note in notes for source in note.message_ids}
    ids = sources.union(*(words.quoted for words in by_kind[PackedCall]))
    ids |= {message.message_id for words in by_kind[RoomWords] for message in words.messages}
    for row in RECORD:
        if row.message and row.entry not in (None, PackedCall, RoomWords):
            ids.update(int(getattr(entry, row.message)) for entry in by_kind[row.entry] if row in rows_of(entry))
    messages = await _fetch(db, "SELECT message_id FROM deleted_messages WHERE message_id IN", ids)
    posts = "SELECT agent, turn_id FROM posts WHERE deleted_at IS NOT NULL AND turn_id IN"
    turns = await _fetch(db, posts, {words.turn_id for words in by_kind[PackedCall]})
    found = RecordingBlocklist(
        {row[0]: row[1] for row in people},
        frozenset(row[0] for row in messages),
        {row[0]: row[1] for row in channels},
        frozenset((row[0], row[1]) for row in turns),
    )
    logged = await _fetch(db, "SELECT message_id, read_at FROM message_log WHERE message_id IN", sources)
    here = [(said.message_id, said.read_at) for said in by_kind[LoggedMessage] if sources and found.admit(said)]
    read: dict[int, float] = {}
    for message_id, read_at in (*map(tuple, logged), *here):
        read[message_id] = max(read_at, read.get(message_id, read_at))
    return replace(found, logged=read)


async def _fetch(db: aiosqlite.Connection, query: str, values: Collection[Any]) -> list[Any]:
    """Return the rows of a query that ends with IN, for these values."""
    if not values:
        return []
    return list(await db.execute_fetchall(f"{query} (SELECT value FROM json_each(?))", (json.dumps([*values]),)))
