"""The outcomes of commands about rooms, for people, in Discord and in the console.

The fields are the room, as a link or by its topic, and the agent.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_protocol.coordination.rooms import MOST_MEMBERS

ROOM_DONE: Mapping[str, str] = {
    "opened": "{room} is open.",
    "room_paused": "{room} is paused; a message that is being written may still appear.",
    "room_resumed": "{room} goes on.",
    "room_closed": "{room} is closed; a message that is being written may still appear.",
    "requested": "{agent} speaks next in {room}.",
    "added_member": "{agent} takes part in {room} from now on.",
    "removed_member": "{agent} no longer takes part in {room}.",
}
"""What was wanted is done."""

ROOM_REFUSALS: Mapping[str, str] = {
    "no_room": "{room} is no room, or its thread is gone.",
    "not_active": "{room} is not running at present.",
    "already_paused": "{room} is paused already.",
    "already_closed": "{room} is closed already.",
    "already_member": "{agent} takes part in {room} already.",
    "no_member": "{agent} does not take part in {room}.",
    "too_few_members": "{room} has fewer than two members. Add one first.",
    "full": f"{{room}} has {MOST_MEMBERS} members, which is the most.",
    "offline": "{agent} is offline.",
    "paused": "All bots are paused. Let them go on first.",
    "stopped": "The bots are stopped in {room}. Lift that stop first.",
    "busy": "{room} is just ending a turn. Please try again in a moment.",
    "incomplete": "The coordinator could not read what the room is to be.",
}
