"""Turn entries of the record into rows.

A Statement is SQL and the values of its rows. The result is the same if a statement runs twice, or before or after
others: an entry may be read twice, and streams have no common order.

A person's own profile and a model's are two rows. A model adds to a profile that the person edited or removed only
if newer messages exist: topics from messages before the edit are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from agentic.ids import id_at
from agentic.record.blocklist import RecordEntry, RecordingBlocklist, rows_of
from agentic.record.personal_data import MODEL, PERSON, lost_profiles
from agentic.state.turn_records import UNKNOWN, TurnRecord
from agentic.wire.entries import (
    ActionNote,
    CallRecord,
    ConsentNote,
    ContestNote,
    ConversationNote,
    Entry,
    LoggedMessage,
    PackedCall,
    Phases,
    PostWords,
    ProfileNote,
    ReactionNote,
    ReplayNote,
    RoomConclusion,
    RoomMessage,
    RoomNote,
    RoomWords,
    SearchWords,
    SummaryNote,
    ToolCallRecord,
    UnaskedNote,
)

MAX_ROOM_MESSAGES = 400  # of a room; older ones go when new ones come
FAILED = {
    *("discord_failed", "signal_failed", "internal_error", "interrupted", "model_failed", "picture_failed"),
    *("reaction_failed", "session_lost", "unreadable"),
}
QUIET = {"skipped", "withdrawn", "stopped", "overtaken", "out_of_turn", "not_ours"}

Values = tuple[Any, ...]
Statement = tuple[str, list[Values]]
DayOf = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Rules:
    """`unwanted`: the values of StoredData.expires that the owner keeps for zero days."""

    day_of: DayOf
    unwanted: frozenset[str] = frozenset()


def _replace(columns: str) -> str:
    """Return the assignments of an upsert that takes over these columns."""
    return ", ".join(f"{name} = excluded.{name}" for name in columns.split())


class Insert:
    """INSERT into these columns, or into all fields of an entry. `conflict`: what to do if the row exists already."""

    def __init__(self, table: str, columns: str | type[Entry], conflict: str = "DO NOTHING") -> None:
        self._columns = columns.split() if isinstance(columns, str) else list(columns.model_fields)
        marks = ", ".join("?" * len(self._columns))
        self.sql = f"INSERT INTO {table} ({', '.join(self._columns)}) VALUES ({marks}) ON CONFLICT {conflict}"

    def row(self, entry: object, **values: Any) -> Values:
        """Return the columns' values: `values`, and for other columns the entry's attributes of the same names."""
        return tuple(values[name] if name in values else getattr(entry, name) for name in self._columns)

    def of(self, entry: object, **values: Any) -> Statement:
        return self.sql, [self.row(entry, **values)]


PHASE_COLUMNS = tuple(f"{phase}_seconds" for phase in Phases.model_fields)
# A turn's fields that aren't columns of the same names; `posted`, `calls`, and `tool_calls` have their own tables.
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    **{"round_number": ("round",), "reacted": ("emoji", "reacted_to"), "phases": PHASE_COLUMNS},
    **dict.fromkeys(("v", "posted", "calls", "tool_calls"), ()),
}
TURN_COLUMNS = tuple(column for name in TurnRecord.model_fields for column in _COLUMNS.get(name, (name,)))
TURN = Insert(
    "turns",
    " ".join(TURN_COLUMNS),  # a late end replaces what was known
    f"(agent, id) DO UPDATE SET {_replace(' '.join(TURN_COLUMNS))} WHERE kind = '{UNKNOWN}'",
)
CALL = Insert("calls", f"agent turn_id day {' '.join(CallRecord.model_fields)}")
TOOL_CALL = Insert("tool_calls", f"agent turn_id {' '.join(ToolCallRecord.model_fields)}")
# A turn whose words were removed gets no searches: they would repeat the words.
SEARCH = (
    "INSERT INTO searches (agent, turn_id, n, channel_id, at, seconds, query, results, error)"
    " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9"
    " WHERE NOT EXISTS (SELECT 1 FROM words WHERE agent = ?1 AND turn_id = ?2 AND removed IS NOT NULL)"
    " ON CONFLICT DO NOTHING"
)
# A turn names its posts; their texts come separately, or never.
NAMED_POST = Insert("posts", "message_id agent turn_id channel_id at")
DELETED_POST = Insert(
    "posts",
    "message_id agent turn_id channel_id at deleted_at",
    "(message_id) DO UPDATE SET deleted_at = excluded.deleted_at WHERE deleted_at IS NULL",
)
POST = Insert(
    "posts",
    "message_id agent turn_id channel_id at text answers_message_id",
    f"(message_id) DO UPDATE SET {_replace('text answers_message_id')} WHERE deleted_at IS NULL",
)
PICTURE = Insert("pictures", "message_id media_type data")
WORDS = Insert("words", "agent turn_id n at asked_by data removed")
QUOTE = (
    "INSERT INTO quotes (message_id, words_id, author_id)"
    " SELECT CAST(key AS INTEGER), words.id, value FROM words, json_each(?4)"
    " WHERE agent = ?1 AND turn_id = ?2 AND n = ?3 AND data IS NOT NULL ON CONFLICT DO NOTHING"
)
CONVERSATION = Insert(
    "conversations",
    ConversationNote,
    "(id) DO UPDATE SET topic = coalesce(excluded.topic, topic),"
    f" {_replace('ended_at ended_because rounds messages skips cost_usd')}"
    " WHERE conversations.ended_at IS NULL OR excluded.ended_at IS NOT NULL",
)
REACTION = Insert("reactions", "message_id user_id emoji at")
NO_REACTION = "DELETE FROM reactions WHERE message_id = ? AND user_id = ? AND emoji = ?"
ACTION = Insert("actions", ActionNote)
REPLAY = Insert("replays", ReplayNote)

MESSAGE = Insert(
    "message_log",
    LoggedMessage,
    f"(message_id) DO UPDATE SET {_replace('author author_id agent name text read_at')}"
    " WHERE (excluded.read_at, excluded.text) > (message_log.read_at, message_log.text)",
)
# Not every process knows what a post answers, so a later row without it changes nothing.
PARENT = "UPDATE message_log SET reply_to = ?1 WHERE message_id = ?2 AND reply_to IS NULL"

OUTDATED_SUMMARY = (
    "DELETE FROM summaries WHERE at < ?3"
    " AND message_id IN (SELECT summary_id FROM summary_sources WHERE message_id = ?1)"
    " AND EXISTS (SELECT 1 FROM message_log WHERE message_id = ?1 AND text <> ?2 AND read_at < ?3)"
)
OUTDATED_PROFILE = "UPDATE profiles SET name = '', topics = '[]', upto = 0, at = max(at, ?3) WHERE " + lost_profiles(
    "gone.message_id = ?1 AND gone.text <> ?2 AND max(gone.read_at, known.at) < ?3"
)
SUMMARY = Insert(
    "summaries",
    "message_id channel_id agent text at",
    f"(message_id) DO UPDATE SET {_replace('agent text at')}"
    " WHERE (excluded.at, excluded.text) > (summaries.at, summaries.text)",
)
# All messages of the chain: with a message too many, a summary is removed too soon rather than too late.
SUMMARY_SOURCE = Insert("summary_sources", "message_id summary_id")
SUMMARY_PERSON = Insert("summary_people", "user_id summary_id")

_PROFILE = "INSERT INTO profiles (user_id, by, name, topics, upto, deleted, at)"
_NEW_PROFILE = _replace("name topics upto at")
OWN_PROFILE = (
    f"{_PROFILE} VALUES (?, '{PERSON}', ?, ?, ?, ?, ?) ON CONFLICT (user_id, by) DO UPDATE SET {_NEW_PROFILE},"
    " deleted = excluded.deleted WHERE (excluded.at, excluded.topics) > (profiles.at, profiles.topics)"
)
MODELS_PROFILE = (
    f"{_PROFILE} SELECT ?1, '{MODEL}', ?2, ?3, ?4, 0, ?5"
    f" WHERE NOT EXISTS (SELECT 1 FROM profiles WHERE user_id = ?1 AND by = '{PERSON}' AND upto >= ?4)"
    f" ON CONFLICT (user_id, by) DO UPDATE SET {_NEW_PROFILE}"
    " WHERE (excluded.upto, excluded.at, excluded.topics) > (profiles.upto, profiles.at, profiles.topics)"
    " AND (profiles.upto > 0 OR excluded.at > profiles.at)"  # topics that were read before a deletion may repeat it
)
OLD_PROFILE = (
    f"DELETE FROM profiles WHERE user_id = ?1 AND by = '{MODEL}'"
    f" AND upto <= (SELECT upto FROM profiles WHERE user_id = ?1 AND by = '{PERSON}')"
)
CONSENT = Insert(
    "consents",
    ConsentNote,
    f"(user_id) DO UPDATE SET {_replace('unasked because at')}"
    # If two have the same time, the refusal wins.
    " WHERE (excluded.at, -excluded.unasked, excluded.because) > (consents.at, -consents.unasked, consents.because)",
)
UNASKED = Insert("unasked", UnaskedNote)

_ROOM = (
    "conversation_id topic details policy format rules members left_members sides ledger status why turns turn_number"
    " changed_at"
)
# `opened_by` isn't updated: a later note must not restore a person who was forgotten.
ROOM = Insert(
    "rooms",
    f"thread_id channel_id guild_id opened_by opened_at {_ROOM}",
    f"(thread_id) DO UPDATE SET {_replace(_ROOM)} WHERE excluded.changed_at >= rooms.changed_at",
)
# A room that is resumed continues its conversation. An end that is newer than the note stays: notes may come late.
CONTINUED = "UPDATE conversations SET ended_at = NULL, ended_because = NULL WHERE id = ? AND ended_at < ?"
# Several agents read the same messages, and their streams have no common order.
ROOM_MESSAGE = Insert(
    "room_messages",
    f"thread_id read_at {' '.join(RoomMessage.model_fields)}",
    f"(message_id) DO UPDATE SET {_replace('name text read_at')} WHERE excluded.read_at > room_messages.read_at",
)
OLD_ROOM_MESSAGES = (
    "DELETE FROM room_messages WHERE thread_id = ?1 AND message_id <= (SELECT message_id FROM room_messages"
    f" WHERE thread_id = ?1 ORDER BY message_id DESC LIMIT 1 OFFSET {MAX_ROOM_MESSAGES})"
)
# A room that is resumed is voted on again: its contest has the votes of its latest end.
CONTEST = Insert(
    "contests",
    "id kind at channel_id question asked_by",
    "(id) DO UPDATE SET at = excluded.at WHERE excluded.at > contests.at",
)
OLD_CONTENDERS = "DELETE FROM contenders WHERE contest_id = ? AND ? >= (SELECT at FROM contests WHERE id = contest_id)"
CONTENDER = (
    "INSERT INTO contenders (contest_id, agent, model, votes, side, score, moved)"
    " SELECT ?1, ?2, ?3, ?4, ?6, ?7, ?8 WHERE ?5 = (SELECT at FROM contests WHERE id = ?1) ON CONFLICT DO NOTHING"
)
_CONCLUSION = "channel_id guild_id topic card arguments agreed unsettled judge verdict message_ids people closed_at at"
# Once for each end: a process that takes over may note it again, with less.
CONCLUSION = Insert(
    "room_conclusions",
    f"thread_id {_CONCLUSION}",
    f"(thread_id) DO UPDATE SET {_replace(_CONCLUSION)} WHERE excluded.closed_at > room_conclusions.closed_at",
)
UNDONE_BY = {REACTION.sql: NO_REACTION, NO_REACTION: REACTION.sql, CONVERSATION.sql: CONTINUED, WORDS.sql: SEARCH}


def entry_statements(
    entries: Iterable[RecordEntry], blocklist: RecordingBlocklist, rules: Rules
) -> Iterable[Statement]:
    for entry in entries:
        stored = rows_of(entry)
        if rules.unwanted and any(row.expires in rules.unwanted for row in stored):
            continue
        if type(entry) is PackedCall and (why := blocklist.why_not(entry)):
            yield WORDS.of(entry, asked_by=None, data=None, removed=why)
        elif type(entry) is PostWords and any(blocklist.is_deleted(entry, row) for row in stored):
            yield DELETED_POST.of(entry, deleted_at=entry.at)
        elif type(admitted := blocklist.admit(entry)) is TurnRecord:
            yield from turn_statements(admitted, rules.day_of)
        elif admitted is not None and (make := STATEMENTS.get(type(admitted))):  # a deletion has no row
            yield from [make.of(admitted)] if isinstance(make, Insert) else make(admitted)


def join_statements(statements: Iterable[Statement]) -> list[Statement]:
    """Join the rows of equal statements, in order. A statement that undoes another's rows stays behind them."""
    whole: list[Statement] = []
    places: dict[str, list[Values]] = {}
    for sql, rows in statements:
        places.pop(UNDONE_BY.get(sql, ""), None)
        if sql not in places:
            places[sql] = []
            whole.append((sql, places[sql]))
        places[sql] += rows
    return whole


def days_in(timezone: tzinfo) -> DayOf:
    """Return a function from unix time to the day in this time zone, as YYYY-MM-DD."""
    return lambda at: datetime.fromtimestamp(at, timezone).date().isoformat()


def outcome_of(record: TurnRecord) -> str:
    """Return how the turn ended. Older versions recorded only the reason, from which it is derived."""
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


def turn_statements(record: TurnRecord, day_of: DayOf) -> list[Statement]:
    reacted, day = record.reacted, record.day or day_of(record.at)
    of_turn = {"agent": record.agent, "turn_id": record.id}
    turn = TURN.of(
        record,
        day=day,
        outcome=outcome_of(record),
        round=record.round_number,
        **{f"{phase}_seconds": seconds for phase, seconds in record.phases.model_dump().items()},
        emoji=reacted.emoji if reacted else None,
        reacted_to=reacted.message_id if reacted else None,
    )
    calls = [CALL.row(call, **of_turn, at=call.at or record.at, day=day) for call in record.calls]
    tool_calls = [TOOL_CALL.row(call, **of_turn, at=call.at or record.at) for call in record.tool_calls]
    posts = [NAMED_POST.row(record, message_id=post, turn_id=record.id) for post in record.posted]
    return [turn, (CALL.sql, calls), (TOOL_CALL.sql, tool_calls), (NAMED_POST.sql, posts)]


def post_statements(post: PostWords) -> list[Statement]:
    has_picture = post.picture is not None and post.media_type is not None
    return [POST.of(post), *([PICTURE.of(post, data=post.picture)] if has_picture else [])]


def call_statements(call: PackedCall) -> list[Statement]:
    quotes = (call.agent, call.turn_id, call.n, json.dumps(call.quoted))
    return [WORDS.of(call, data=call.words, removed=None), (QUOTE, [quotes])]


def search_statements(search: SearchWords) -> list[Statement]:
    place = (search.agent, search.turn_id, search.n, search.channel_id, search.at, search.seconds)
    results = json.dumps([page.model_dump() for page in search.pages], ensure_ascii=False)
    return [(SEARCH, [(*place, search.query, results, search.error)])]


def message_statements(said: LoggedMessage) -> list[Statement]:
    """Also remove a summary and a profile from before an edit: they may contain words that the edit removed."""
    parent = [(PARENT, [(said.reply_to, said.message_id)])] if said.reply_to is not None else []
    edit = (said.message_id, said.text, said.read_at)
    return [(OUTDATED_SUMMARY, [edit]), (OUTDATED_PROFILE, [edit]), MESSAGE.of(said), *parent]


def summary_statements(note: SummaryNote) -> list[Statement]:
    sources = dict.fromkeys((*note.message_ids, note.message_id))
    return [
        SUMMARY.of(note),
        (SUMMARY_SOURCE.sql, [(source, note.message_id) for source in sources]),
        (SUMMARY_PERSON.sql, [(person, note.message_id) for person in dict.fromkeys(note.people)]),
    ]


def profile_statements(note: ProfileNote) -> list[Statement]:
    """A person's own profile replaces topics from all earlier messages."""
    topics = json.dumps(note.topics, ensure_ascii=False)
    if not note.deleted and note.by == MODEL:
        return [(MODELS_PROFILE, [(note.user_id, note.name, topics, note.upto, note.at)])]
    name, topics = ("", "[]") if note.deleted else (note.name, topics)
    row = (note.user_id, name, topics, id_at(note.at), note.deleted, note.at)
    return [(OWN_PROFILE, [row]), (OLD_PROFILE, [(note.user_id,)])]


def room_statements(note: RoomNote) -> list[Statement]:
    continued = [(note.conversation_id, note.changed_at)] if note.status == "active" else []
    lists = _as_json(note, "members sides ledger")
    return [ROOM.of(note, **lists, left_members=json.dumps(note.left)), (CONTINUED, continued)]


def _as_json(note: object, names: str) -> dict[str, str]:
    return {name: json.dumps(getattr(note, name), ensure_ascii=False) for name in names.split()}


def conclusion_statements(note: RoomConclusion) -> list[Statement]:
    return [CONCLUSION.of(note, **_as_json(note, "arguments agreed unsettled message_ids people"))]


def room_words_statements(words: RoomWords) -> list[Statement]:
    rows = [ROOM_MESSAGE.row(each, thread_id=words.thread_id, read_at=words.at) for each in words.messages]
    return [(ROOM_MESSAGE.sql, rows), (OLD_ROOM_MESSAGES, [(words.thread_id,)])]


def contest_statements(note: ContestNote) -> list[Statement]:
    rows = [
        (note.id, each.agent, each.model, each.votes, note.at, each.side, each.score, each.moved)
        for each in note.contenders
    ]
    return [CONTEST.of(note), (OLD_CONTENDERS, [(note.id, note.at)]), (CONTENDER, rows)]


STATEMENTS: Mapping[type, Insert | Callable[[Any], list[Statement]]] = {
    PackedCall: call_statements,
    SearchWords: search_statements,
    PostWords: post_statements,
    RoomWords: room_words_statements,
    RoomNote: room_statements,
    RoomConclusion: conclusion_statements,
    ContestNote: contest_statements,
    ReactionNote: lambda note: [
        REACTION.of(note) if note.given else (NO_REACTION, [(note.message_id, note.user_id, note.emoji)])
    ],
    LoggedMessage: message_statements,
    SummaryNote: summary_statements,
    ProfileNote: profile_statements,
    ConversationNote: CONVERSATION,
    ActionNote: ACTION,
    ReplayNote: REPLAY,
    ConsentNote: CONSENT,
    UnaskedNote: UNASKED,
}
