"""Payloads of interactions: a person's use of a command, as Discord sends it to the bot.

Options may be a list, as Discord sends them, or a mapping of names to plain values, which the command's own definition
converts to that form. Users and channels among them are sent along ("resolved").

https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic.local.discord import messages, payloads, permissions
from agentic.local.discord.discord_interactions import Interaction
from agentic.local.discord.world import BotApplication, Channel, User, World

Json = dict[str, Any]
Options = Mapping[str, object] | Sequence[Json]

COMMAND, COMPONENT, COMPLETION, MODAL_SUBMIT = 2, 3, 4, 5  # types of interactions
SLASH, MESSAGE = 1, 3  # types of commands
SUB_COMMAND, SUB_GROUP, TEXT, USER, CHANNEL = 1, 2, 3, 6, 7  # types of options
_APP_PERMISSIONS = str(permissions.ALL)


def registered(app: BotApplication, channel: Channel, name: str, kind: int = SLASH) -> Json:
    """The command that people see in that channel. Raises KeyError with the known names."""
    seen = [command for scope in (channel.guild_id, None) for command in app.commands.get(scope, ())]
    found = next((command for command in seen if command["name"] == name and command["type"] == kind), None)
    if found is None:
        raise KeyError(f"no command {name!r}; there are: {sorted(command['name'] for command in seen)}")
    return found


def slash_data(world: World, channel: Channel, app: BotApplication, path: str, options: Options) -> Json:
    """The data of a slash command; `path` is its name and that of its sub-command: "bots status"."""
    first, *rest = path.split()
    command = registered(app, channel, first)
    definition = command
    for name in rest:
        definition = _named(definition, name)
    given = _filled(definition, options) if isinstance(options, Mapping) else list(options)
    resolved = _resolved(world, channel, given)
    for name in reversed(rest):
        given = [{"name": name, "type": SUB_COMMAND, "options": given}]
    return {"id": command["id"], "name": first, "type": SLASH, "options": given, **resolved}


def typed_data(world: World, channel: Channel, app: BotApplication, path: str, option: str, typed: str) -> Json:
    """The data of a slash command of which one option is being typed."""
    return slash_data(world, channel, app, path, [{"name": option, "type": TEXT, "value": typed, "focused": True}])


def body(world: World, channel: Channel, interaction: Interaction, data: Json, kind: int = COMMAND) -> Json:
    """The payload of INTERACTION_CREATE."""
    user = world.users[interaction.user_id]
    payload: Json = {
        "id": str(interaction.id),
        "application_id": str(interaction.application_id),
        "type": kind,
        "token": interaction.token,
        "version": 1,
        "channel_id": str(channel.id),
        "channel": payloads.channel(world, channel),
        "locale": "en-US",
        "entitlements": [],
        "app_permissions": _APP_PERMISSIONS,
        "attachment_size_limit": messages.MAX_FILE_BYTES,
        "data": data,
    }
    if interaction.source is not None:
        payload["message"] = interaction.source
    if channel.guild_id is None:
        return {**payload, "user": payloads.user(user), "context": 1}
    payload |= {"guild_id": str(channel.guild_id), "guild_locale": "en-US", "context": 0}
    return {**payload, "member": _member(world, channel, user)}


def _member(world: World, channel: Channel, user: User) -> Json:
    assert channel.guild_id is not None
    member = payloads.member(world.guilds[channel.guild_id].members[user.id])
    return {**member, "permissions": str(permissions.permissions_of(world, user.id, channel))}


def _named(definition: Json, name: str) -> Json:
    found = next((option for option in definition.get("options", ()) if option["name"] == name), None)
    if found is None or found["type"] not in (SUB_COMMAND, SUB_GROUP):
        raise KeyError(f"{definition['name']} has no sub-command {name!r}")
    return dict(found)


def _filled(definition: Json, values: Mapping[str, object]) -> list[Json]:
    """Convert plain values to options. Raises KeyError for an unknown one, ValueError for one that Discord's own
    form would refuse."""
    known = {option["name"]: option for option in definition.get("options", ())}
    for name, option in known.items():
        if option.get("required") and name not in values:
            raise ValueError(f"{definition['name']} needs {name}")
    filled = []
    for name, value in values.items():
        option = known[name]
        sent = str(value) if option["type"] in (USER, CHANNEL) else value
        if option.get("choices") and sent not in [choice["value"] for choice in option["choices"]]:
            raise ValueError(f"{value} is not one of the choices of {name}")
        filled.append({"name": name, "type": option["type"], "value": sent})
    return filled


def _resolved(world: World, channel: Channel, options: Sequence[Json]) -> Json:
    """The users and channels among the options."""
    users = [world.users[int(option["value"])] for option in options if option["type"] == USER]
    places = [world.channel(int(option["value"])) for option in options if option["type"] == CHANNEL]
    found: Json = {}
    if users:
        found["users"] = {str(user.id): payloads.user(user) for user in users}
        guild = world.guilds.get(channel.guild_id or 0)
        members = [guild.members[user.id] for user in users if guild is not None and user.id in guild.members]
        found["members"] = {str(member.user.id): payloads.partial_member(member) for member in members}
    if places:
        found["channels"] = {str(place.id): {**payloads.channel(world, place), "permissions": "0"} for place in places}
    return {"resolved": found} if found else {}
