"""Slash commands, menus, and forms: what Discord sends a bot when a person uses them, and the bot's answers over REST.

A command's options are a list, as Discord sends them, or a mapping of names to plain values, which is converted by the
command's definition. Users and channels among them are described under "resolved". The first answer goes to
/interactions/.../callback within 3 s, later answers to /webhooks/{application}/{token}.

https://discord.com/developers/docs/interactions/receiving-and-responding
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic.local.discord import dialogs, messages, payloads
from agentic.local.discord.dialogs import EPHEMERAL, UPDATE, Interaction
from agentic.local.discord.messages import Draft, Upload
from agentic.local.discord.rest import RestCall, RestEndpoint, draft_of
from agentic.local.discord.world import ALL, COMMAND_REPLY, BotApplication, Channel, World, unknown

Json = dict[str, Any]
Options = Mapping[str, object] | Sequence[Json]

COMMAND, COMPONENT, COMPLETION, MODAL_SUBMIT = 2, 3, 4, 5  # types of interactions
SLASH, MESSAGE = 1, 3  # types of commands
SUB_COMMAND, SUB_GROUP, TEXT, USER, CHANNEL = 1, 2, 3, 6, 7  # types of options


def find_command(app: BotApplication, channel: Channel, name: str, kind: int = SLASH) -> Json:
    """Return the command that people see in the channel. Raises KeyError with the known names."""
    seen = [command for scope in (channel.guild_id, None) for command in app.commands.get(scope, ())]
    found = next((command for command in seen if command["name"] == name and command["type"] == kind), None)
    if found is None:
        raise KeyError(f"no command {name!r}; there are: {sorted(command['name'] for command in seen)}")
    return found


def slash_data(world: World, channel: Channel, app: BotApplication, path: str, options: Options) -> Json:
    """The data of a slash command; `path` is its name and that of its sub-command: "bots status"."""
    first, *rest = path.split()
    command = definition = find_command(app, channel, first)
    for name in rest:
        found = next((option for option in definition.get("options", ()) if option["name"] == name), None)
        if found is None or found["type"] not in (SUB_COMMAND, SUB_GROUP):
            raise KeyError(f"{definition['name']} has no sub-command {name!r}")
        definition = found
    given = _to_options(definition, options) if isinstance(options, Mapping) else list(options)
    resolved = _resolve(world, channel, given)
    for name in reversed(rest):
        given = [{"name": name, "type": SUB_COMMAND, "options": given}]
    return {"id": command["id"], "name": first, "type": SLASH, "options": given, **resolved}


def build_payload(world: World, channel: Channel, interaction: Interaction, data: Json, kind: int = COMMAND) -> Json:
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
        "app_permissions": str(ALL),
        "attachment_size_limit": messages.MAX_FILE_BYTES,
        "data": data,
    }
    if interaction.source is not None:
        payload["message"] = interaction.source
    if channel.guild_id is None:
        return {**payload, "user": payloads.user(user), "context": 1}
    member = payloads.member(world.guilds[channel.guild_id].members[user.id])
    member["permissions"] = str(world.permissions_of(user.id, channel))
    return {**payload, "guild_id": str(channel.guild_id), "guild_locale": "en-US", "context": 0, "member": member}


def _to_options(definition: Json, values: Mapping[str, object]) -> list[Json]:
    """Convert plain values to options. Raises KeyError if one is unknown, ValueError if Discord would refuse it."""
    known = {option["name"]: option for option in definition.get("options", ())}
    for name, option in known.items():
        if option.get("required") and name not in values:
            raise ValueError(f"{definition['name']} needs {name}")
    filled = []
    for name, value in values.items():
        option = known[name]
        sent = str(value) if option["type"] in (USER, CHANNEL) else value
        if option.get("choices") and sent not in [choice["value"] for choice in option["choices"]]:
            raise ValueError(f"{value} isn't a choice of {name}")
        filled.append({"name": name, "type": option["type"], "value": sent})
    return filled


def _resolve(world: World, channel: Channel, options: Sequence[Json]) -> Json:
    """Describe the users and channels among the options."""
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


def is_interaction(call: RestCall) -> bool:
    return call.request.match_info["token"] in call.world.interactions


def _interaction(call: RestCall) -> Interaction:
    interaction = call.world.interactions.get(call.request.match_info["token"])
    if interaction is None:
        raise unknown("interaction")
    return interaction


async def callback(call: RestCall) -> Any:
    interaction = _interaction(call)
    body, uploads = await call.form()
    answer: Json = {"interaction": {"id": str(interaction.id), "type": 2}}
    if body["type"] == dialogs.MESSAGE:
        message = _post(call, interaction, draft_of(body.get("data") or {}, uploads))
        interaction.original_id = int(message["id"])
        answer["resource"] = {"type": dialogs.MESSAGE, "message": message}
    if body["type"] == UPDATE:
        _change(call, interaction, _original_id(interaction), body.get("data") or {}, uploads)
    interaction.callback = body  # a refused answer acknowledges nothing
    return answer if call.request.query.get("with_response") == "true" else None


def _post(call: RestCall, interaction: Interaction, draft: Draft) -> Json:
    """Post an answer. Hidden answers stay with the interaction and publish no event."""
    channel = call.world.channel(interaction.channel_id)
    draft.type = COMMAND_REPLY
    draft.webhook_id = draft.application_id = interaction.application_id
    draft.interaction = {
        "id": str(interaction.id),
        "type": 2,
        "user": payloads.user(call.world.users[interaction.user_id]),
        "name": interaction.command,
        "authorizing_integration_owners": {},
    }
    author = call.world.app(interaction.application_id).user
    if draft.flags & EPHEMERAL:
        message = messages.build(call.world, channel, author, draft)
        call.world.attachments |= {file.id: file for file in message.attachments}
    else:
        message = messages.post(call.world, channel, author, draft)
    answer = payloads.message(call.world, message)
    if draft.flags & EPHEMERAL:
        interaction.hidden[message.id] = answer
    interaction.answers.append(answer)
    return answer


async def follow_up(call: RestCall) -> Any:
    """Post another answer, or the deferred answer, which is hidden if the deferral said so."""
    interaction = _interaction(call)
    draft = draft_of(*await call.form())
    if interaction.original_id is not None or not interaction.deferred:
        return _post(call, interaction, draft)
    deferred_flags = int(((interaction.callback or {}).get("data") or {}).get("flags") or 0)
    draft.flags |= deferred_flags & EPHEMERAL
    answer = _post(call, interaction, draft)
    interaction.original_id = int(answer["id"])
    return answer


def _original_id(interaction: Interaction) -> int:
    if interaction.original_id is None:
        raise unknown("Message")
    return interaction.original_id


async def change_answer(call: RestCall) -> Any:
    """Edit an answer; after a deferral, post it."""
    interaction = _interaction(call)
    if interaction.original_id is None and interaction.deferred:
        return await follow_up(call)
    body, uploads = await call.form()
    text = call.request.match_info["message_id"]
    message_id = _original_id(interaction) if text == "@original" else int(text)
    return _change(call, interaction, message_id, body, uploads)


def _change(call: RestCall, interaction: Interaction, message_id: int, body: Json, uploads: list[Upload]) -> Json:
    """Change an answer. A changed message with a menu is the answer to the choice from it."""
    changed = interaction.hidden.get(message_id)
    if changed is not None:
        changed |= {key: value for key, value in body.items() if key in ("content", "embeds", "components")}
    else:
        channel = call.world.channel(interaction.channel_id)
        message = channel.messages.get(message_id)
        if message is None:
            raise unknown("Message")
        messages.edit(call.world, channel, message, body, uploads)
        changed = payloads.message(call.world, message)
    if interaction.source is not None and message_id == int(interaction.source["id"]):
        interaction.answers = [*(one for one in interaction.answers if int(one["id"]) != message_id), changed]
    return changed


ENDPOINTS = [RestEndpoint("POST", "/interactions/{interaction_id}/{token}/callback", callback, open=True)]
