"""The outcomes of commands about rooms, for people: what was done, and why something was not."""

from __future__ import annotations

from collections.abc import Mapping

ROOM_DONE: Mapping[str, str] = {
    "opened": "The room {room} is open.",
    "room_paused": "The room {room} is paused; a message that is being written may still appear.",
    "room_resumed": "The room {room} goes on.",
    "room_closed": "The room {room} is closed; a message that is being written may still appear.",
    "requested": "{agent} speaks next in {room}, after the turn that is under way.",
    "added_member": "{agent} takes part in {room} now.",
    "removed_member": "{agent} no longer takes part in {room}.",
}
"""What was wanted is done. The fields are the room, as its link or its name, and the agent."""

ROOM_REFUSALS: Mapping[str, str] = {
    "no_room": "There is no room in {room}, or its thread was deleted.",
    "not_active": "The room {room} is not running.",
    "already_member": "{agent} takes part in {room} already.",
    "no_member": "{agent} does not take part in {room}.",
    "too_few_members": "Fewer than two take part in {room}. Add a persona first.",
    "full": "The room {room} is full.",
    "offline": "{agent} is offline.",
    "paused": "All bots are paused.",
    "stopped": "The bots are stopped in {room}; lift that stop first.",
    "busy": "The coordinator is still ending a turn in {room}. Try again in a moment.",
    "incomplete": "The coordinator could not read what the room is to be.",
}
