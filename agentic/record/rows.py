"""Entries to rows.

Turns entries of the record into rows. Every statement may run twice with the same entry, and changes nothing then.

A Statement is SQL and the values of its rows; a table's columns stand here once more, in the order of the values.

Turns entries about what people say into rows; the same rules as in agentic/record/rows.py, and in any order alike.

A person's own profile and a model's are two rows. What a model made of messages from before the person's last edit is
not kept beside it, so a model adds to an edited or removed profile only where newer messages exist.

Turns entries about rooms and contests into rows; the same rules as in rows.py.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import Any

from agentic.ids import id_at
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import (
    ActionNote,
    CallRecord,
    CallWords,
    ConsentNote,
    ContestNote,
    ConversationNote,
    LoggedMessage,
    PostWords,
    ProfileNote,
    ReactionNote,
    ReplayNote,
    RoomNote,
    RoomWords,
    SearchWords,
    SummaryNote,
    ToolCallRecord,
    UnaskedNote,
)

Values = tuple[Any, ...]
Statement = tuple[str, list[Values]]


def insert(table: str, columns: str, conflict: str = "DO NOTHING") -> str:
    """INSERT with a placeholder for each column; a row that is there already stays unless `conflict` says otherwise."""
    marks = ", ".join("?" * len(columns.split(",")))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks}) ON CONFLICT {conflict}"


TURN = insert(
    "turns",
    "agent, id, at, day, kind, trigger, outcome, reason, conversation_id, round, channel_id, guild_id, asked_by,"
    " asked_message_id, model, entries, seconds, waiting_seconds, context_seconds, model_seconds,"
    " tools_seconds, posting_seconds, input_tokens, cached_tokens, output_tokens, cost_usd, emoji, reacted_to, image,"
    " chosen_because, room_turn",
)
CALL = insert(
    "calls",
    "agent, turn_id, n, kind, model, at, day, seconds, input_tokens, cached_tokens, cache_write_tokens, output_tokens,"
    " reasoning_tokens, searches, cost_usd, error",
)
TOOL_CALL = insert("tool_calls", "agent, turn_id, n, name, at, seconds, characters, error")
# Not of a turn that has lost words: a search repeats them.
SEARCH = (
    "INSERT INTO searches (agent, turn_id, n, channel_id, at, seconds, query, results, error)"
    " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9"
    " WHERE NOT EXISTS (SELECT 1 FROM words WHERE agent = ?1 AND turn_id = ?2 AND removed IS NOT NULL)"
    " ON CONFLICT DO NOTHING"
)
# A turn names its posts; their texts come separately, or never.
NAMED_POST = insert("posts", "message_id, agent, turn_id, channel_id, at")
DELETED_POST = insert(
    "posts",
    "message_id, agent, turn_id, channel_id, at, deleted_at",
    "(message_id) DO UPDATE SET deleted_at = excluded.deleted_at WHERE deleted_at IS NULL",
)
POST = insert(
    "posts",
    "message_id, agent, turn_id, channel_id, at, text, answers_message_id",
    "(message_id) DO UPDATE SET text = excluded.text, answers_message_id = excluded.answers_message_id"
    " WHERE deleted_at IS NULL",
)
PICTURE = insert("pictures", "message_id, media_type, data")
WORDS = insert("words", "agent, turn_id, n, at, asked_by, data, removed")
QUOTE = (
    "INSERT INTO quotes (message_id, words_id, author_id)"
    " SELECT ?1, id, ?5 FROM words WHERE agent = ?2 AND turn_id = ?3 AND n = ?4 AND data IS NOT NULL"
    " ON CONFLICT DO NOTHING"
)
CONVERSATION = insert(
    "conversations",
    "id, channel_id, theme, starter, topic, policy, started_at, ended_at, ended_because, rounds, messages, skips,"
    " cost_usd",
    "(id) DO UPDATE SET topic = coalesce(excluded.topic, topic), ended_at = excluded.ended_at,"
    " ended_because = excluded.ended_because,"
    " rounds = excluded.rounds, messages = excluded.messages, skips = excluded.skips, cost_usd = excluded.cost_usd"
    " WHERE conversations.ended_at IS NULL OR excluded.ended_at IS NOT NULL",
)
REACTION = insert("reactions", "message_id, user_id, emoji, at")
NO_REACTION = "DELETE FROM reactions WHERE message_id = ? AND user_id = ? AND emoji = ?"
ACTION = insert("actions", "id, at, by, action, channel_id, agent, detail, outcome")

REPLAY = insert("replays", "id, at, day, agent, model, calls, input_tokens, cached_tokens, output_tokens, cost_usd")

FAILED = frozenset(
    (
        "discord_failed",
        "signal_failed",
        "internal_error",
        "interrupted",
        "model_failed",
        "picture_failed",
        "reaction_failed",
        "session_lost",
        "unreadable",
    )
)
QUIET = frozenset(("skipped", "withdrawn", "stopped", "overtaken", "out_of_turn", "not_ours"))

DayOf = Callable[[float], str]


def days_in(timezone: tzinfo) -> DayOf:
    """A function that gives the day of a unix time there, as YYYY-MM-DD."""
    return lambda at: datetime.fromtimestamp(at, timezone).date().isoformat()


def outcome_of(record: TurnRecord) -> str:
    """How the turn ended; derived from its reason where an older version did not say it."""
    reason = record.reason
    if record.outcome:
        return record.outcome
    if reason == "deadline":
        return "timed_out"
    if reason in FAILED:
        return "failed"
    if record.posted or record.image:
        return "posted" if reason in (None, "budget") else "refused"
    if record.reacted is not None:
        return "reacted"
    return "skipped" if reason is None or reason in QUIET else "refused"


def turn_row(record: TurnRecord, day_of: DayOf) -> Values:
    phases, reacted = record.phases, record.reacted
    return (
        record.agent,
        record.id,
        record.at,
        record.day or day_of(record.at),
        record.kind,
        record.trigger,
        outcome_of(record),
        record.reason,
        record.conversation_id,
        record.round_number,
        record.channel_id,
        record.guild_id,
        record.asked_by,
        record.asked_message_id,
        record.model,
        record.entries,
        record.seconds,
        phases.waiting,
        phases.context,
        phases.model,
        phases.tools,
        phases.posting,
        record.input_tokens,
        record.cached_tokens,
        record.output_tokens,
        record.cost_usd,
        reacted.emoji if reacted else None,
        reacted.message_id if reacted else None,
        int(record.image),
        record.chosen_because,
        record.room_turn,
    )


def call_row(record: TurnRecord, call: CallRecord, day_of: DayOf) -> Values:
    return (
        record.agent,
        record.id,
        call.n,
        call.kind,
        call.model,
        call.at or record.at,
        record.day or day_of(record.at),
        call.seconds,
        call.input_tokens,
        call.cached_tokens,
        call.cache_write_tokens,
        call.output_tokens,
        call.reasoning_tokens,
        call.searches,
        call.cost_usd,
        call.error,
    )


def tool_call_row(record: TurnRecord, call: ToolCallRecord) -> Values:
    at = call.at or record.at
    return (record.agent, record.id, call.n, call.name, at, call.seconds, call.characters, int(call.error))


def note_statement(note: ConversationNote | ReactionNote | ActionNote | ReplayNote) -> Statement:
    match note:
        case ConversationNote():
            ended = (note.ended_at, note.ended_because, note.rounds, note.messages, note.skips, note.cost_usd)
            begun = (note.id, note.channel_id, note.theme, note.starter, note.topic, note.policy, note.started_at)
            return CONVERSATION, [(*begun, *ended)]
        case ReactionNote(given=True):
            return REACTION, [(note.message_id, note.user_id, note.emoji, note.at)]
        case ReactionNote():
            return NO_REACTION, [(note.message_id, note.user_id, note.emoji)]
        case ReplayNote():
            tokens = (note.input_tokens, note.cached_tokens, note.output_tokens)
            return REPLAY, [(note.id, note.at, note.day, note.agent, note.model, note.calls, *tokens, note.cost_usd)]
    what = (note.channel_id, note.agent, note.detail, note.outcome)
    return ACTION, [(note.id, note.at, note.by, note.action, *what)]


def turn_statements(record: TurnRecord, day_of: DayOf) -> list[Statement]:
    return [
        (TURN, [turn_row(record, day_of)]),
        (CALL, [call_row(record, call, day_of) for call in record.calls]),
        (TOOL_CALL, [tool_call_row(record, call) for call in record.tool_calls]),
        (NAMED_POST, [(post, record.agent, record.id, record.channel_id, record.at) for post in record.posted]),
    ]


def post_statements(post: PostWords) -> list[Statement]:
    place = (post.message_id, post.agent, post.turn_id, post.channel_id, post.at)
    statements: list[Statement] = [(POST, [(*place, post.text, post.answers_message_id)])]
    if post.picture is not None and post.media_type is not None:
        picture = base64.b64decode(post.picture)
        statements.append((PICTURE, [(post.message_id, post.media_type, picture)]))
    return statements


def deleted_post_statement(post: PostWords) -> Statement:
    """The row of a post that was deleted in Discord before it came here."""
    return DELETED_POST, [(post.message_id, post.agent, post.turn_id, post.channel_id, post.at, post.at)]


def call_words_statements(words: CallWords, data: bytes) -> list[Statement]:
    key = (words.agent, words.turn_id, words.n)
    quotes = [(each.message_id, *key, each.author_id) for each in words.quoted]
    return [(WORDS, [(*key, words.at, words.asked_by, data, None)]), (QUOTE, quotes)]


def search_statement(search: SearchWords) -> Statement:
    place = (search.agent, search.turn_id, search.n, search.channel_id, search.at, search.seconds)
    results = json.dumps([page.model_dump() for page in search.pages], ensure_ascii=False)
    return SEARCH, [(*place, search.query, results, int(search.error))]


def removed_words_statement(words: CallWords, why: str) -> Statement:
    """The row of words that are not kept: "forgotten" or "deleted"."""
    return WORDS, [(words.agent, words.turn_id, words.n, words.at, None, None, why)]


MODEL, PERSON = "model", "person"  # who made a profile

_NOW = "(julianday('now') - 2440587.5) * 86400.0"


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


MESSAGE = insert(
    "message_log",
    "message_id, channel_id, guild_id, service, author, author_id, agent, name, text, reply_to, at, read_at",
    "(message_id) DO UPDATE SET author = excluded.author, author_id = excluded.author_id, agent = excluded.agent,"
    " name = excluded.name, text = excluded.text, read_at = excluded.read_at"
    " WHERE (excluded.read_at, excluded.text) > (message_log.read_at, message_log.text)",
)
PARENT = "UPDATE message_log SET reply_to = ?1 WHERE message_id = ?2 AND reply_to IS NULL"
"""Not every process knows what a post answers, so a later row without that does not remove it."""

OUTDATED_SUMMARY = (
    "DELETE FROM summaries WHERE at < ?3"
    " AND message_id IN (SELECT summary_id FROM summary_sources WHERE message_id = ?1)"
    " AND EXISTS (SELECT 1 FROM message_log WHERE message_id = ?1 AND text <> ?2 AND read_at < ?3)"
)
OUTDATED_PROFILE = lost_profiles("gone.message_id = ?1 AND gone.text <> ?2 AND max(gone.read_at, known.at) < ?3", "?3")
SUMMARY = insert(
    "summaries",
    "message_id, channel_id, agent, text, at",
    "(message_id) DO UPDATE SET agent = excluded.agent, text = excluded.text, at = excluded.at"
    " WHERE (excluded.at, excluded.text) > (summaries.at, summaries.text)",
)
# Of all that were made of this chain: one too many removes a summary rather too soon than too late.
SUMMARY_SOURCE = insert("summary_sources", "message_id, summary_id")
SUMMARY_PERSON = insert("summary_people", "user_id, summary_id")

_PROFILE = "INSERT INTO profiles (user_id, by, name, topics, upto, deleted, at)"
_NEW_PROFILE = "name = excluded.name, topics = excluded.topics, upto = excluded.upto, at = excluded.at"
OWN_PROFILE = (
    f"{_PROFILE} VALUES (?, '{PERSON}', ?, ?, ?, ?, ?) ON CONFLICT (user_id, by) DO UPDATE SET {_NEW_PROFILE},"
    " deleted = excluded.deleted WHERE (excluded.at, excluded.topics) > (profiles.at, profiles.topics)"
)
MODELS_PROFILE = (
    f"{_PROFILE} SELECT ?1, '{MODEL}', ?2, ?3, ?4, 0, ?5"
    f" WHERE NOT EXISTS (SELECT 1 FROM profiles WHERE user_id = ?1 AND by = '{PERSON}' AND upto >= ?4)"
    f" ON CONFLICT (user_id, by) DO UPDATE SET {_NEW_PROFILE}"
    " WHERE (excluded.upto, excluded.at, excluded.topics) > (profiles.upto, profiles.at, profiles.topics)"
    " AND (profiles.upto > 0 OR excluded.at > profiles.at)"  # what was read before a loss may hand the lost on
)
OLD_PROFILE = (
    f"DELETE FROM profiles WHERE user_id = ?1 AND by = '{MODEL}'"
    f" AND upto <= (SELECT upto FROM profiles WHERE user_id = ?1 AND by = '{PERSON}')"
)
CONSENT = insert(
    "consents",
    "user_id, unasked, because, at",
    "(user_id) DO UPDATE SET unasked = excluded.unasked, because = excluded.because, at = excluded.at"
    # Of two at once the refusal counts.
    " WHERE (excluded.at, -excluded.unasked, excluded.because) > (consents.at, -consents.unasked, consents.because)",
)
UNASKED = insert("unasked", "message_id, agent, task, channel_id, person_id, cause, text, at")


def message_statements(said: LoggedMessage) -> list[Statement]:
    """A summary or a profile from before an edit may have the words that it removed."""
    place = (said.message_id, said.channel_id, said.guild_id, said.service)
    author = (said.author, said.author_id, said.agent, said.name)
    row = (*place, *author, said.text, said.reply_to, said.at, said.read_at)
    parent = [(PARENT, [(said.reply_to, said.message_id)])] if said.reply_to is not None else []
    edit = (said.message_id, said.text, said.read_at)
    return [(OUTDATED_SUMMARY, [edit]), (OUTDATED_PROFILE, [edit]), (MESSAGE, [row]), *parent]


def summary_statements(note: SummaryNote) -> list[Statement]:
    sources = dict.fromkeys((*note.message_ids, note.message_id))
    return [
        (SUMMARY, [(note.message_id, note.channel_id, note.agent, note.text, note.at)]),
        (SUMMARY_SOURCE, [(source, note.message_id) for source in sources]),
        (SUMMARY_PERSON, [(person, note.message_id) for person in dict.fromkeys(note.people)]),
    ]


def profile_statements(note: ProfileNote) -> list[Statement]:
    """A person's own one knows all messages from before it."""
    topics = json.dumps(note.topics, ensure_ascii=False)
    if not note.deleted and note.by == MODEL:
        return [(MODELS_PROFILE, [(note.user_id, note.name, topics, note.upto, note.at)])]
    shown = ("", "[]") if note.deleted else (note.name, topics)
    row = (note.user_id, *shown, id_at(note.at), int(note.deleted), note.at)
    return [(OWN_PROFILE, [row]), (OLD_PROFILE, [(note.user_id,)])]


def consent_statement(note: ConsentNote) -> Statement:
    return CONSENT, [(note.user_id, int(note.unasked), note.because, note.at)]


def unasked_statement(note: UnaskedNote) -> Statement:
    what = (note.channel_id, note.person_id, note.cause, note.text, note.at)
    return UNASKED, [(note.message_id, note.agent, note.task, *what)]


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
