"""The record of one tool call, and its line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """`output`: None while the call runs, or if the process ended before it did.

    `after_message_id`: the newest message that the model had seen. `message_id`: the post of the turn, None until there
    is one. `at`: the time of the call in unix seconds.
    """

    id: str
    agent: str
    channel_id: int
    turn_id: str
    after_message_id: int
    message_id: int | None = None
    name: str
    arguments: Mapping[str, Any]
    output: str | None = None
    at: float
    is_error: bool = False
    asked_by: int | None = None

    @property
    def position(self) -> int:
        """The message at which the record is shown in the channel."""
        return max(self.after_message_id, self.message_id or 0)

    @property
    def size(self) -> int:
        """The approximate number of characters in memory."""
        return 500 + len(self.output or "") + len(str(self.arguments))


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "agent": str,
    "channel_id": int,
    "turn_id": str,
    "after_message_id": int,
    "message_id": (int, type(None)),
    "name": str,
    "arguments": dict,
    "output": (str, type(None)),
    "at": (int, float),
    "is_error": bool,
    "asked_by": (int, type(None)),
}


def encoded(record: ToolRecord) -> str:
    """Return the record as one line of JSON, without the newline."""
    values = {name: getattr(record, name) for name in _KINDS} | {"arguments": dict(record.arguments)}
    return json.dumps(values, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()


def decoded(line: str | bytes) -> ToolRecord | None:
    """Parse a line. None if it is torn or not a record. Unknown fields, of later versions, are ignored."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    known = {name: value for name, value in found.items() if name in _KINDS}
    if any(not isinstance(known.get(name, _default(name)), kind) for name, kind in _KINDS.items()):
        return None
    return ToolRecord(**known)


def _default(name: str) -> object:
    """Return the default of an optional field, and a value of no valid type for a required one."""
    return {"message_id": None, "output": None, "asked_by": None, "is_error": False}.get(name, ...)
