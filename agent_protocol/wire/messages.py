"""The wire, version 1: what the coordinator and the agents say to each other over Redis pub/sub.

Anyone may speak it, so reading is lenient (unknown fields ignored, a null is the same as a missing field, numbers may
come as text) and never raises: `read_instruction` and `read_result` log a warning and return what could be made of the
message. Fields beyond the published v1 are optional additions; none of v1's own is ever renamed.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

PROTOCOL_VERSION = 1
DEFAULT_DEADLINE_SECONDS = 90.0
MAX_WIRE_BYTES = 1_000_000
MAX_ID = 2**63 - 1  # Discord's ids; what is beyond is no message's and no channel's
MAX_TOPIC = 200  # characters
MAX_INSTRUCTION_ID = 200  # characters: it is part of a Redis key

log = logging.getLogger(__name__)


class WireMessage(BaseModel):
    """Base of everything on the wire: frozen, forward-compatible, nulls defaulted.

    `forgiven` are additions of ours that another maker may use for something else: unreadable, they count as missing.
    """

    forgiven: ClassVar[frozenset[str]] = frozenset()

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _null_means_missing(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: _encodable(value) for key, value in data.items() if value is not None}
        return data

    def to_wire(self) -> str:
        return self.model_dump_json()


def _encodable(value: Any) -> Any:
    """Half an emoji (JSON can hold a lone surrogate, as can a model's text) would fail whoever writes it on."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and not value.isascii() else value


_Id = Annotated[str, Field(min_length=1, max_length=MAX_INSTRUCTION_ID)]
_Snowflake = Annotated[int, Field(ge=0, le=MAX_ID)]
_Topic = Annotated[str, AfterValidator(lambda topic: " ".join(topic.split())[:MAX_TOPIC].rstrip())]  # for a prompt
_Round = Annotated[int, Field(ge=0, le=10**6)]
_Amount = Annotated[int, Field(ge=0, le=10**12)]
_Money = Annotated[float, Field(ge=0, le=10**6)]


class HistoryEntry(WireMessage):
    """One line of a conversation as the coordinator recorded it.

    `text` carries reactions inline, `Hot take  [reactions: 🔥 (grok)]`, and pictures as entries,
    `[posted image: "prompt" → URL]`.
    """

    agent: str
    text: str = ""
    message_id: _Snowflake | None = None


class Instruction(WireMessage):
    """Coordinator → agent, on `agent:{name}:instructions`: take a turn."""

    forgiven = frozenset({"topic"})

    protocol_version: int = PROTOCOL_VERSION
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
    topic: _Topic | None = None  # what the starter named
    trigger_message_id: _Snowflake | None = None  # set on a reactive turn: the person's message that brought it about


class TurnUsage(WireMessage):
    """What one turn consumed, for summaries; money in US dollars."""

    model: str = ""
    calls: _Amount = 0
    input_tokens: _Amount = 0
    cached_tokens: _Amount = 0
    output_tokens: _Amount = 0
    reasoning_tokens: _Amount = 0
    searches: _Amount = 0
    pictures: _Amount = 0
    cost_usd: _Money = 0.0  # all of it
    picture_cost_usd: _Money = 0.0  # of it, for pictures


class Result(WireMessage):
    """Agent → coordinator, on `agent:{name}:results`: exactly one for each readable instruction."""

    forgiven = frozenset({"reason", "react_to_message_id", "image_prompt", "end_conversation", "topic", "usage"})

    protocol_version: int = PROTOCOL_VERSION
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


class MentionNotice(WireMessage):
    """Agent → coordinator, on `agent:{name}:results`: a person was answered; others may want to join in."""

    protocol_version: int = PROTOCOL_VERSION
    event: Literal["human_mention_response"] = "human_mention_response"
    agent_name: str
    channel_id: _Snowflake
    message_id: _Snowflake | None = None
    trigger_message_id: _Snowflake | None = None


class Command(WireMessage):
    """Owner or console → coordinator, on `coordinator:commands`. `command` is an open set; unknown ones are logged."""

    protocol_version: int = PROTOCOL_VERSION
    command: str
    channel_id: _Snowflake | None = None
    theme: str | None = None
    agent_name: str | None = None
    command_id: str | None = None  # who gives one is told the outcome


class CommandOutcome(WireMessage):
    """Coordinator → who gave a command an id, on `coordinator:outcomes`. `outcome` is an open set."""

    protocol_version: int = PROTOCOL_VERSION
    command_id: _Id
    outcome: str
    channel_id: int | None = None


class StopNotice(WireMessage):
    """To every process, on `coordinator:stops`: a person stopped a channel, or (without `until`) lifted the stop."""

    protocol_version: int = PROTOCOL_VERSION
    channel_id: _Snowflake
    until: float | None = None  # unix seconds
    at: float | None = None  # when the person said so


class HushNotice(WireMessage):
    """To every process, on `coordinator:hushes`: the turns that answer this person there end, by their own wish."""

    protocol_version: int = PROTOCOL_VERSION
    channel_id: int
    user_id: int


class IgnoreNotice(WireMessage):
    """To every process, on `coordinator:ignores`: whether the bots hear a person."""

    protocol_version: int = PROTOCOL_VERSION
    user_id: int
    ignored: bool


class ForgetNotice(WireMessage):
    """To every process, on `coordinator:forgets`: somebody wants to be forgotten; who it is stands in the orders."""

    protocol_version: int = PROTOCOL_VERSION


class ResetNotice(WireMessage):
    """To every process, on `coordinator:resets`: what agents no longer see of a channel, up to that message."""

    protocol_version: int = PROTOCOL_VERSION
    channel_id: int
    message_id: int
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnreadableInstruction:
    """Version and id could be read and nothing else: owed one skipped result with this reason."""

    instruction_id: str
    reason: str


W = TypeVar("W", bound=WireMessage)


def _decode(raw: bytes | str, what: str) -> dict[str, Any] | None:
    """JSON object of a version that we speak, or None after one warning."""
    if len(raw) > MAX_WIRE_BYTES:
        log.warning("%s dropped: %d bytes is over the limit of %d", what, len(raw), MAX_WIRE_BYTES)
        return None
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        log.warning("%s dropped: not JSON (%s)", what, type(error).__name__)
        return None
    if not isinstance(data, dict):
        log.warning("%s dropped: a JSON %s where an object was expected", what, type(data).__name__)
        return None
    version = data.get("protocol_version")
    if version is None:
        version = PROTOCOL_VERSION
    if isinstance(version, bool) or version not in (PROTOCOL_VERSION, str(PROTOCOL_VERSION)):
        log.warning("%s dropped: protocol version %.20r, this program speaks %d", what, version, PROTOCOL_VERSION)
        return None
    return data


def _validate(model: type[W], data: dict[str, Any], what: str) -> W | None:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        wrong = {str(e["loc"][0]) if e["loc"] else "message" for e in error.errors()}
        fields = ", ".join(sorted({".".join(map(str, e["loc"])) or "message" for e in error.errors()})[:5])
        if wrong <= model.forgiven:
            log.warning("%s read without %s, which is not as expected", what, fields)
            return model.model_validate({key: value for key, value in data.items() if key not in wrong})
        log.warning("%s dropped: wrong or missing %s", what, fields)
        return None


def read_instruction(raw: bytes | str) -> Instruction | UnreadableInstruction | None:
    """What came on an instructions channel; None when not even an id to answer to could be read."""
    data = _decode(raw, "instruction")
    if data is None:
        return None
    instruction = _validate(Instruction, data, "instruction")
    if instruction is not None:
        return instruction
    instruction_id = data.get("instruction_id")
    if isinstance(instruction_id, (str, int)) and not isinstance(instruction_id, bool) and str(instruction_id):
        return UnreadableInstruction(str(instruction_id)[:MAX_INSTRUCTION_ID], "invalid")
    return None


def read_result(raw: bytes | str) -> Result | MentionNotice | None:
    """What came on a results channel; None for anything that is neither."""
    data = _decode(raw, "result")
    if data is None:
        return None
    if "event" in data:
        if data["event"] == "human_mention_response":
            return _validate(MentionNotice, data, "mention notice")
        log.debug("event %.40r on a results channel is not known here", data["event"])
        return None
    return _validate(Result, data, "result")


def read_command(raw: bytes | str) -> Command | None:
    data = _decode(raw, "command")
    return None if data is None else _validate(Command, data, "command")


def read_stop(raw: bytes | str) -> StopNotice | None:
    data = _decode(raw, "stop notice")
    return None if data is None else _validate(StopNotice, data, "stop notice")


def read_hush(raw: bytes | str) -> HushNotice | None:
    data = _decode(raw, "hush notice")
    return None if data is None else _validate(HushNotice, data, "hush notice")


def read_ignore(raw: bytes | str) -> IgnoreNotice | None:
    data = _decode(raw, "ignore notice")
    return None if data is None else _validate(IgnoreNotice, data, "ignore notice")


def read_reset(raw: bytes | str) -> ResetNotice | None:
    data = _decode(raw, "reset notice")
    return None if data is None else _validate(ResetNotice, data, "reset notice")


def read_outcome(raw: bytes | str) -> CommandOutcome | None:
    data = _decode(raw, "command outcome")
    return None if data is None else _validate(CommandOutcome, data, "command outcome")
