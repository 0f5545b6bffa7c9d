"""Read conversations that run during an upgrade from a version whose states had no parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# field of that version → (part that has it now, its name there)
_PARTS = {
    "conversation_id": ("", "id"),
    **{name: ("queue", name) for name in ("pending", "asking", "joining", "single", "requested", "granted", "called")},
    **{name: ("queue", name) for name in ("last_in_order", "named", "named_by", "waits_until")},
    **{name: ("talk", name) for name in ("history", "heard", "topic", "last_speaker", "chosen_because")},
    "taken_up": ("talk", "answered"),
    "lead": ("talk", "suggested_topic"),
    "angle": ("talk", "perspective"),
    "angles": ("talk", "perspectives"),
    "round_number": ("counts", "round"),
    "tallies": ("counts", "agents"),
    **{name: ("counts", name) for name in ("spoke", "skipped", "unheard", "missing", "silent", "last_turn_showed")},
    **{name: ("counts", name) for name in ("end_streak", "idle_turns", "away", "unseen")},
}


def divide(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state with its parts, as ConversationState stores it."""
    divided: dict[str, Any] = {"queue": {}, "talk": {}, "counts": {}}
    for name, value in state.items():
        part, new_name = _PARTS.get(name, ("", name))
        (divided[part] if part else divided)[new_name] = value
    return divided
