"""Turns entries about rooms and contests into rows; the same rules as in rows.py."""

from __future__ import annotations

import json

from agentic.record.rows import Statement, insert
from agentic.wire.entries import ContestNote, RoomNote, RoomWords

MOST_MESSAGES = 400  # of a room; older ones go when new ones come

ROOM = insert(
    "rooms",
    "thread_id, channel_id, guild_id, conversation_id, topic, policy, members, left_members, status, why, turns,"
    " turn_number, opened_by, opened_at, changed_at",
    "(thread_id) DO UPDATE SET conversation_id = excluded.conversation_id, topic = excluded.topic,"
    " policy = excluded.policy, members = excluded.members, left_members = excluded.left_members,"
    " status = excluded.status, why = excluded.why, turns = excluded.turns, turn_number = excluded.turn_number,"
    " opened_by = excluded.opened_by, changed_at = excluded.changed_at WHERE excluded.changed_at >= rooms.changed_at",
)
# A room's conversation goes on with the room. An end that is newer than the note stays: notes may come late.
GOES_ON = "UPDATE conversations SET ended_at = NULL, ended_because = NULL WHERE id = ? AND ended_at < ?"
# Agents read the same messages, and their streams have no order among them.
ROOM_MESSAGE = insert(
    "room_messages",
    "message_id, thread_id, author, author_id, agent, name, text, at, read_at",
    "(message_id) DO UPDATE SET name = excluded.name, text = excluded.text, read_at = excluded.read_at"
    " WHERE excluded.read_at > room_messages.read_at",
)
OLD_ROOM_MESSAGES = (
    "DELETE FROM room_messages WHERE thread_id = ?1 AND message_id <= (SELECT message_id FROM room_messages"
    f" WHERE thread_id = ?1 ORDER BY message_id DESC LIMIT 1 OFFSET {MOST_MESSAGES})"
)
# A room that is resumed is voted on again: its contest has the votes at its last end.
CONTEST = insert(
    "contests",
    "id, kind, at, channel_id, question, asked_by",
    "(id) DO UPDATE SET at = excluded.at WHERE excluded.at > contests.at",
)
OLD_CONTENDERS = "DELETE FROM contenders WHERE contest_id = ? AND ? >= (SELECT at FROM contests WHERE id = contest_id)"
CONTENDER = (
    "INSERT INTO contenders (contest_id, agent, model, votes)"
    " SELECT ?1, ?2, ?3, ?4 WHERE ?5 = (SELECT at FROM contests WHERE id = ?1) ON CONFLICT DO NOTHING"
)


def room_statements(note: RoomNote) -> list[Statement]:
    members, left = json.dumps(note.members), json.dumps(note.left)
    place = (note.thread_id, note.channel_id, note.guild_id, note.conversation_id, note.topic, note.policy)
    standing = (note.status, note.why, note.turns, note.turn_number)
    room = (*place, members, left, *standing, note.opened_by, note.opened_at, note.changed_at)
    goes_on = [(note.conversation_id, note.changed_at)] if note.status == "active" else []
    return [(ROOM, [room]), (GOES_ON, goes_on)]


def room_words_statements(words: RoomWords) -> list[Statement]:
    rows = [
        (each.message_id, words.thread_id, each.author, each.author_id, each.agent, each.name, each.text, each.at)
        for each in words.messages
    ]
    return [(ROOM_MESSAGE, [(*row, words.at) for row in rows]), (OLD_ROOM_MESSAGES, [(words.thread_id,)])]


def contest_statements(note: ContestNote) -> list[Statement]:
    rows = [(note.id, each.agent, each.model, each.votes, note.at) for each in note.contenders]
    return [
        (CONTEST, [(note.id, note.kind, note.at, note.channel_id, note.question, note.asked_by)]),
        (OLD_CONTENDERS, [(note.id, note.at)]),
        (CONTENDER, rows),
    ]
