"""Parses messages of the wire. Never raises: what is wrong is logged, and as much as possible is returned."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from agentic.wire.messages import (
    MAX_INSTRUCTION_ID,
    MAX_WIRE_BYTES,
    PROTOCOL_VERSION,
    Instruction,
    MentionNotice,
    Result,
    WireMessage,
)

log = logging.getLogger(__name__)

W = TypeVar("W", bound=WireMessage)


@dataclass(frozen=True, slots=True)
class UnreadableInstruction:
    """An instruction of which only version and id could be read: it gets a skipped result with this reason."""

    instruction_id: str
    reason: str


def read(model: type[W], raw: bytes | str) -> W | None:
    """The message; None, after a warning, for anything else."""
    data = _decode(raw, _kind(model))
    return None if data is None else _validate(model, data)


def read_instruction(raw: bytes | str) -> Instruction | UnreadableInstruction | None:
    """A message of an instructions channel; None without an id to answer to."""
    data = _decode(raw, "instruction")
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
    """A message of a results channel; None for anything else."""
    data = _decode(raw, "result")
    if data is None:
        return None
    if "event" not in data:
        return _validate(Result, data)
    if data["event"] == "human_mention_response":
        return _validate(MentionNotice, data)
    log.debug("unknown event %.40r on a results channel ignored", data["event"])
    return None


def _kind(model: type[WireMessage]) -> str:
    """StopNotice → "stop notice"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__).lower()


def _decode(raw: bytes | str, kind: str) -> dict[str, Any] | None:
    """The JSON object, of the version that this program speaks; None after a warning."""
    if len(raw) > MAX_WIRE_BYTES:
        log.warning("%s dropped: %d bytes is over the limit of %d", kind, len(raw), MAX_WIRE_BYTES)
        return None
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        log.warning("%s dropped: not JSON (%s)", kind, type(error).__name__)
        return None
    if not isinstance(data, dict):
        log.warning("%s dropped: expected a JSON object, not a %s", kind, type(data).__name__)
        return None
    version = data.get("protocol_version")
    if version is None:
        version = PROTOCOL_VERSION
    if isinstance(version, bool) or version not in (PROTOCOL_VERSION, str(PROTOCOL_VERSION)):
        log.warning("%s dropped: protocol version %.20r, this program speaks %d", kind, version, PROTOCOL_VERSION)
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
