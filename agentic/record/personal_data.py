"""List all stored data: what it is, which people it is about, and when it is deleted.

The list drives `/forget me` and deletions of messages (forgetting.py), retention (retention.py), checks before
recording (blocklist.py), `/privacy`, `/privacy export`, and the table in docs/privacy.md. A test compares it with the
migrations, so a new column about a person can't be missed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from agent_config import Settings
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import (
    ActionNote,
    ConsentNote,
    ContestNote,
    LoggedMessage,
    PackedCall,
    PostWords,
    ProfileNote,
    ReactionNote,
    RoomConclusion,
    RoomNote,
    RoomWords,
    SearchWords,
    SummaryNote,
    UnaskedNote,
)

DAY = 86400.0
DELETIONS_KEPT = 8 * DAY  # the streams keep their entries for seven days
PEOPLE_KEPT = 30 * DAY  # as long as their requests
ARENA = "arena"  # a kind of contest; its id is the id of its message
MODEL, PERSON = "model", "person"  # who made a profile


class Sql(str):
    """An SQL expression as a column's new value."""

    __slots__ = ()


Effect = Literal["delete", "keep"] | Mapping[str, object]  # a mapping: these columns get these values


@dataclass(frozen=True, slots=True)
class StoredData:
    """Describe a table, Redis keys, a file, or data in memory. A table may have several entries in STORED: one has
    the `name`, the others say what else is done with the table's rows.

    These fields name columns. `person`: a person's id. `sent`: the id of a message of that person, whose time is when
    it was sent. `at`: another time. Both times are compared with the time of a request to be forgotten. `message` and
    `channel`: the ids of the message and channel that the data come from. `only`: a column and its value; rows with
    other values aren't meant. `theirs`, `gone`, and `there` are SQL conditions instead of columns: for a person's rows,
    rows of deleted messages, and rows of a deleted channel (forgetting.py has their values). `entry`: the type of the
    recorded entries; its attributes have the columns' names.

    `children`: tables whose rows are deleted when a row here is deleted or emptied, with the columns that link them.
    `key`: the primary key of rows that expire by their column `age`. `expires`: a setting of the owner, seconds, or a
    text that says what ends it. `store`: the store that forgets data outside of tables (agentic/agent/forgetting.py).
    With `each_process`, every process does that, otherwise only the process that the person asked.

    `counted`: the count's name in the answer to a request. `noun`: what `/privacy` calls one item. `export`: the
    columns that a person gets. `rest`: other columns with ids or names. `stays` and `withheld`: why the data aren't
    forgotten, and why the person doesn't get them.
    """

    table: str
    name: str = ""
    entry: type | None = None
    place: Literal["sqlite", "redis", "file", "memory"] = "sqlite"
    person: str = ""
    sent: str = ""
    at: str = "at"
    message: str = ""
    channel: str = ""
    only: tuple[str, object] | None = None
    theirs: str = ""
    gone: str = ""
    there: str = ""
    on_forget: Effect = "delete"
    on_delete: Effect = "delete"
    children: Mapping[str, tuple[str, str]] | None = None
    expires: Literal["record", "prompts", "messages"] | float | str = ""
    key: str = ""
    age: str = "at"
    counted: str = ""
    noun: str = ""
    store: str = ""
    each_process: bool = False
    export: str = ""
    rest: str = ""
    stays: str = ""
    withheld: str = ""

    @property
    def why_withheld(self) -> str:
        return self.withheld or (_SOON if self.place == "redis" else self.stays)


IDS = "SELECT value FROM json_each(:ids)"
NOW = "(julianday('now') - 2440587.5) * 86400.0"
_THEIR_TURNS = "SELECT agent, id FROM turns WHERE asked_by = :person AND (at <= :at OR asked_message_id < :before)"
_TURNS_THERE = "SELECT agent, id FROM turns WHERE channel_id = :channel"
_QUOTING_THEM = (
    "SELECT words_id FROM quotes JOIN words ON words.id = words_id"
    " WHERE author_id = :person AND (message_id < :before OR words.at <= :at)"
)
_QUOTING_OR_MADE = (
    f"SELECT words_id FROM quotes WHERE message_id IN ({IDS})"
    f" UNION SELECT words.id FROM words JOIN posts USING (agent, turn_id) WHERE posts.message_id IN ({IDS})"
)
_THEIR_LOG = "gone.author_id = :person AND (gone.message_id < :before OR gone.at <= :at)"
_THEIR_SUMMARIES = (
    "SELECT summary_id FROM summary_people JOIN summaries ON message_id = summary_id"
    " WHERE user_id = :person AND at <= :at"
    f" UNION SELECT summary_id FROM summary_sources JOIN message_log gone USING (message_id) WHERE {_THEIR_LOG}"
)
_NO_WORDS = {"data": None, "asked_by": None, "removed": Sql(":why")}
_NO_TOPICS = {"name": "", "topics": "[]", "upto": 0, "at": Sql(f"max(at, {NOW})")}
_TURN = "agent id at kind trigger outcome reason channel_id asked_message_id model seconds cost_usd"
_OTHERS = "contains other people's words"
_SOON = "expires on its own"
_LIMIT = "deleting it would reset limits"
_ORDER = "a moderator decided it"
_NO_ID = "without the person's ID"


def lost_profiles(which: str) -> str:
    """Return the SQL condition for models' profiles that may be based on messages that are about to change or leave
    the log. `which` is a condition on `gone`, these messages, and `known`, the profile.

    Such profiles are emptied and made again from the other messages, because nobody could tell any longer in which
    channels their topics were mentioned. People's own profiles stay.
    """
    return (
        f"by = '{MODEL}' AND user_id IN (SELECT gone.author_id FROM message_log gone JOIN profiles known ON"
        f" known.user_id = gone.author_id AND known.by = '{MODEL}' AND known.upto >= gone.message_id WHERE {which})"
    )


def _ends(table: str, name: str, expires: float | str, stays: str = _SOON, withheld: str = "") -> StoredData:
    """Describe data about people in Redis that `/forget me` doesn't delete."""
    return StoredData(table, name, place="redis", expires=expires, stays=stays, withheld=withheld)


# In the order of deletion: data that are found through turns or logged messages come before turns and messages.
STORED: tuple[StoredData, ...] = (
    # -- the record ----------------------------------------------------------------------------------------------------
    StoredData(
        "words", "prompts, with people's words and names in them, and the models' answers and reasoning", PackedCall,
        person="asked_by", theirs=f"data IS NOT NULL AND (asked_by = :person AND at <= :at OR id IN ({_QUOTING_THEM}))",
        gone=f"data IS NOT NULL AND id IN ({_QUOTING_OR_MADE})",
        there=f"data IS NOT NULL AND at <= :at AND (agent, turn_id) IN ({_TURNS_THERE})",
        on_forget=_NO_WORDS, on_delete=_NO_WORDS,
        children={"quotes": ("words_id", "id"), "searches": ("agent, turn_id", "agent, turn_id")},
        expires="prompts", key="id", counted="prompts", rest="turn_id", withheld=_OTHERS,
    ),
    StoredData("quotes", rest="message_id author_id words_id"),
    StoredData(  # also found through turns: a turn that ended before its model was called has a search but no prompt
        "searches", "the bots' web searches, and the pages they found", SearchWords, channel="channel_id",
        theirs=f"(agent, turn_id) IN ({_THEIR_TURNS})", there="channel_id = :channel AND at <= :at",
        expires="prompts", key="agent, turn_id, n", withheld=_OTHERS,
    ),
    StoredData(
        "posts", "the bots' posts, with their pictures", PostWords, message="message_id", channel="channel_id",
        gone=f"message_id IN ({IDS}) AND deleted_at IS NULL", on_delete={"text": "", "deleted_at": Sql(":deleted_at")},
        children={"pictures": ("message_id", "message_id")}, expires="record", key="message_id", age="message_id",
        rest="turn_id", stays="in channels; posts in private chats lose their text", withheld="bots wrote them",
    ),
    StoredData(
        "posts", theirs=f"(agent, turn_id) IN ({_THEIR_TURNS})", on_forget={"answers_message_id": None},
        rest="answers_message_id",
    ),
    StoredData("pictures", rest="message_id"),
    StoredData(
        "turns", entry=TurnRecord, person="asked_by", sent="asked_message_id", counted="turns",
        noun="turn", on_forget={"asked_by": None, "asked_message_id": None}, export=f"{_TURN} guild_id conversation_id",
    ),
    StoredData(
        "turns", "a record of each turn: who asked, models and tools, times and costs, no text",
        children={"calls": ("agent, turn_id", "agent, id"), "tool_calls": ("agent, turn_id", "agent, id")},
        expires="record", key="seq", stays=_NO_ID,
    ),
    StoredData("calls", rest="turn_id"),
    StoredData("tool_calls", rest="turn_id name"),
    StoredData(
        "reactions", "reactions to the bots' posts, with the IDs of the people who reacted", ReactionNote,
        person="user_id", message="message_id", expires="record", key="message_id, user_id, emoji", age="message_id",
        counted="reactions", noun="reaction", export="message_id emoji at",
    ),
    StoredData(
        "actions", "actions of owners and moderators, such as stopping or muting a bot", ActionNote, person="by",
        on_forget={"by": "forgotten", "detail": ""}, expires="record", key="id", noun="order",
        stays="without the person's ID and words", export="at action channel_id agent detail outcome",
    ),
    StoredData(
        "conversations", "the bots' conversations, with their topics", expires="record", key="id", age="started_at",
        rest="channel_id", stays="contains no IDs of people",
    ),
    StoredData(
        "room_messages", "the newest 400 messages in each room, with names and IDs", RoomWords,
        person="author_id", sent="message_id", at="", message="message_id", channel="thread_id",
        expires="prompts", key="message_id", age="message_id", export="message_id thread_id name text at",
        noun="room message", rest="author",
    ),
    StoredData(
        "rooms", "rooms, with their topics, arguments, and who opened them", RoomNote, person="opened_by",
        at="opened_at", on_forget={"opened_by": None}, noun="room", stays=_NO_ID, expires="record", key="thread_id",
        age="changed_at", export="thread_id channel_id guild_id topic details status opened_at", rest="conversation_id",
    ),
    StoredData(
        "room_conclusions", "outcomes of rooms: arguments, agreement, closing cards, and verdicts", RoomConclusion,
        theirs="at <= :at AND :person IN (SELECT value FROM json_each(people))", channel="thread_id",
        gone=f"EXISTS (SELECT 1 FROM json_each(message_ids) WHERE value IN ({IDS}))", there="thread_id = :channel",
        expires="record", key="thread_id", rest="channel_id guild_id message_ids people", withheld=_OTHERS,
    ),
    StoredData(
        "contests", entry=ContestNote, person="asked_by", message="id", only=("kind", ARENA),
        gone="id IN (SELECT CAST(value AS TEXT) FROM json_each(:ids))", on_forget={"question": ""},
        on_delete={"question": ""},
    ),
    StoredData(
        "contests", entry=ContestNote, person="asked_by", on_forget={"asked_by": None},
        noun="vote", export="id kind at channel_id question",
    ),
    StoredData(
        "contests", "votes on bots: the question, who asked it, and counts without names",
        children={"contenders": ("contest_id", "id")}, expires="record", key="id",
        stays="without the person's ID; an arena loses its question",
    ),
    StoredData("contenders", rest="contest_id"),
    StoredData(
        "profiles", theirs=lost_profiles(_THEIR_LOG), gone=lost_profiles(f"gone.message_id IN ({IDS})"),
        on_forget=_NO_TOPICS, on_delete=_NO_TOPICS,
    ),
    StoredData(
        "summaries", "models' summaries of conversations in channels with a message log", SummaryNote,
        theirs=f"message_id IN ({_THEIR_SUMMARIES})", message="message_id", channel="channel_id",
        gone=f"message_id IN (SELECT summary_id FROM summary_sources WHERE message_id IN ({IDS}))",
        expires="messages", key="message_id", age="message_id", withheld=_OTHERS,
    ),
    StoredData(
        "summary_people", person="user_id", on_forget="keep", noun="summarized conversation", rest="summary_id",
        withheld=_OTHERS,
    ),
    StoredData("summary_sources", rest="message_id summary_id"),
    StoredData(
        "message_log", "messages in channels with a message log, and what they answer", LoggedMessage,
        person="author_id", sent="message_id", message="message_id", channel="channel_id",
        expires="messages", key="message_id", age="message_id", counted="messages", noun="logged message",
        export="message_id channel_id guild_id service name text reply_to at", rest="author",
    ),
    StoredData(
        "profiles", "profiles: the topics a person talks about, with their name", ProfileNote, person="user_id",
        only=("by", PERSON), export="by name topics at",
        expires="until the person deletes it, or `RECORD_DAYS` after its last change if they no longer write",
    ),
    StoredData(
        "profiles", entry=ProfileNote, person="user_id", sent="upto", only=("by", MODEL), export="by name topics at"
    ),
    StoredData(
        "consents", "whether a person wants unprompted messages", ConsentNote, person="user_id",
        only=("unasked", 1), expires="until the person changes it", export="unasked because at",
    ),
    StoredData("consents", person="user_id", only=("unasked", 0), on_forget="keep", export="unasked because at"),
    StoredData(
        "unasked", "unprompted messages: who got them, why, and the text", UnaskedNote, person="person_id",
        message="message_id", channel="channel_id", on_forget={"text": "", "cause": "", "person_id": None},
        on_delete={"text": "", "cause": ""}, expires="record", key="message_id", noun="unprompted message",
        stays="without text and person, so the bot waits before it sends another",
        export="message_id agent task channel_id cause text at",
    ),
    StoredData(
        "forgotten", "IDs of people who asked to be forgotten", person="user_id", on_forget="keep", expires=PEOPLE_KEPT,
        key="user_id", export="at", stays="so older data isn't restored",
    ),
    StoredData("deleted_messages", expires=DELETIONS_KEPT, key="message_id"),
    StoredData("deleted_channels", expires=PEOPLE_KEPT, key="channel_id"),
    StoredData("replays", expires="record", key="id"),
    StoredData("imported_costs"),
    StoredData("positions", rest="last_id"),
    StoredData("embeddings"),  # triggers delete them with their texts
    # -- Redis, and what waits for it ----------------------------------------------------------------------------------
    StoredData(
        "agent:{name}:open", "questions waiting for an answer", place="redis", store="open turns",
        counted="questions", expires="at most a day", withheld=_SOON,
    ),
    StoredData(
        "agent:{name}:turns", "turn records: IDs, models and tools, times and costs, no text", place="redis",
        store="turn records", counted="records", expires=7 * DAY, export=_TURN,
    ),
    StoredData(
        "coordinator:summary:{channel_id}", "a model's summary of a room, with names and IDs", place="redis",
        store="room summaries", expires="30 days, or until one of its messages is deleted or hidden", withheld=_OTHERS,
    ),
    StoredData("ends of turns", place="memory", store="waiting turns", each_process=True),
    StoredData("changed topics and consents", place="memory", store="changes", each_process=True),
    StoredData(
        "coordinator:signal_people", "people on Signal: names, account IDs, and phone numbers", place="redis",
        store="chats", each_process=True, export="name number account",
        expires="until 2,000 newer ones replace them, or 90 days after the last message on Signal",
    ),
    StoredData(
        "coordinator:signal_chats", "chats and groups on Signal: IDs and names", place="redis",
        expires="like people on Signal", stays="groups only; private chats are removed",
        withheld="your phone shows them",
    ),
    _ends("coordinator:signal_vanishing", "IDs of disappearing messages on Signal", "until they disappear"),
    _ends("agent:{name}:part:{digest}", "which parts of an answer were sent on Signal (no text)", "at most a day"),
    _ends(
        "coordinator:conversation_state:{channel_id}",
        "running conversations, with the first 500 characters of people's last five messages (in a room, the last 40)",
        "an hour; a room's, while it runs (paused, it keeps only the IDs of unanswered messages, for 90 days)",
    ),
    _ends(
        "agent:{name}:turn:{turn_id}", "answers that may have to be repeated, and waiting events",
        "15 minutes after the turn's deadline, at most a day",
    ),
    _ends("coordinator:unasked:{message_id}", "IDs of people who got an unprompted message", 30 * DAY),
    _ends(
        "coordinator:unwanted:{user_id}", "IDs of people who refused unprompted messages", 30 * DAY,
        "so the refusal isn't lost",
    ),
    _ends(
        "coordinator:room:{thread_id}", "rooms: topic, rules, members, arguments, and who opened them",
        "90 days after the last change", "its turns count against the opener's budget",
    ),
    _ends(
        "coordinator:room_openings", "a room that is being opened: topic, rules, members, and who asked",
        "until the room opens, at most an hour",
    ),
    _ends(
        "coordinator:arenas", "an open arena: its question, the answers, and who asked",
        "until its result is shown, at most two days",
    ),
    _ends(
        "coordinator:proposals", "a proposed debate: its topic, and who proposed it",
        "until it begins or ends, at most two days",
    ),
    _ends(
        "coordinator:proposer:{user_id}", "that a person proposed a debate",
        "an hour after its end, at most a day",
    ),
    _ends(
        "coordinator:room_opening:{request}", "a room whose members aren't chosen yet: topic, rules, and who asked",
        "15 minutes",
    ),
    _ends(
        "agent:{name}:words", "prompts, searches, posts, and logged messages on their way to the history",
        "seconds, or a day if the history can't be written", "checked before it's saved",
    ),
    _ends(
        "coordinator:record", "other data on its way to the history",
        "seconds, or seven days if the history can't be written", "checked before it's saved",
    ),
    _ends("coordinator:budget:{date}", "each person's cost per day", 2 * DAY, _LIMIT),
    _ends("agent:{name}:memory_writes:{date}", "how often each person made a bot note something", 2 * DAY, _LIMIT),
    _ends("coordinator:mentions:{user_id}", "how often a person mentioned bots lately", "a minute", _LIMIT),
    _ends(
        "coordinator:silence", "stops and mutes, and the IDs of ignored people",
        "until someone undoes it", _ORDER, _ORDER,
    ),
    _ends(
        "coordinator:forgotten", "requests to be forgotten: IDs, times, and private chats", 30 * DAY,
        "so machines that are off now can delete their data later",
    ),
    # -- files ---------------------------------------------------------------------------------------------------------
    StoredData(
        "data/tools", "tool calls and their results", place="file", store="tool calls", each_process=True,
        counted="tool_calls", expires="until someone deletes them", withheld=_OTHERS,
    ),
    StoredData(
        "personas/{name}/memory.md", "a bot's notes about people, and ten earlier versions", place="file",
        store="notes", each_process=True, export="agent text", expires="until the bot or someone else deletes it",
    ),
    StoredData(
        "data/signal", "the keys of the Signal account, and files that people send there", place="file",
        expires="until you delete them", stays="the Signal server writes them",
    ),
    StoredData(
        "data/agent-sdk", "sessions of a coding agent", place="file", stays="they don't name who asked",
        expires="30 days, then the Claude Agent SDK deletes them",
    ),
)  # fmt: skip
RECORD: tuple[StoredData, ...] = tuple(row for row in STORED if row.place == "sqlite")


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table in docs/privacy.md, as texts: where the data are, how long, whether they stay after
    `/forget me`, and whether they are in `/privacy export`. `table.name` says what they are."""

    table: StoredData
    where: str
    expires: str
    forgotten: str
    exported: str


def inventory(settings: Settings) -> Iterator[Kind]:
    """Yield the named entries of STORED, as docs/privacy.md and `/privacy export` describe them."""

    def days(name: str, number: float | None) -> str:
        return f"`{name}` ({'no end' if number is None else f'{number:g}'})"

    record = days("RECORD_DAYS", settings.record_days)
    lasting = {
        "record": record,
        "prompts": days("RECORD_PROMPTS_DAYS", settings.record_prompts_days),
        "messages": f"{days('MESSAGE_LOG_DAYS', settings.message_log_days)}, at most `RECORD_DAYS`",
    }
    for row in (row for row in STORED if row.name):
        where = {"sqlite": "`data/record.db`", "redis": f"Redis (`{row.table}`)", "file": f"`{row.table}`"}[row.place]
        seconds = row.expires if isinstance(row.expires, float) else 0.0
        expires = f"{seconds / DAY:.0f} days" if seconds else lasting.get(str(row.expires), str(row.expires))
        is_sent = any(each.export for each in STORED if each.table == row.table)
        sent = "yes" if is_sent else f"no: {row.why_withheld}"
        yield Kind(row, where, expires, f"stays: {row.stays}" if row.stays else "removed", sent)
