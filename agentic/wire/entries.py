"""The entries of the record, as they travel in Redis streams to the recorder (agentic.record).

| stream | carries | one entry has |
| --- | --- | --- |
| `agent:{name}:turns` | TurnRecord (agentic/state/turn_records.py), no words | `record`: JSON, `n` |
| `agent:{name}:words` | entries with words, those of WORDS below | `kind`, `data`: JSON, `n`, and the bytes `blob` |
| `coordinator:record` | the notes, those of NOTES below | `kind`, `data`: JSON, `n` |

`blob` has the words of a call in the record's format, or a picture. A call's `data` is compressed by zstd. Earlier
versions wrote `data` of words as base64 of zlib of JSON, without a `blob`.

`n` numbers a stream's entries from 1, so a reader sees how many were dropped. Every entry has an id of its own, so it
may be written and read twice. Streams have no common order: a deletion may be read before words that quote the deleted
message. Fields may be added but never renamed; a reader skips an unknown `kind`. Ids are Discord snowflakes unless
stated otherwise, times are unix seconds, money is in US dollars.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MAX_TOPICS = 30  # of a profile
TOPIC_CHARACTERS = 80

_BULLET = re.compile(r"^\s*(?:[-*•–]+|\d{1,2}[.)](?=\s))")
_AROUND = " .,;*_`\"'"

log = logging.getLogger(__name__)


class StoredValue(BaseModel):
    """Base of JSON values in Redis: frozen, ignoring fields that another version added."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, text: str | bytes | None) -> Self | None:
        """Read JSON. Returns None without a text and, after a warning, if another version wrote it."""
        try:
            return cls.model_validate_json(text) if text else None
        except ValidationError as error:
            log.warning("skipping a stored %s that can't be read: %d errors", cls.__name__, error.error_count())
            return None


class Entry(StoredValue):
    """Base of all entries."""

    def to_json(self) -> str:
        return self.model_dump_json(exclude_defaults=True)


class Phases(Entry):
    """A turn's seconds, by what it waited for."""

    waiting: float = 0.0  # in its lane, and for limits
    context: float = 0.0
    model: float = 0.0
    tools: float = 0.0
    posting: float = 0.0  # including pictures


class CallRecord(Entry):
    """A turn's call of a model. `input_tokens` includes cached tokens, `output_tokens` reasoning.

    Kinds: `text`; `picture`; `gate`, a cheap model that decides whether to speak; `summary` of older messages;
    `profile`, a person's topics; `card`, at the end of a room; `ledger`, a room's arguments; `judge`, a room's
    verdict. In a resumed turn, the last call, "interrupted", has the sums of the calls before the interruption.
    """

    n: int  # its place in the turn, from 0
    kind: str = "text"
    model: str = ""  # provider/model
    at: float = 0.0  # start
    seconds: float = 0.0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    searches: int = 0
    cost_usd: float = 0.0
    error: str | None = None  # the kind of error, such as RateLimited or TimedOut; "cancelled"; "interrupted"


class ToolCallRecord(Entry):
    """A turn's call of a tool. Its arguments and result are in the words of the model's next call."""

    n: int
    name: str
    at: float = 0.0
    seconds: float = 0.0
    characters: int = 0  # of the result
    error: bool = False


class HistoryMessage(Entry):
    """A message of a prompt's history, like agentic.llm.types.Message."""

    role: str
    text: str
    pictures: int = 0  # how many it had; they aren't recorded
    cache: bool = False


class OfTurn(Entry):
    """Base of the words of a turn."""

    agent: str
    turn_id: str
    channel_id: int
    at: float


class OfCall(OfTurn):
    """A call's fields that the recorder needs.

    `quoted`: message id → author's id (None: an agent), for the messages in the prompt. For a person's words that
    aren't in a message, such as an agent's note about them, the key is minus the person's id.
    """

    n: int  # CallRecord.n
    quoted: dict[int, int | None] = {}
    asked_by: int | None = None  # the person whose budget the turn is charged to


class CallWords(OfCall):
    """The words of a call: the whole agentic.llm.types.Prompt, so that the call can be repeated, and the completion.

    `stable` and `cache` mark the part that a provider caches. `persona` is the persona's exact part of `system`, so
    that a replay can replace it. `reasoning` is what the provider returned of it. `decision`: the parsed decision, if
    this call gave it.
    """

    model: str = ""  # provider/model
    system: str = ""
    stable: int = 0
    persona: str = ""
    history: tuple[HistoryMessage, ...] = ()
    text: str = ""
    prefill: str | None = None
    options: dict[str, Any] = {}  # the other fields of Prompt: schema, search, temperature, tools, rounds, labels, …
    completion: str = ""
    reasoning: str = ""
    stop: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()  # name and arguments
    decision: dict[str, Any] | None = None
    error: str | None = None


class PackedCall(OfCall):
    """A call as it is stored, with `words` that the recorder stores unread: zstd of the JSON of CallWords without
    `quoted`."""

    words: bytes = Field(b"", exclude=True)


class FoundPage(Entry):
    """A page that a search found."""

    title: str = ""
    url: str = ""


class SearchWords(OfTurn):
    """A web search with the tool web_search. `n` is that of its ToolCallRecord."""

    n: int
    seconds: float = 0.0
    query: str = ""
    pages: tuple[FoundPage, ...] = ()
    error: bool = False


class PostWords(OfTurn):
    """A message that an agent posted. The picture has been scaled down."""

    message_id: int
    text: str = ""
    answers_message_id: int | None = None
    picture: bytes | None = Field(None, exclude=True)
    media_type: str | None = None


class RoomMessage(Entry):
    """A message in a room's thread. `author`: person, agent. `agent` is the author's key if it is an agent."""

    message_id: int
    author: str
    author_id: int | None = None  # a person's
    agent: str | None = None
    name: str = ""
    text: str = ""
    at: float = 0.0


class RoomWords(Entry):
    """Messages that an agent read in a room's thread and that are new, or were edited since they were recorded."""

    agent: str
    thread_id: int
    at: float
    messages: tuple[RoomMessage, ...] = ()


class ConversationNote(Entry):
    """A conversation among agents that began or got its topic (without `ended_at`), or ended (with all fields)."""

    id: str
    channel_id: int
    theme: str
    starter: str = ""
    topic: str | None = None
    policy: str = "rounds"
    started_at: float
    ended_at: float | None = None
    ended_because: str | None = None
    rounds: int = 0
    messages: int = 0
    skips: int = 0
    cost_usd: float = 0.0


class RoomNote(Entry):
    """A room (agentic/state/rooms.py) after it was opened or changed."""

    thread_id: int
    channel_id: int
    guild_id: int | None = None
    conversation_id: str
    topic: str
    details: str = ""  # the topic in full, if it is longer
    policy: str
    format: str = "open"
    members: tuple[str, ...] = ()  # agents' keys
    sides: dict[str, str] = Field(default_factory=dict)  # of members that have one
    ledger: tuple[str, ...] = ()  # arguments made, one a line
    left: tuple[str, ...] = ()
    status: str
    why: str | None = None
    turns: int = 0  # the limit
    turn_number: int = 0
    opened_by: int | None = None
    opened_at: float
    changed_at: float
    rules: str = ""


class RoomConclusion(Entry):
    """What came of a room when it closed last. `card`: as it was posted in the thread, without the mark that hides it
    from bots. `judge`: a bot's name or a model. It is made of the posts `message_ids`, and `people` wrote in the
    thread, too. `closed_at` is the room's `changed_at`."""

    thread_id: int
    channel_id: int
    guild_id: int | None = None
    topic: str
    card: str = ""
    arguments: tuple[str, ...] = ()
    agreed: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    judge: str = ""
    verdict: str = ""
    message_ids: tuple[int, ...] = ()
    people: tuple[int, ...] = ()
    closed_at: float = 0.0
    at: float


class Contender(Entry):
    """An agent in a contest, with people's `votes`. In a room it may have a side, the judge's `score` from 0 to 10, and
    the number of people who came over to it in the room's polls, less those who left it (`moved`)."""

    agent: str
    model: str = ""  # provider/model
    votes: int = 0
    side: str = ""
    score: float | None = None
    moved: int | None = None


class ContestNote(Entry):
    """People's votes on agents, in an arena or at the end of a room. `question`: the prompt, or the room's topic."""

    id: str  # opaque, unique
    kind: str  # arena, room; an open set
    at: float
    channel_id: int
    question: str = ""
    asked_by: int | None = None
    contenders: tuple[Contender, ...] = ()


class ReactionNote(Entry):
    """A reaction to an agent's post that was added, or removed (`given` false). `user_id` may be an agent's."""

    message_id: int
    channel_id: int
    user_id: int
    emoji: str
    at: float
    given: bool = True


class DeletionNote(Entry):
    """Messages that were deleted in the chat, whose words are deleted from the record, too. `whole`: the whole channel
    or thread was deleted, with these and all other messages. `room`: a room was deleted, whose thread may still be
    there; its turns stay with their costs."""

    channel_id: int
    message_ids: tuple[int, ...]
    at: float
    whole: bool = False
    room: bool = False


class ActionNote(Entry):
    """An action of an owner or moderator, in the console or with a slash command."""

    id: str  # opaque, unique
    at: float
    by: str  # "console", or the person's Discord id
    action: str  # start, stop, resume, next, pause, mute, unmute, raise_budget, move, replay …
    channel_id: int | None = None
    agent: str | None = None
    detail: str = ""
    outcome: str = ""


class ReplayNote(Entry):
    """The cost of a replay: calls of an agent's model outside its turns. The script that charges it adds it."""

    id: str  # opaque, unique
    at: float
    day: str  # YYYY-MM-DD that it was charged to
    agent: str
    model: str = ""  # provider/model
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class LoggedMessage(Entry):
    """The current text of a message in a logged channel. `author`: person, agent, stranger. It is recorded again after
    an edit, and perhaps by several processes."""

    message_id: int
    channel_id: int
    guild_id: int | None = None  # on another service the group's number; None in a private chat
    service: str = "discord"  # discord, signal; an open set
    author: str
    author_id: int | None = None  # a person's, or a stranger's
    agent: str | None = None  # the author's key, if it is an agent
    name: str = ""
    text: str = ""
    reply_to: int | None = None  # the message that it answers: its parent in a reply chain
    at: float = 0.0  # sent
    read_at: float = 0.0  # when it had this text


class SummaryNote(Entry):
    """A summary of a reply chain up to and including `message_id`. It is made of `message_ids`, by the authors
    `people`."""

    message_id: int
    channel_id: int
    agent: str  # whose model wrote it
    text: str
    message_ids: tuple[int, ...] = ()
    people: tuple[int, ...] = ()
    at: float


class ProfileNote(Entry):
    """Topics that a person talks about. `by`: model, person. `upto`: the newest of their messages that it is based on;
    `message_ids`: messages that a model has just read. `deleted`: the person deleted the profile, and messages up to
    then aren't read for another one."""

    user_id: int
    name: str = ""
    topics: tuple[str, ...] = ()
    by: str = "model"
    upto: int = 0
    message_ids: tuple[int, ...] = ()
    deleted: bool = False
    at: float


class ConsentNote(Entry):
    """Whether a person wants unprompted messages. `because`: command, 🔕, console; an open set."""

    user_id: int
    unasked: bool
    because: str = ""
    at: float


class UnaskedNote(Entry):
    """An agent's unprompted message, its cause, and the person that it is for."""

    message_id: int
    agent: str
    task: str  # follow_up, discover
    channel_id: int
    person_id: int | None = None
    cause: str = ""
    text: str = ""
    at: float


NOTES: dict[str, type[Entry]] = {
    "conversation": ConversationNote,
    "reaction": ReactionNote,
    "deletion": DeletionNote,
    "action": ActionNote,
    "replay": ReplayNote,
    "room": RoomNote,
    "conclusion": RoomConclusion,
    "contest": ContestNote,
    "consent": ConsentNote,
}
WORDS: dict[str, type[Entry]] = {
    "call": PackedCall,
    "search": SearchWords,
    "post": PostWords,
    "room_messages": RoomWords,
    "message": LoggedMessage,
    "summary": SummaryNote,
    "profile": ProfileNote,
    "unasked": UnaskedNote,
}


def topics_in(text: str) -> tuple[str, ...]:
    """Return the topics in a text, one per line, without bullets, surrounding punctuation, and duplicates."""
    topics: dict[str, str] = {}
    for line in text.splitlines():
        topic = " ".join(_BULLET.sub("", line).split()).strip(_AROUND)
        if topic:
            topics.setdefault(topic.casefold(), topic)
    return tuple(topics.values())
