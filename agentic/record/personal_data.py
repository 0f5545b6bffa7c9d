"""Remove people who asked to be forgotten, and messages that were deleted: one place for what is stored about whom.

Both are remembered for as long as something from before may still arrive (tables `forgotten`, `deleted_messages`,
`deleted_channels`), so that it does not bring the words back: a prompt may reach the file after the deletion of a
message that it quotes. RecordingBlocklist says what must not be recorded. A person who writes again after /forget me is
recorded again, from then on.

All functions run inside their caller's transaction. The index of what may be recalled follows its tables by itself
(recall.py). The pages of removed words are overwritten (database.py); those in the write-ahead log go when it is
truncated.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiosqlite

from agentic.ids import FIRST_ELSEWHERE, MAX_ID, id_at, is_snowflake
from agentic.state.forget_requests import RemovedWords
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import (
    CallWords,
    ConsentNote,
    ContestNote,
    DeletionNote,
    LoggedMessage,
    PostWords,
    ProfileNote,
    ReactionNote,
    RoomNote,
    RoomWords,
    SummaryNote,
    UnaskedNote,
)

DELETIONS_KEPT = 8 * 86400  # seconds; the streams keep their entries for seven days
PEOPLE_KEPT = 30 * 86400  # as long as their requests
FORGOTTEN, DELETED = "forgotten", "deleted"
ARENA = "arena"  # a kind of contests, whose id is its message's
MODEL, PERSON = "model", "person"  # who made a profile

_NOW = "(julianday('now') - 2440587.5) * 86400.0"

# An entry with words of messages.
Worded = CallWords | PostWords | RoomWords | ContestNote | LoggedMessage | SummaryNote | ProfileNote | UnaskedNote


@dataclass(frozen=True, slots=True)
class RecordingBlocklist:
    """Words that must not be recorded: of `people` (id → when they asked to be forgotten, unix seconds), of `messages`,
    of whole `channels` (id → when they were deleted), and of `turns` whose posts were deleted. `logged` are messages of
    the log that summaries and profiles are made of, with when they were read last (unix seconds)."""

    people: dict[int, float]
    messages: frozenset[int]
    channels: dict[int, float]
    turns: frozenset[tuple[str, str]]
    logged: Mapping[int, float] = field(default_factory=dict)

    def why_not(self, words: CallWords) -> str | None:
        """Return FORGOTTEN or DELETED if these words must not be recorded."""
        if self._asked_before(words.asked_by, words.at):
            return FORGOTTEN
        for quoted in words.quoted:
            if quoted.message_id in self.messages:
                return DELETED
            asked_at = self.people.get(quoted.author_id or 0)
            if asked_at is None:
                continue
            # Words that are in no message, such as an agent's note, are as old as the prompt that has them; and on
            # Signal a message's id has the time of its sender's clock, which may be ahead.
            if words.at <= asked_at or 0 <= quoted.message_id < id_at(asked_at):
                return FORGOTTEN
        gone = (words.agent, words.turn_id) in self.turns or self.lost_channel(words.channel_id, None, words.at)
        return DELETED if gone else None

    def without_person(self, record: TurnRecord) -> TurnRecord:
        """Return the record without the ids of a person who asked to be forgotten after the question."""
        asked_at = self.people.get(record.asked_by or 0)
        if asked_at is None:
            return record
        if record.at > asked_at and (record.asked_message_id or MAX_ID) > id_at(asked_at):
            return record
        return record.model_copy(update={"asked_by": None, "asked_message_id": None})

    def without_blocked(self, words: RoomWords) -> RoomWords:
        """Return the messages of a room that were not deleted and are not of people who asked to be forgotten."""
        kept = tuple(
            each
            for each in words.messages
            if each.message_id not in self.messages
            and not self.lost_channel(words.thread_id, each.message_id, each.at)
            and each.message_id >= id_at(self.people.get(each.author_id or 0, 0.0))
        )
        return words.model_copy(update={"messages": kept})

    def without_opener(self, note: RoomNote) -> RoomNote:
        forgotten = self._asked_before(note.opened_by, note.opened_at)
        return note.model_copy(update={"opened_by": None}) if forgotten else note

    def without_asker(self, note: ContestNote) -> ContestNote:
        """Return the contest without a person who asked to be forgotten after it; an arena loses their question too."""
        if note.kind == ARENA and int(note.id) in self.messages:
            note = note.model_copy(update={"question": ""})
        if not self._asked_before(note.asked_by, note.at):
            return note
        question = "" if note.kind == ARENA else note.question
        return note.model_copy(update={"asked_by": None, "question": question})

    def has(self, note: ReactionNote | LoggedMessage | SummaryNote | ProfileNote | ConsentNote) -> bool:
        """Return whether it must not be recorded. A refusal of unprompted messages stays if its person is forgotten."""
        match note:
            case LoggedMessage():
                asked_at = self.people.get(note.author_id or 0, 0.0)
                return self.lost_post(note) or note.message_id < id_at(asked_at) or note.at <= asked_at
            case SummaryNote():
                return self._blocks_summary(note)
            case ConsentNote(unasked=False):
                return False
            case ProfileNote(by="model") if note.upto < id_at(self.people.get(note.user_id, 0.0)):
                return True  # made of words from before, perhaps while the person asked
            case ProfileNote() if any(self.logged.get(each, MAX_ID) > note.at for each in note.message_ids):
                return True  # a message left the log, or was edited, while it was made
        return self._asked_before(note.user_id, note.at)

    def _blocks_summary(self, note: SummaryNote) -> bool:
        """A source that the log has is of nobody who was forgotten; any other may be, if it is old enough."""
        if not self.messages.isdisjoint(note.message_ids) or note.message_id in self.messages:
            return True
        if self.lost_channel(note.channel_id, note.message_id, note.at):
            return True
        if any(self.logged.get(source, note.at) > note.at for source in note.message_ids):
            return True  # it was edited while the summary was made, which may have the words from before
        unknown = min((source for source in note.message_ids if source not in self.logged), default=MAX_ID)
        return any(
            self._asked_before(person, note.at) or unknown < id_at(self.people.get(person, 0.0))
            for person in note.people
        )

    def without_words(self, note: UnaskedNote) -> UnaskedNote:
        """Return the message without its words if it was deleted, without its person if they were forgotten."""
        forgotten = self._asked_before(note.person_id, note.at)
        deleted = self.lost_post(note)
        if not forgotten and not deleted:
            return note
        return note.model_copy(update={"text": "", "cause": "", "person_id": None if forgotten else note.person_id})

    def lost_post(self, said: PostWords | LoggedMessage | UnaskedNote) -> bool:
        """Return whether the message was deleted, by itself or with all that was said in its channel until then."""
        return said.message_id in self.messages or self.lost_channel(said.channel_id, said.message_id, said.at)

    def lost_channel(self, channel_id: int, message_id: int | None, at: float) -> bool:
        """Return whether the words of that time went with their channel. Another clock may number messages."""
        gone_at = self.channels.get(channel_id)
        if gone_at is None:
            return False
        return at <= gone_at or (message_id is not None and message_id < id_at(gone_at))

    def _asked_before(self, user_id: int | None, at: float) -> bool:
        return user_id in self.people and at <= self.people[user_id]


async def load_blocklist(db: aiosqlite.Connection, words: Iterable[Worded]) -> RecordingBlocklist:
    """Load what must not be recorded, of these."""
    each = list(words)
    ids = {message_id for one in each for message_id in _message_ids(one)}
    people = await db.execute_fetchall("SELECT user_id, at FROM forgotten")
    channels = await db.execute_fetchall("SELECT channel_id, at FROM deleted_channels")
    messages = await _fetch(db, "SELECT message_id FROM deleted_messages WHERE message_id IN", ids)
    posts = "SELECT agent, turn_id FROM posts WHERE deleted_at IS NOT NULL AND turn_id IN"
    turns = await _fetch(db, posts, {one.turn_id for one in each if isinstance(one, CallWords | PostWords)})
    found = RecordingBlocklist(
        {row[0]: row[1] for row in people},
        frozenset(row[0] for row in messages),
        {row[0]: row[1] for row in channels},
        frozenset((row[0], row[1]) for row in turns),
    )
    sources = {source for one in each if isinstance(one, SummaryNote | ProfileNote) for source in one.message_ids}
    logged = await _fetch(db, "SELECT message_id, read_at FROM message_log WHERE message_id IN", sources)
    here = [(one.message_id, one.read_at) for one in each if isinstance(one, LoggedMessage) and not found.has(one)]
    read: dict[int, float] = {}
    for message_id, read_at in (*map(tuple, logged), *here):
        read[message_id] = max(read_at, read.get(message_id, read_at))
    return replace(found, logged=read)


def _message_ids(entry: Worded) -> Iterable[int]:
    """Return the messages whose words the entry has."""
    match entry:
        case CallWords():
            return (quoted.message_id for quoted in entry.quoted)
        case RoomWords():
            return (message.message_id for message in entry.messages)
        case ContestNote():
            return (int(entry.id),) if entry.kind == ARENA else ()
        case SummaryNote():
            return (*entry.message_ids, entry.message_id)
        case ProfileNote():
            return entry.message_ids
    return (entry.message_id,)


async def delete_messages(db: aiosqlite.Connection, note: DeletionNote) -> int:
    """Remove the words of every prompt that quotes these messages or led to them, and what was in them if they are an
    agent's; return how many rows lost words. With its whole channel go the prompts of all turns there."""
    if note.whole:
        here = await db.execute_fetchall("SELECT message_id FROM posts WHERE channel_id = ?", (note.channel_id,))
        everything = dict.fromkeys((*note.message_ids, *(row[0] for row in here)))
        note = note.model_copy(update={"message_ids": tuple(everything)})
    ids = [(message_id,) for message_id in note.message_ids]
    await db.executemany(
        "INSERT INTO deleted_messages (message_id, at) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(message_id, note.at) for message_id in note.message_ids],
    )
    quoting = await _fetch(db, "SELECT DISTINCT words_id FROM quotes WHERE message_id IN", note.message_ids)
    query = "SELECT words.id FROM words JOIN posts USING (agent, turn_id) WHERE posts.message_id IN"
    led_to = await _fetch(db, query, note.message_ids)
    there = await db.execute_fetchall(
        "SELECT words.id FROM words JOIN turns"
        " ON turns.agent = words.agent AND turns.id = words.turn_id WHERE ?1 AND turns.channel_id = ?2",
        (note.whole, note.channel_id),
    )
    removed = await _remove_words(db, [row[0] for row in (*quoting, *led_to, *there)], DELETED)
    posts = await db.executemany(
        "UPDATE posts SET text = '', deleted_at = ? WHERE message_id = ? AND deleted_at IS NULL",
        [(note.at, *one) for one in ids],
    )
    await db.executemany("DELETE FROM pictures WHERE message_id = ?", ids)
    await db.executemany("DELETE FROM reactions WHERE message_id = ?", ids)
    await db.execute(
        "DELETE FROM searches WHERE ?1 AND channel_id = ?2 AND at <= ?3", (note.whole, note.channel_id, note.at)
    )
    await db.executemany("DELETE FROM room_messages WHERE message_id = ?", ids)
    await db.execute("DELETE FROM room_messages WHERE ? AND thread_id = ?", (note.whole, note.channel_id))
    arenas = [(str(message_id), ARENA) for message_id in note.message_ids]
    await db.executemany("UPDATE contests SET question = '' WHERE id = ? AND kind = ?", arenas)
    await _delete_of_memory(db, note)
    return removed + max(0, posts.rowcount)


async def _delete_of_memory(db: aiosqlite.Connection, note: DeletionNote) -> None:
    """Remove messages that were deleted, the summaries and models' profiles that are made of them, and the words of
    unprompted messages."""
    ids = json.dumps(note.message_ids)
    these = "IN (SELECT value FROM json_each(?))"
    await db.execute(lost_profiles(f"gone.message_id {these}"), (ids,))
    await db.execute(f"DELETE FROM message_log WHERE message_id {these}", (ids,))
    sources = f"SELECT summary_id FROM summary_sources WHERE message_id {these}"
    await db.execute(f"DELETE FROM summaries WHERE message_id IN ({sources})", (ids,))
    await db.execute(f"UPDATE unasked SET text = '', cause = '' WHERE message_id {these}", (ids,))
    if note.whole:
        await _delete_channel_of_memory(db, note.channel_id, note.at)


async def _delete_channel_of_memory(db: aiosqlite.Connection, channel_id: int, at: float) -> None:
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


async def forget_person(
    db: aiosqlite.Connection, user_id: int, asked_at: int, chats: Collection[int] = ()
) -> RemovedWords:
    """Remove the person who asked for it at this time (unix milliseconds), and all that anybody said in their private
    chats: `chats` of the request, and those that the record knows. What they say later is recorded again."""
    at = asked_at / 1000
    private = await _private_chats(db, user_id, chats)
    await db.execute(
        "INSERT INTO forgotten (user_id, at) VALUES (?, ?)"
        " ON CONFLICT (user_id) DO UPDATE SET at = max(at, excluded.at)",
        (user_id, at),
    )
    before = id_at(at)
    calls = await db.execute_fetchall(
        "SELECT id FROM words WHERE asked_by = ?1 AND at <= ?2"
        " UNION SELECT words_id FROM quotes JOIN words ON words.id = words_id"
        " WHERE author_id = ?1 AND (message_id < ?3 OR words.at <= ?2)",
        (user_id, at, before),
    )
    prompts = await _remove_words(db, [row[0] for row in calls], FORGOTTEN)
    theirs = "asked_by = ?1 AND (at <= ?2 OR asked_message_id < ?3)"
    values, of_their_turns = (user_id, at, before), f"(agent, turn_id) IN (SELECT agent, id FROM turns WHERE {theirs})"
    await db.execute(f"UPDATE posts SET answers_message_id = NULL WHERE {of_their_turns}", values)
    # A turn that ended before its model was asked has no words, only the search.
    await db.execute(f"DELETE FROM searches WHERE {of_their_turns}", values)
    turns = await db.execute(f"UPDATE turns SET asked_by = NULL, asked_message_id = NULL WHERE {theirs}", values)
    reactions = await db.execute("DELETE FROM reactions WHERE user_id = ? AND at <= ?", (user_id, at))
    await db.execute("UPDATE actions SET by = 'forgotten' WHERE by = ? AND at <= ?", (str(user_id), at))
    # A room keeps its topic, which is its thread's name; an arena loses the question.
    await db.execute("DELETE FROM room_messages WHERE author_id = ? AND message_id < ?", (user_id, before))
    await db.execute("UPDATE rooms SET opened_by = NULL WHERE opened_by = ? AND opened_at <= ?", (user_id, at))
    await db.execute(
        "UPDATE contests SET asked_by = NULL, question = iif(kind = ?, '', question) WHERE asked_by = ? AND at <= ?",
        (ARENA, user_id, at),
    )
    messages = await _forget_in_memory(db, user_id, at)
    for chat in sorted(private):
        messages += await _forget_chat(db, chat, at)
    return RemovedWords(
        at=asked_at, prompts=prompts, turns=turns.rowcount, reactions=reactions.rowcount, messages=messages
    )


async def _forget_in_memory(db: aiosqlite.Connection, user_id: int, at: float) -> int:
    """Remove a person; return how many of their messages went. Their refusal of unprompted messages stays, and so does
    the place and time of each message to them: else the next would come too soon."""
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


async def _private_chats(db: aiosqlite.Connection, user_id: int, named: Collection[int]) -> set[int]:
    """Return the chats that the person has with one agent alone: those that the request named, and more of Discord's.

    A group of Signal is in no server either, so of Signal only named chats count. In Discord a turn may lack the server
    of its channel, which was gone by then. So nothing that any row knows in a server, or with another person or a
    second agent, is private, whoever named it.
    """
    found = await db.execute_fetchall(
        "WITH chats (id) AS ("
        " SELECT value FROM json_each(?3)"
        " UNION SELECT channel_id FROM turns WHERE asked_by = ?1 AND guild_id IS NULL"
        " UNION SELECT unasked.channel_id FROM unasked JOIN turns USING (channel_id)"
        "  WHERE person_id = ?1 AND guild_id IS NULL"
        " UNION SELECT channel_id FROM message_log WHERE author_id = ?1 AND guild_id IS NULL)"
        " SELECT id FROM chats WHERE id BETWEEN 1 AND ?2"
        " AND NOT EXISTS (SELECT * FROM turns"
        "  WHERE channel_id = chats.id AND (guild_id IS NOT NULL OR asked_by <> ?1))"
        " AND NOT EXISTS (SELECT * FROM message_log"
        "  WHERE channel_id = chats.id AND (guild_id IS NOT NULL OR author_id <> ?1))"
        " AND (SELECT count(*) FROM (SELECT agent FROM turns WHERE channel_id = chats.id"
        "  UNION SELECT agent FROM posts WHERE channel_id = chats.id)) <= 1",
        (user_id, FIRST_ELSEWHERE - 1, json.dumps([*named])),
    )
    return {row[0] for row in found} | {chat for chat in named if not is_snowflake(chat)}


async def _forget_chat(db: aiosqlite.Connection, channel_id: int, at: float) -> int:
    """Remove all that was said in the chat until then, and the words of the turns there; how many messages of people
    the log had, which are the person's by another id."""
    until = (channel_id, id_at(at), at)
    by_people = await db.execute_fetchall(
        "SELECT count(*) FROM message_log"
        " WHERE channel_id = ?1 AND author = 'person' AND (message_id < ?2 OR at <= ?3)",
        until,
    )
    said = await db.execute_fetchall(
        " UNION ".join(
            f"SELECT message_id FROM {table} WHERE channel_id = ?1 AND (message_id < ?2 OR at <= ?3)"
            for table in ("posts", "message_log", "unasked")
        ),
        until,
    )
    await delete_messages(db, DeletionNote(channel_id=channel_id, message_ids=tuple(row[0] for row in said), at=at))
    await _delete_channel_of_memory(db, channel_id, at)
    there = await db.execute_fetchall(
        "SELECT words.id FROM words JOIN turns ON turns.agent = words.agent AND turns.id = words.turn_id"
        " WHERE turns.channel_id = ? AND words.at <= ?",
        (channel_id, at),
    )
    await _remove_words(db, [row[0] for row in there], FORGOTTEN)
    await db.execute("DELETE FROM searches WHERE channel_id = ? AND at <= ?", (channel_id, at))
    return int(next(iter(by_people))[0])


async def _remove_words(db: aiosqlite.Connection, words: Iterable[int], why: str) -> int:
    """Remove these rows' words and quotes, and the searches of their turns; return how many had words."""
    ids = [(each,) for each in sorted(set(words))]
    if not ids:
        return 0
    removed = await db.executemany(
        "UPDATE words SET data = NULL, asked_by = NULL, removed = ? WHERE id = ? AND data IS NOT NULL",
        [(why, *each) for each in ids],
    )
    await db.executemany("DELETE FROM quotes WHERE words_id = ?", ids)
    await db.executemany(
        "DELETE FROM searches WHERE (agent, turn_id) IN (SELECT agent, turn_id FROM words WHERE id = ?)", ids
    )
    return max(0, removed.rowcount)


async def _fetch(db: aiosqlite.Connection, question: str, values: Iterable[Any]) -> list[Any]:
    """Return the rows of a question that ends with IN, for these values."""
    given = list(values)
    if not given:
        return []
    return list(await db.execute_fetchall(f"{question} (SELECT value FROM json_each(?))", (json.dumps(given),)))


def lost_profiles(which: str, at: str = _NOW) -> str:
    """Empties a model's profiles that may be of messages which are about to leave the log; it makes them again of what
    is left. Else nobody knew any longer where their topics were spoken of. A person's own stay.

    `which` is the condition on `gone`, the messages, and `known`, the profile. `at`: what was read before is not taken
    any more; not when a deletion was seen, since the log was read until now.
    """
    return (
        f"UPDATE profiles SET name = '', topics = '[]', upto = 0, at = max(at, {at}) WHERE by = '{MODEL}'"
        " AND user_id IN (SELECT gone.author_id FROM message_log gone JOIN profiles known ON"
        f" known.user_id = gone.author_id AND known.by = '{MODEL}' AND known.upto >= gone.message_id WHERE {which})"
    )
