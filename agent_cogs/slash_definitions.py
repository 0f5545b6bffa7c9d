"""The slash commands for Discord, made from the table of actions, and their comparison with registered commands.

Definitions have no permissions: Discord would hide the whole command from everyone without the permission, but
moderators are people and roles of the settings, and `/bots` and `/room` have subcommands for everyone. Rights are
checked when a command is used.

https://discord.com/developers/docs/interactions/application-commands
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic.fields import FieldInfo

from agentic.actions.base import FORM, MAX_CHOICES, MENU
from agentic.actions.registry import TABLE, Action
from agentic.actions.room_create import MAX_NAMES
from agentic.actions.values import bounds_of, extra_of

Json = dict[str, Any]

SLASH, MESSAGE = 1, 3  # types of commands
SUB_COMMAND, TEXT, WHOLE, YES_NO, USER, CHANNEL, NUMBER = 1, 3, 4, 5, 6, 7, 10  # types of options
BOT_DM = 1  # a context: a direct message to the bot
TEXT_CHANNEL, NEWS = 0, 5  # types of channels
WHY = "Why?"  # the command of a message's menu
TYPED = ("agent", "room", "option", "model")  # options with choices that depend on what is typed
GROUPS: Mapping[str, str] = {
    "bots": "See, mute, and pause the bots of this server",
    "room": "Debates between bots and personas, in threads",
    "agent": "Personas: characters without their own bot account",
    "agent-file": "A bot's persona files",
    "config": "Bot options (server managers)",
    "profile": "Topics the bots noted about you (only you see the answer)",
    "forget": "Your data",
}
"""Commands with subcommands."""
FOR: Mapping[str, str] = {"moderator": " (moderators)", "manager": " (server managers)", "owner": " (server managers)"}
"""Whom a command is for, by its right."""
OLD_NAMES: Mapping[str, str] = {alias: action.name for action in TABLE for alias in action.aliases}
"""Former name → command. Discord shows old names until its list is refreshed, and people still type them."""

# The fields to compare. Discord sets the others (ids, versions, defaults).
_COMPARED = (
    *("name", "description", "required", "min_value", "max_value", "max_length"),
    *("choices", "channel_types", "contexts", "autocomplete"),
)


def command_list(agents: Mapping[str, str]) -> list[Json]:
    """Return all commands for these agents (key → shown name), in the table's order."""
    commands: dict[str, Json] = {}
    for action in TABLE:
        group, _, part = action.name.partition(" ")
        if "slash" not in action.surfaces or group in (FORM, MENU):
            continue
        options = _options(action, agents)
        about = f"{action.about}{FOR.get(action.right, '')}"
        if part:
            command = commands.setdefault(group, _slash(group, GROUPS[group]))
            command["options"].append({"type": SUB_COMMAND, "name": part, "description": about, "options": options})
        else:
            commands[group] = _slash(group, about, *options)
    return [*commands.values(), {"type": MESSAGE, "name": WHY}]


def _options(action: Action, agents: Mapping[str, str]) -> list[Json]:
    """Return an action's options. Discord requires that required options come first."""
    fields = action.values.model_fields.items()
    here = ((name, field) for name, field in fields if extra_of(field)["only"] in (None, "slash"))
    shown = [_option(field.alias or name, field, agents) for name, field in here]
    return sorted(shown, key=lambda one: not one.get("required"))


def _option(name: str, field: FieldInfo, agents: Mapping[str, str]) -> Json:
    extra, bounds = extra_of(field), bounds_of(field)
    kind, choices = extra["kind"], agents if extra["kind"] == "bot" else extra["choices"]
    types = {field.annotation, *get_args(field.annotation)}
    found: Json = {"type": TEXT, "name": name, "description": field.description}
    if kind in ("channel", "person"):
        found["type"] = CHANNEL if kind == "channel" else USER
    elif bool in types:
        found["type"] = YES_NO
    elif int in types:
        found |= {"type": WHOLE, "min_value": bounds["ge"], "max_value": bounds["le"]}
    elif float in types:
        found |= {"type": NUMBER, "min_value": bounds["ge"], "max_value": bounds["le"]}
    elif kind in TYPED:
        found |= {"autocomplete": True, "max_length": bounds.get("max_length", MAX_NAMES)}
    elif most := bounds.get("max_length", extra["most"]):
        found["max_length"] = most
    if kind == "channel":
        found["channel_types"] = [TEXT_CHANNEL, NEWS]
    if choices:
        found["choices"] = [{"name": shown, "value": value} for value, shown in [*choices.items()][:MAX_CHOICES]]
    return {**found, "required": True} if field.is_required() else found


def direct_commands() -> list[Json]:
    """Return the commands for direct messages, which each bot registers globally."""
    (reset,) = (action for action in TABLE if action.name == "reset")
    return [{**_slash(reset.name, reset.about), "contexts": [BOT_DM]}]


def _slash(name: str, description: str, *options: Json) -> Json:
    return {"type": SLASH, "name": name, "description": description, "options": [*options]}


def is_same(registered: Json, wanted: Json) -> bool:
    return registered.get("type", SLASH) == wanted["type"] and _shape(registered) == _shape(wanted)


def is_ours(registered: Json, wanted: Sequence[Json]) -> bool:
    return any((registered["name"], registered.get("type", SLASH)) == (one["name"], one["type"]) for one in wanted)


def _shape(command: Json) -> Json:
    shape = {key: command[key] for key in _COMPARED if command.get(key)}
    if "choices" in shape:
        shape["choices"] = [(choice["name"], choice["value"]) for choice in shape["choices"]]
    return {**shape, "options": [(one["type"], _shape(one)) for one in command.get("options") or ()]}
