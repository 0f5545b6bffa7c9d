"""Notes for the record of what moderators and owners do by commands: who, what, where, and what came of it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from agentic.actions.base import FORM, MENU, ActionRequest, CommandReply, Form, Menu, Response
from agentic.actions.personas import EDIT_FILE, PERSONA
from agentic.actions.room_create import ROOM
from agentic.wire.entries import ActionNote

ACTIONS: Mapping[str, str] = {
    "stop": "stop",
    "resume": "resume",
    "reset": "reset",
    "bots start": "start",
    "bots next": "next",
    "bots end": "end",
    "bots pause": "pause",
    "bots resume": "go_on",
    "bots mute": "mute",
    "bots unmute": "unmute",
    "bots ignore": "ignore",
    "bots unignore": "unignore",
    f"{FORM} {EDIT_FILE}": "edit_file",
    "room create": "open_room",
    f"{FORM} {ROOM}": "open_room",
    f"{MENU} {ROOM}": "open_room",
    "room stop": "pause_room",
    "room resume": "resume_room",
    "room next": "next_in_room",
    "room close": "close_room",
    "room add": "add_to_room",
    "room remove": "remove_from_room",
    f"{FORM} {PERSONA}": "save_persona",
    "agent delete": "delete_persona",
    "config set": "set_option",
}
"""Command → the action's name in the record. Commands that only show something are not noted."""

AGENT_OPTIONS = ("agent", "bot", "starter")
MAX_OUTCOME = 200  # characters

_PERSON = re.compile(r"<@!?\d+>")  # the record has no ids of people besides the one who acted


def note_of(command: ActionRequest, response: Response, at: float) -> ActionNote | None:
    """The note of a command that was carried out, or refused for what it found; None for one that is not noted."""
    action = ACTIONS.get(command.name)
    if action is None or isinstance(response, Form | Menu):
        return None
    text = response.text if isinstance(response, CommandReply) else response
    channel = command.values.get("channel")
    agent = next((command.values[name] for name in AGENT_OPTIONS if command.values.get(name)), None)
    given = command.values
    detail = str(given.get("topic") or given.get("name") or "")
    if "option" in given:
        detail = f"{given['option']}: {given.get('value', '')}"[:MAX_OUTCOME]
    return ActionNote(
        id=secrets.token_hex(16),
        at=at,
        by=str(command.who.user_id),
        action=action,
        channel_id=int(channel) if channel is not None else command.channel_id,
        agent=None if agent is None else str(agent),
        detail=detail,
        outcome=_PERSON.sub("a person", text)[:MAX_OUTCOME],
    )
