"""The entries of the record, as they travel in Redis streams to the recorder (agentic.record).

| stream | carries | one entry has |
| --- | --- | --- |
| `agent:{name}:turns` | TurnRecord (agentic/state/turn_records.py), no words | `record`: JSON, `n` |
| `agent:{name}:words` | entries with words, those of WORDS below | `kind`, `data`: JSON, `n`, and the bytes `blob` |
| `coordinator:record` | the notes, those of NOTES below | `kind`, `data`: JSON, `n` |

`blob` has the words of a call as the file keeps them, or a picture. Earlier versions wrote `data` of words as base64 of
zlib of JSON, without a `blob`.

`n` counts the entries of a stream from 1, so a reader sees how many a bound has dropped. Every entry has an id of its
own, so it may be written and read twice. Streams have no order among them: a deletion may be read before words that
quote the deleted message. Fields may be added, none is renamed; a reader skips a `kind` that it does not know. Ids are
Discord's snowflakes unless stated otherwise, times are unix seconds, money is in US dollars.
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
    """Base of JSON values in Redis: frozen, and without what another version added."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, text: str | bytes | None) -> Self | None:
        """Read JSON; None without a text, and, after a warning, if another version wrote it."""
        try:
            return cls.model_validate_json(text) if text else None
        except ValidationError as error:
            log.warning("a stored %s cannot be read and is skipped: %d errors", cls.__name__, error.error_count())
            return None


class Entry(StoredValue):
    """Base of all entries."""

    def to_json(self) -> str:
        return self.model_dump_json(exclude_defaults=True)


class Phases(Entry):
    """The seconds of a turn, by what it waited for."""

    waiting: float = 0.0  # in its lane, and for its limits
    context: float = 0.0
    model: float = 0.0
    tools: float = 0.0
    posting: float = 0.0  # pictures included


class CallRecord(Entry):
    """One call of a model, of a turn. `input_tokens` includes cached ones, `output_tokens` reasoning.

    Its kind: `text`; `picture`; `gate`, a cheap model that says whether to speak; `summary` of older messages;
    `profile`, a person's topics; `card`, at the end of a room.

    The last one of a turn that was resumed, "interrupted", has the sums of the calls before that.
    """

    n: int  # 0, 1, …: its place in the turn
    kind: str = "text"
    model: str = ""  # provider/model
    at: float = 0.0  # when it was made
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
    """One call of a tool, of a turn. Its arguments and result are in the words of the model's next call."""

    n: int
    name: str
    at: float = 0.0
    seconds: float = 0.0
    characters: int = 0  # of the result
    error: bool = False


class HistoryMessage(Entry):
    """A message of a prompt's history, as agentic.llm.types.Message."""

    role: str
    text: str
    pictures: int = 0  # how many went with it; they are not recorded
    cache: bool = False


class CallWords(Entry):
    """The words of one call: everything that agentic.llm.types.Prompt had, so that the call can be made again.

    `stable` and `cache` mark the part that a provider caches. `persona` is the persona's part of `system`, to the
    byte, so that a replay can put another one there. `decision` is the parsed decision if this call gave it.

    `quoted`: the messages that the prompt contains, with their authors, None for an agent. Words of a person that are
    in no message, such as an agent's note of them, have minus the person's id instead of a message's.
    """

    agent: str
    turn_id: str
    n: int  # CallRecord.n
    channel_id: int
    at: float
    model: str = ""  # provider/model
    system: str = ""
    stable: int = 0
    persona: str = ""
    history: tuple[HistoryMessage, ...] = ()
    text: str = ""
    prefill: str | None = None
    options: dict[str, Any] = {}  # the other fields of Prompt: schema, search, temperature, tools, rounds, labels, …
    completion: str = ""
    stop: str = ""
    tool_calls: tuple[dict[str, Any], ...] = ()  # name and arguments
    decision: dict[str, Any] | None = None
    error: str | None = None
    quoted: dict[int, int | None] = {}
    asked_by: int | None = None  # the person on whose account the turn was


class PackedCall(Entry):
    """The words of one call on their way to the file: what the recorder must know, and `words`, which it stores as they
    are: zstd of the JSON of CallWords without `quoted`."""

    agent: str
    turn_id: str
    n: int
    channel_id: int
    at: float
    quoted: dict[int, int | None] = {}
    asked_by: int | None = None
    words: bytes = Field(b"", exclude=True)


class FoundPage(Entry):
    """A page that a search found."""

    title: str = ""
    url: str = ""


class SearchWords(Entry):
    """A search of the web by the tool web_search. `n` is that of its ToolCallRecord."""

    agent: str
    turn_id: str
    n: int
    channel_id: int
    at: float
    seconds: float = 0.0
    query: str = ""
    pages: tuple[FoundPage, ...] = ()
    error: bool = False


class PostWords(Entry):
    """A message that an agent posted. A picture is scaled down before it gets here."""

    agent: str
    turn_id: str
    message_id: int
    channel_id: int
    at: float
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
    """Messages that an agent read in a room's thread: those that are new, or were edited since they were noted."""

    agent: str
    thread_id: int
    at: float
    messages: tuple[RoomMessage, ...] = ()


class ConversationNote(Entry):
    """A conversation of the agents that began or got its topic (without `ended_at`), or ended (with all fields)."""

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
    """A room as it is now (agentic/state/rooms.py): when it was opened, and after each change."""

    thread_id: int
    channel_id: int
    guild_id: int | None = None
    conversation_id: str
    topic: str
    policy: str
    members: tuple[str, ...] = ()  # agents' keys
    left: tuple[str, ...] = ()
    status: str
    why: str | None = None
    turns: int = 0  # the limit
    turn_number: int = 0
    opened_by: int | None = None
    opened_at: float
    changed_at: float


class Contender(Entry):
    """An agent in a contest. `votes` are people's."""

    agent: str
    model: str = ""  # provider/model
    votes: int = 0


class ContestNote(Entry):
    """Votes of people on agents: of an arena, or of a room at its end. `question`: the prompt, or the room's topic."""

    id: str  # opaque, unique
    kind: str  # arena, room; an open set
    at: float
    channel_id: int
    question: str = ""
    asked_by: int | None = None
    contenders: tuple[Contender, ...] = ()


class ReactionNote(Entry):
    """A reaction to an agent's post that was given, or taken back (`given` false). `user_id` may be an agent's."""

    message_id: int
    channel_id: int
    user_id: int
    emoji: str
    at: float
    given: bool = True


class DeletionNote(Entry):
    """Messages that were deleted in Discord: their words go from the record too. `whole`: the channel or thread was
    deleted, with these messages and all its others."""

    channel_id: int
    message_ids: tuple[int, ...]
    at: float
    whole: bool = False


class ActionNote(Entry):
    """An action of an owner or moderator, by the console or a slash command."""

    id: str  # opaque, unique
    at: float
    by: str  # "console", or the person's Discord id
    action: str  # start, stop, resume, next, pause, mute, unmute, raise_budget, move, replay …
    channel_id: int | None = None
    agent: str | None = None
    detail: str = ""
    outcome: str = ""


class ReplayNote(Entry):
    """The cost of a replay: calls of an agent's model outside of its turns. It is added by the script that books it."""

    id: str  # opaque, unique
    at: float
    day: str  # YYYY-MM-DD: the one whose budget it used
    agent: str
    model: str = ""  # provider/model
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class LoggedMessage(Entry):
    """A message in a channel whose messages are logged, as it reads now. `author`: person, agent, stranger. A process
    notes it again when it was edited, several processes may note the same one."""

    message_id: int
    channel_id: int
    guild_id: int | None = None  # of a group on another service the group's own number; None in a chat with one person
    service: str = "discord"  # discord, signal; an open set
    author: str
    author_id: int | None = None  # a person's, or a stranger's
    agent: str | None = None  # the author's key, if it is an agent
    name: str = ""
    text: str = ""
    reply_to: int | None = None  # the message that it answers: its parent in a reply chain
    at: float = 0.0  # when it was sent
    read_at: float = 0.0  # when it read so


class SummaryNote(Entry):
    """A summary of a reply chain, up to and with the message `message_id`. `message_ids` are those that it is made of,
    `people` their authors."""

    message_id: int
    channel_id: int
    agent: str  # whose model made it
    text: str
    message_ids: tuple[int, ...] = ()
    people: tuple[int, ...] = ()
    at: float


class ProfileNote(Entry):
    """Topics that a person talks about. `by`: model, person. `upto` is the newest message of theirs that it knows,
    `message_ids` those that a model has just read. Without topics it is empty; `deleted`: the person removed it, and
    messages up to then are not read for another one."""

    user_id: int
    name: str = ""
    topics: tuple[str, ...] = ()
    by: str = "model"
    upto: int = 0
    message_ids: tuple[int, ...] = ()
    deleted: bool = False
    at: float


class ConsentNote(Entry):
    """Whether a person wants messages that nobody asked for. `because`: command, 🔕, console; an open set."""

    user_id: int
    unasked: bool
    because: str = ""
    at: float


class UnaskedNote(Entry):
    """A message that an agent posted unprompted, and why. `person_id` is the person that it is for."""

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
    """The topics of a text, each once, without bullets and what stands around them. Their count and length are free."""
    topics: dict[str, str] = {}
    for line in text.splitlines():
        topic = " ".join(_BULLET.sub("", line).split()).strip(_AROUND)
        if topic:
            topics.setdefault(topic.casefold(), topic)
    return tuple(topics.values())
