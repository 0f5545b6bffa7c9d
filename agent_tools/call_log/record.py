"""One call of a tool as it is kept, and its line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """`output` is None while the call runs, or where the process ended before it did.

    `after_message_id` is the newest message that the model had seen, `message_id` the post that the turn led to, None
    as long as there is none. `at` is the time of the call in unix seconds.
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
        """The message that it stands at in the channel."""
        return max(self.after_message_id, self.message_id or 0)

    @property
    def size(self) -> int:
        """Characters, about, that it takes in memory."""
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
    """The record as one line of JSON, without its end."""
    values = {name: getattr(record, name) for name in _KINDS} | {"arguments": dict(record.arguments)}
    return json.dumps(values, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()


def decoded(line: str | bytes) -> ToolRecord | None:
    """The record of a line; None for one that is torn or of another kind. Fields of later versions are left out."""
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
    """What a field has that may be absent; something of no field's type where it may not."""
    return {"message_id": None, "output": None, "asked_by": None, "is_error": False}.get(name, ...)
