"""The outcomes of commands about rooms, for people, in Discord and in the console.

The fields are the room, as a link or by its topic, and the agent.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentic.state.rooms import MOST_MEMBERS

ROOM_DONE: Mapping[str, str] = {
    "opened": "{room} is open.",
    "room_paused": "{room} is paused. A message that is being posted may still appear.",
    "room_resumed": "{room} continues.",
    "room_closed": "{room} is closed. A message that is being posted may still appear.",
    "requested": "{agent} speaks next in {room}.",
    "added_member": "{agent} takes part in {room} from now on.",
    "removed_member": "{agent} no longer takes part in {room}.",
}
"""What was wanted is done."""

ROOM_REFUSALS: Mapping[str, str] = {
    "no_room": "{room} isn't a room, or its thread is gone.",
    "not_active": "{room} isn't running.",
    "already_paused": "{room} is paused already.",
    "already_closed": "{room} is closed already.",
    "already_member": "{agent} is already a member of {room}.",
    "no_member": "{agent} isn't a member of {room}.",
    "too_few_members": "{room} has fewer than two members. Add one first.",
    "full": f"{{room}} has {MOST_MEMBERS} members, which is the most.",
    "offline": "{agent} is offline.",
    "paused": "All bots are paused. Resume them first.",
    "stopped": "The bots are stopped in {room}. Lift that stop first.",
    "busy": "{room} is just finishing a turn. Try again in a moment.",
    "incomplete": "The coordinator couldn't read the room's options.",
}
