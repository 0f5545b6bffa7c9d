"""Turns entries of the record into rows. Every statement may run twice with the same entry, and changes nothing then.

A Statement is SQL and the values of its rows; a table's columns stand here once more, in the order of the values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import datetime, tzinfo
from typing import Any

from agentic.state.records import TurnRecord
from agentic.wire.entries import (
    ActionNote,
    CallRecord,
    CallWords,
    ConversationNote,
    PostWords,
    ReactionNote,
    ReplayNote,
    SearchWords,
    ToolCallRecord,
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
