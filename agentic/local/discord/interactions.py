"""Slash commands, menus, forms.

Payloads of interactions: a person's use of a command, as Discord sends it to the bot.

Options may be a list, as Discord sends them, or a mapping of names to plain values, which the command's own definition
converts to that form. Users and channels among them are sent along ("resolved").

https://discord.com/developers/docs/interactions/receiving-and-responding#interaction-object

REST: answers to interactions.

The first goes to /interactions/.../callback within 3 s, what follows to /webhooks/{application}/{token}.

https://discord.com/developers/docs/interactions/receiving-and-responding
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic.local.discord import messages, payloads
from agentic.local.discord import payloads as message_payloads
from agentic.local.discord import world as errors
from agentic.local.discord import world as permissions
from agentic.local.discord.backend import ANSWER_SECONDS, DEFERRED_UPDATE, EPHEMERAL, TOKEN_SECONDS, UPDATE, Interaction
from agentic.local.discord.backend import MESSAGE as BackendMESSAGE
from agentic.local.discord.messages import Draft, Posting, Upload
from agentic.local.discord.rest import RestAnswer, RestCall, RestEndpoint, draft_of, snowflake
from agentic.local.discord.rest_channels import change_of
from agentic.local.discord.world import COMMAND_REPLY, BotApplication, Channel, User, World

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


def is_interaction(call: RestCall) -> bool:
    return call.request.match_info["token"] in call.backend.interactions


def _interaction(call: RestCall, seconds: float) -> Interaction:
    interaction = call.backend.interactions.get(call.request.match_info["token"])
    if interaction is None or call.backend.clock() - interaction.created > seconds:
        raise errors.unknown("interaction")
    return interaction


async def callback(call: RestCall) -> Any:
    """Accept the first answer: only once and in time."""
    interaction = _interaction(call, TOKEN_SECONDS)
    if interaction.callback is not None:
        raise errors.ApiError(400, 40060, "Interaction has already been acknowledged.")
    if call.backend.clock() - interaction.created > ANSWER_SECONDS:
        raise errors.unknown("interaction")
    body, uploads = await call.form()
    if body["type"] in (DEFERRED_UPDATE, UPDATE) and interaction.source is None:
        raise errors.invalid_form("type", "BASE_TYPE_CHOICES", "There is no message to update.")
    answer: dict[str, Any] = {"interaction": {"id": str(interaction.id), "type": 2}}
    if body["type"] == BackendMESSAGE:
        message = _post(call, interaction, draft_of(body.get("data") or {}, uploads))
        interaction.original_id = int(message["id"])
        answer["resource"] = {"type": BackendMESSAGE, "message": message}
    if body["type"] == UPDATE:
        _change(call, interaction, _answered(interaction), body.get("data") or {}, uploads)
    interaction.callback = body  # a refused answer acknowledges nothing
    call.backend.changed()
    return answer if call.request.query.get("with_response") == "true" else RestAnswer(204)


def _post(call: RestCall, interaction: Interaction, draft: Draft) -> dict[str, Any]:
    """Post an answer; a hidden one is kept with the interaction, without an event."""
    draft.check()
    channel = call.world.channel(interaction.channel_id)
    how = Posting(
        COMMAND_REPLY,
        webhook_id=interaction.application_id,
        application_id=interaction.application_id,
        interaction={
            "id": str(interaction.id),
            "type": 2,
            "user": payloads.user(call.world.users[interaction.user_id]),
            "name": interaction.command,
            "authorizing_integration_owners": {},
        },
    )
    author = call.world.app(interaction.application_id).user
    if draft.flags & EPHEMERAL:
        built = messages.build(call.backend, channel, author, draft, how)
        call.backend.attachments |= {file.id: file for file in built.attachments}
        hidden = message_payloads.message(call.world, built)
        interaction.hidden[int(hidden["id"])] = hidden
        answer = hidden
    else:
        answer = message_payloads.message(call.world, messages.post(call.backend, channel, author, draft, how))
    interaction.answers.append(answer)
    return answer


async def follow_up(call: RestCall) -> Any:
    interaction = _interaction(call, TOKEN_SECONDS)
    body, uploads = await call.form()
    first = interaction.original_id is None and interaction.deferred
    answer = _post(call, interaction, _as_deferred(interaction, body, uploads) if first else draft_of(body, uploads))
    if first:
        interaction.original_id = int(answer["id"])
    call.backend.changed()
    return answer


def _as_deferred(interaction: Interaction, body: dict[str, Any], uploads: list[Upload]) -> Draft:
    """A deferred answer is hidden if the deferral said so."""
    draft = draft_of(body, uploads)
    deferred_flags = int(((interaction.callback or {}).get("data") or {}).get("flags") or 0)
    draft.flags |= deferred_flags & EPHEMERAL
    return draft


def _answer_id(call: RestCall, interaction: Interaction) -> int:
    text = call.request.match_info["message_id"]
    return _answered(interaction) if text == "@original" else snowflake("message_id", text)


def _answered(interaction: Interaction) -> int:
    if interaction.original_id is None:
        raise errors.unknown("Message")
    return interaction.original_id


def get_answer(call: RestCall) -> Any:
    interaction = _interaction(call, TOKEN_SECONDS)
    message_id = _answer_id(call, interaction)
    if message_id in interaction.hidden:
        return interaction.hidden[message_id]
    message = call.world.channel(interaction.channel_id).messages.get(message_id)
    if message is None:
        raise errors.unknown("Message")
    return message_payloads.message(call.world, message)


async def change_answer(call: RestCall) -> Any:
    """Edit an answer. After a deferral this is the answer itself."""
    interaction = _interaction(call, TOKEN_SECONDS)
    body, uploads = await call.form()
    if interaction.original_id is None and interaction.deferred:
        answer = _post(call, interaction, _as_deferred(interaction, body, uploads))
        interaction.original_id = int(answer["id"])
        return answer
    return _change(call, interaction, _answer_id(call, interaction), body, uploads)


def _change(
    call: RestCall, interaction: Interaction, message_id: int, body: dict[str, Any], uploads: list[Upload]
) -> dict[str, Any]:
    """Change an answer. The message with a menu is then an answer to the choice from it."""
    changed = interaction.hidden.get(message_id)
    if changed is not None:
        changed |= {key: value for key, value in body.items() if key in ("content", "embeds", "components")}
    else:
        channel = call.world.channel(interaction.channel_id)
        message = channel.messages.get(message_id)
        if message is None:
            raise errors.unknown("Message")
        messages.edit(call.backend, channel, message, change_of(body, uploads))
        changed = message_payloads.message(call.world, message)
    if interaction.source is not None and message_id == int(interaction.source["id"]):
        interaction.answers = [*(one for one in interaction.answers if int(one["id"]) != message_id), changed]
    return changed


def remove_answer(call: RestCall) -> None:
    interaction = _interaction(call, TOKEN_SECONDS)
    message_id = _answer_id(call, interaction)
    if interaction.hidden.pop(message_id, None) is None:
        messages.delete(call.backend, call.world.channel(interaction.channel_id), [message_id])


ENDPOINTS = [RestEndpoint("POST", "/interactions/{interaction_id}/{token}/callback", callback, open=True)]
