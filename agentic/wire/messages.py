"""The wire, version 1: the messages between coordinator and agents over Redis pub/sub, and their tolerant parsing.

Other programs may speak it, too, so validation is lenient: unknown fields are ignored, null means missing, numbers may
be text. Fields beyond the published v1 are optional additions; v1's own fields are never renamed. Reading never raises:
errors are logged, and as much as possible is returned.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticSerializationError

from agentic.ids import MAX_ID

PROTOCOL_VERSION = 1
DEFAULT_DEADLINE_SECONDS = 90.0
MAX_WIRE_BYTES = 1_000_000
MAX_TOPIC = 200  # characters
MAX_INSTRUCTION_ID = 200  # characters; it is part of a Redis key

log = logging.getLogger(__name__)


class WireMessage(BaseModel):
    """Base of all messages: frozen, forward-compatible, nulls defaulted.

    `forgiven`: our additions, which another program may use for something else. If invalid, they are ignored.
    """

    forgiven: ClassVar[frozenset[str]] = frozenset()

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _null_means_missing(cls, data: Any) -> Any:
        if isinstance(data, dict) and None in data.values():
            return {key: value for key, value in data.items() if value is not None}
        return data

    def to_wire(self) -> str:
        try:
            return self.model_dump_json()
        except PydanticSerializationError:
            return _without_lone_surrogates(json.dumps(self.model_dump(), ensure_ascii=False))


_Id = Annotated[str, Field(min_length=1, max_length=MAX_INSTRUCTION_ID)]
_Snowflake = Annotated[int, Field(ge=0, le=MAX_ID)]
_Topic = Annotated[str, AfterValidator(lambda topic: " ".join(topic.split())[:MAX_TOPIC].rstrip())]  # for a prompt
_Round = Annotated[int, Field(ge=0, le=10**6)]
_Amount = Annotated[int, Field(ge=0, le=10**12)]
_Money = Annotated[float, Field(ge=0, le=10**6)]


class VersionedMessage(WireMessage):
    """Base of messages that are sent by themselves, not as a part of another message."""

    protocol_version: int = PROTOCOL_VERSION


class HistoryEntry(WireMessage):
    """A post of a conversation, as the coordinator recorded it.

    `text` has reactions inline, `Hot take  [reactions: 🔥 (grok)]`, and pictures as `[posted image: "prompt" → URL]`.
    """

    forgiven = frozenset({"answers_message_id"})

    agent: str
    text: str = ""
    message_id: _Snowflake | None = None
    # an addition
    answers_message_id: _Snowflake | None = None  # id of the person's newest message that it answers


class RoomBrief(WireMessage):
    """A turn's room. `turn_number`: of the post to make; an agent drops the turn if this isn't the room's number plus
    one. `closing`: the room ends after this turn. From `format` on, only rooms with a format have these fields."""

    turn_number: _Amount
    turns: _Amount = 0  # the limit
    policy: str = ""
    rules: str = ""
    members: tuple[str, ...] = ()  # displayed names, in speaking order
    names_next: bool = False  # this agent names the next speaker
    closing: bool = False
    goodbye_ends: bool = False  # a post that only says goodbye ends the room
    details: str = ""  # the topic in full, if it is long
    format: str = ""
    format_rules: str = ""  # for this agent
    side: str = ""  # this agent's: for, against, undecided, guest, moderator, or ""
    sides: tuple[str, ...] = ()  # the members', in the same order
    phase: str = ""
    phase_task: str = ""  # what this agent should do now
    phase_length: str = ""  # of its message
    ledger: tuple[str, ...] = ()  # arguments made, one a line


class Reflection(WireMessage):
    """A background task, for an instruction with the action `reflect`.

    `summarise` and `profile` post nothing: their result's text is a summary, or a person's topics, one per line.
    `follow_up` replies to the message `message_id`; `discover` posts a new message.
    """

    task: str  # summarise, profile, follow_up, discover; an open set
    person_id: _Snowflake | None = None
    person_name: str = ""
    message_id: _Snowflake | None = None
    material: str = ""  # messages of people and agents, one per line: "Name: text"
    topics: tuple[str, ...] = ()  # of the person's profile
    origins: tuple[_Snowflake, ...] = ()  # channels in which these may have come up
    avoid: tuple[str, ...] = ()  # texts of earlier unprompted messages
    message_ids: tuple[_Snowflake, ...] = ()  # of the material
    people: tuple[_Snowflake, ...] = ()  # authors of the material
    cause: str = ""  # for people who ask why


class Instruction(VersionedMessage):
    """Coordinator → agent, on `agent:{name}:instructions`: take a turn."""

    forgiven = frozenset(
        {*("topic", "requested", "room", "angle", "take_up", "questions", "chosen_because", "reflection"), "guild_id"}
    )

    instruction_id: _Id
    action: str = "decide"
    channel_id: _Snowflake
    channel_theme: str = "casual"
    round_number: _Round = 1
    conversation_id: str = ""
    conversation_history: tuple[HistoryEntry, ...] = ()
    is_conversation_starter: bool = False
    # additions
    deadline: float | None = None  # unix seconds; nothing is posted after it
    topic: _Topic | None = None  # named by the starter, or by the owner who began the conversation
    trigger_message_id: _Snowflake | None = None  # of a reactive turn: id of the person's message
    requested: bool = False  # an owner asked for this turn, so it must not be skipped
    room: RoomBrief | None = None
    angle: str | None = None  # what to bring up if the conversation repeats itself or calls for nobody
    take_up: _Snowflake | None = None  # a person's message that this turn must answer
    questions: tuple[_Snowflake, ...] = ()  # in a room: several such messages, the last of which is `take_up`
    chosen_because: str | None = None  # for people who ask why
    reflection: Reflection | None = None  # of the action "reflect"
    guild_id: _Snowflake | None = None  # of the channel's server, if the coordinator knows it


class TurnUsage(WireMessage):
    """A turn's usage. Money in US dollars."""

    model: str = ""
    calls: _Amount = 0
    input_tokens: _Amount = 0
    cached_tokens: _Amount = 0
    output_tokens: _Amount = 0
    reasoning_tokens: _Amount = 0
    searches: _Amount = 0
    pictures: _Amount = 0
    cost_usd: _Money = 0.0  # total
    picture_cost_usd: _Money = 0.0  # part of it


class Result(VersionedMessage):
    """Agent → coordinator, on `agent:{name}:results`: exactly one for each readable instruction."""

    forgiven = frozenset(
        {
            *("reason", "react_to_message_id", "image_prompt", "end_conversation", "topic", "usage"),
            *("answers_message_id", "leaves", "next_agent"),
        }
    )

    instruction_id: _Id
    agent_name: str
    skipped: bool = False
    text: str | None = None
    image_url: str | None = None
    emoji_reacted: str | None = None
    message_id: _Snowflake | None = None
    # additions
    reason: str | None = None  # why nothing was posted: "skipped", "cooldown", "daily_limit", "busy", ...
    react_to_message_id: _Snowflake | None = None
    image_prompt: str | None = None
    end_conversation: bool = False
    topic: _Topic | None = None
    usage: TurnUsage | None = None
    answers_message_id: _Snowflake | None = None  # in a conversation: id of the person's newest message that it answers
    leaves: bool = False  # in a room: this was its last word
    next_agent: str | None = None  # agent that it names as the next speaker


class MentionNotice(VersionedMessage):
    """Agent → coordinator, on `agent:{name}:results`: the agent answered a person; others may join in."""

    event: Literal["human_mention_response"] = "human_mention_response"
    agent_name: str
    channel_id: _Snowflake
    message_id: _Snowflake | None = None
    trigger_message_id: _Snowflake | None = None


class PersonNotice(VersionedMessage):
    """Agent → coordinator, on `coordinator:activity`: a person wrote in a channel. Several processes may send the same
    notice. `text`: the message's beginning. `calls`: it calls an agent, which answers anyway. `asks`: it asks
    something, or people reacted to it."""

    forgiven = frozenset({"asks"})

    channel_id: _Snowflake
    message_id: _Snowflake
    text: str = ""
    names: tuple[str, ...] = ()  # agents that it names
    replied_to: str | None = None  # agent that it replies to
    calls: bool = False
    called: tuple[str, ...] = ()  # agents that it mentions or replies to
    asks: bool = False
    at: float = 0.0  # unix seconds


class CancelNotice(VersionedMessage):
    """Coordinator → every process, on `coordinator:cancels`: a person wrote, so this background task's turn ends."""

    agent_name: str
    instruction_id: _Id


class RoomNotice(VersionedMessage):
    """Coordinator → every process, on `coordinator:room_notices`: the room in `coordinator:room:{thread_id}` has
    changed."""

    thread_id: _Snowflake


class RoomOrder(WireMessage):
    """The part of a Command that is about a room. `room`, for `room-open`, is the whole Room as JSON."""

    forgiven = frozenset({"turns", "message_id", "gone", "ledger", "deleted"})

    room: str | None = None
    reason: str | None = None  # of `room-pause`: archived, locked, deleted, no_access, asked
    turns: _Amount | None = None  # of `room-resume`: how many more
    member: str | None = None  # of `room-add`: the RoomMember as JSON
    message_id: _Snowflake | None = None  # of `room-next`: a person's message that calls the member
    gone: tuple[str, ...] = ()  # of `room-resume`, `room-remove`: members whose personas were deleted
    ledger: tuple[str, ...] = ()  # of `room-ledger`: the arguments made so far
    deleted: tuple[_Snowflake, ...] = ()  # of `room-withdraw`: messages that were deleted


class Command(VersionedMessage):
    """Owner or console → coordinator, on `coordinator:commands`. `command` is an open set; unknown ones are logged."""

    command: str
    channel_id: _Snowflake | None = None
    theme: str | None = None
    agent_name: str | None = None
    command_id: str | None = None  # asks for a CommandOutcome with this id
    topic: _Topic | None = None  # of the conversation to start
    at: float | None = None  # unix seconds: a scheduled time
    to: float | None = None  # unix seconds: a scheduled time's new value
    room: RoomOrder | None = None  # of the commands `room-…`


class CommandOutcome(VersionedMessage):
    """Coordinator → the sender of a command with an id, on `coordinator:outcomes`. `outcome` is an open set."""

    command_id: _Id
    outcome: str
    channel_id: int | None = None


class SilenceNotice(VersionedMessage):
    """To every process, on `coordinator:silence_notices`: a person silenced a scope, or, with `until` 0, resumed it.
    With `person_id`: they cancel the replies to themselves in a channel instead."""

    scope: str
    until: float = 0.0  # unix seconds
    at: float | None = None  # unix seconds of the person's order
    source: str = ""
    person_id: int | None = None


class TurnNotice(VersionedMessage):
    """To observers, on `coordinator:turns`: an agent's turn began or ended. The notice of its end may be lost. With
    `ahead`, a turn that began waits for a busy model: so many calls are ahead of it, or none any more."""

    agent_name: str
    turn_id: str
    channel_id: int
    state: str  # began, ended; an open set
    at: float  # unix seconds
    conversation_id: str | None = None
    ahead: int | None = None


class LiveOptionNotice(VersionedMessage):
    """To every process, on `coordinator:live_option_notices`: an option was set or unset with /config."""


class ForgetNotice(VersionedMessage):
    """To every process, on `coordinator:forgets`: there is a new request to forget a person."""


class ResetNotice(VersionedMessage):
    """To every process, on `coordinator:resets`: agents no longer see a channel's messages up to this one."""

    channel_id: int
    message_id: int
    agents: tuple[str, ...]


W = TypeVar("W", bound=WireMessage)


@dataclass(frozen=True, slots=True)
class UnreadableInstruction:
    """An instruction of which only the id could be read. It gets a skipped result with this reason."""

    instruction_id: str
    reason: str


def read(model: type[W], raw: bytes | str) -> W | None:
    """Read a message; None, after a warning, if it is invalid."""
    data = _decode(raw, model)
    return None if data is None else _validate(model, data)


def read_instruction(raw: bytes | str) -> Instruction | UnreadableInstruction | None:
    """Read a message of an instructions channel; None if it has no id to answer to."""
    data = _decode(raw, Instruction)
    if data is None:
        return None
    instruction = _validate(Instruction, data)
    if instruction is not None:
        return instruction
    instruction_id = data.get("instruction_id")
    if isinstance(instruction_id, (str, int)) and not isinstance(instruction_id, bool) and str(instruction_id):
        return UnreadableInstruction(str(instruction_id)[:MAX_INSTRUCTION_ID], "invalid")
    return None


def read_result(raw: bytes | str) -> Result | MentionNotice | None:
    """Read a message of a results channel; None if it is invalid or of another kind."""
    data = _decode(raw, Result)
    if data is None:
        return None
    if "event" not in data:
        return _validate(Result, data)
    if data["event"] == "human_mention_response":
        return _validate(MentionNotice, data)
    log.debug("unknown event %.40r on a results channel ignored", data["event"])
    return None


def _without_lone_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can have, but which can't be encoded."""
    return text.encode("utf-8", "replace").decode()


def _kind(model: type[WireMessage]) -> str:
    """Return the kind of a message for the log: SilenceNotice → "silence notice"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__).lower()


def _decode(raw: bytes | str, model: type[WireMessage]) -> dict[str, Any] | None:
    """Decode a JSON object of this protocol version; None, after a warning, if it isn't one."""
    if len(raw) > MAX_WIRE_BYTES:
        log.warning("%s dropped: %d bytes is over the limit of %d", _kind(model), len(raw), MAX_WIRE_BYTES)
        return None
    text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
    try:
        data = json.loads(text)
        if "\\u" in text:
            data = json.loads(_without_lone_surrogates(json.dumps(data, ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        log.warning("%s dropped: not JSON (%s)", _kind(model), type(error).__name__)
        return None
    if not isinstance(data, dict):
        log.warning("%s dropped: expected a JSON object, not a %s", _kind(model), type(data).__name__)
        return None
    if (version := data.get("protocol_version")) is None:
        version = PROTOCOL_VERSION
    if isinstance(version, bool) or version not in (PROTOCOL_VERSION, str(PROTOCOL_VERSION)):
        unknown = "%s dropped: protocol version %.20r, this program speaks %d"
        log.warning(unknown, _kind(model), version, PROTOCOL_VERSION)
        return None
    return data


def _validate(model: type[W], data: dict[str, Any]) -> W | None:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        wrong = {str(e["loc"][0]) if e["loc"] else "message" for e in error.errors()}
        fields = ", ".join(sorted({".".join(map(str, e["loc"])) or "message" for e in error.errors()})[:5])
        if wrong <= model.forgiven:
            log.warning("%s read without its invalid fields: %s", _kind(model), fields)
            return model.model_validate({key: value for key, value in data.items() if key not in wrong})
        log.warning("%s dropped: wrong or missing %s", _kind(model), fields)
        return None
