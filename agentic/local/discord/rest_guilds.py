"""Guilds, applications, webhooks over REST.

REST: applications and their commands.

REST: guilds with their channels, roles and members; users; the bot itself and how to reach the gateway.

REST: webhooks, created and listed by bots, executed with the token in their address.

Answers to interactions use the same addresses (/webhooks/{application}/{token}) and are handled by interactions.py.
"""

from __future__ import annotations

import secrets
import unicodedata
from typing import Any

from agentic.chat.directory import BLANK_LETTERS
from agentic.local.discord import channels, messages, payloads
from agentic.local.discord import channels as threads
from agentic.local.discord import interactions as rest_interactions
from agentic.local.discord import payloads as message_payloads
from agentic.local.discord import world as errors
from agentic.local.discord import world as permissions
from agentic.local.discord.backend import Backend
from agentic.local.discord.messages import Posting
from agentic.local.discord.rest import RestAnswer, RestCall, RestEndpoint, draft_of, snowflake
from agentic.local.discord.rest_channels import change_of
from agentic.local.discord.world import Channel, Guild, Message, User, Webhook


async def info(call: RestCall) -> Any:
    return payloads.application(call.world, call.app)


def _commands(call: RestCall) -> list[dict[str, Any]]:
    """The list that the path names: of the guild in it, or the global one. Only the application's own."""
    if call.id("application_id") != call.app.id:
        raise errors.ApiError(403, 20012, "You are not authorized to perform this action on this application")
    guild_id = call.guild().id if "guild_id" in call.request.match_info else None
    if guild_id in call.app.without_commands:
        raise errors.missing_access()
    return call.app.commands.setdefault(guild_id, [])


def _stored(call: RestCall, body: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A command as Discord keeps it; one of the same name keeps its id."""
    old = known.get(body["name"])
    stored = {
        "type": 1,
        "description": "",
        "options": [],
        "default_member_permissions": None,
        "nsfw": False,
        **_normal(body),
        "id": old["id"] if old else str(call.world.snowflakes.next()),
        "application_id": str(call.app.id),
        "version": str(call.world.snowflakes.next()),
    }
    if "guild_id" in call.request.match_info:
        stored["guild_id"] = call.request.match_info["guild_id"]
    return stored


def _normal(option: dict[str, Any]) -> dict[str, Any]:
    """Discord leaves out defaults: an option that is not required, no choices."""
    shown = {key: value for key, value in option.items() if key != "required" or value}
    if isinstance(shown.get("default_member_permissions"), int):
        shown["default_member_permissions"] = str(shown["default_member_permissions"])
    if "options" in shown:
        shown["options"] = [_normal(one) for one in shown["options"]]
    return shown


async def commands(call: RestCall) -> Any:
    return _commands(call)


async def replace_commands(call: RestCall) -> Any:
    kept = _commands(call)
    known = {c["name"]: c for c in kept}
    kept[:] = [_stored(call, body, known) for body in await call.json_list()]
    return kept


async def add_command(call: RestCall) -> Any:
    kept = _commands(call)
    known = {c["name"]: c for c in kept}
    stored = _stored(call, await call.json(), known)
    kept[:] = [c for c in kept if c["name"] != stored["name"]] + [stored]
    return RestAnswer(200 if stored["name"] in known else 201, stored)


async def remove_command(call: RestCall) -> None:
    kept = _commands(call)
    wanted = call.request.match_info["command_id"]
    if all(c["id"] != wanted for c in kept):
        raise errors.unknown("application command")
    kept[:] = [c for c in kept if c["id"] != wanted]


async def no_items(call: RestCall) -> Any:
    return {"items": []}


async def nothing(call: RestCall) -> Any:
    """py-cord reads the default sounds before it is ready; local use needs none."""
    return []


_GLOBAL = "/applications/{application_id}/commands"
_GUILD = "/applications/{application_id}/guilds/{guild_id}/commands"

ENDPOINTS = [
    RestEndpoint("GET", "/oauth2/applications/@me", info),
    RestEndpoint("GET", "/applications/@me", info),
    RestEndpoint("GET", "/applications/{application_id}/emojis", no_items),
    RestEndpoint("GET", "/soundboard-default-sounds", nothing),
    RestEndpoint("GET", "/guilds/{guild_id}/soundboard-sounds", no_items),
] + [
    endpoint
    for path in (_GLOBAL, _GUILD)
    for endpoint in (
        RestEndpoint("GET", path, commands),
        RestEndpoint("PUT", path, replace_commands),
        RestEndpoint("POST", path, add_command),
        RestEndpoint("DELETE", path + "/{command_id}", remove_command),
    )
]


async def me(call: RestCall) -> Any:
    return payloads.own_user(call.me)


async def get_user(call: RestCall) -> Any:
    user = call.world.users.get(call.id("user_id"))
    if user is None:
        raise errors.unknown("User")
    return payloads.user(user)


async def my_guilds(call: RestCall) -> Any:
    guilds = [g for g in call.world.guilds.values() if call.me.id in g.members]
    after = call.query_id("after") or 0
    return [_partial(g, call.me.id) for g in guilds if g.id > after][: call.limit(200, 200)]


def _partial(guild: Guild, user_id: int) -> dict[str, Any]:
    return {
        "id": str(guild.id),
        "name": guild.name,
        "icon": None,
        "owner": guild.owner_id == user_id,
        "permissions": str(permissions.guild_permissions(guild, user_id)),
        "features": [],
    }


async def my_direct_channel(call: RestCall) -> Any:
    recipient = int((await call.json())["recipient_id"])
    if recipient not in call.world.users:
        raise errors.ApiError(400, 50033, "Invalid Recipient(s)")
    return payloads.channel(call.world, channels.direct(call.backend, call.me.id, recipient))


async def get_guild(call: RestCall) -> Any:
    return payloads.guild(call.guild())


async def guild_channels(call: RestCall) -> Any:
    return [payloads.channel(call.world, c) for c in call.guild().channels.values() if not c.is_thread]


async def guild_roles(call: RestCall) -> Any:
    return [payloads.role(r) for r in call.guild().roles.values()]


async def guild_emojis(call: RestCall) -> Any:
    return payloads.guild(call.guild())["emojis"]


async def members(call: RestCall) -> Any:
    guild = call.guild()
    if not call.app.members_intent:
        raise errors.missing_access()
    after = call.query_id("after") or 0
    found = sorted((m for m in guild.members.values() if m.user.id > after), key=lambda m: m.user.id)
    return [payloads.member(m) for m in found[: call.limit(1, 1000)]]


async def search_members(call: RestCall) -> Any:
    begins = call.request.query.get("query", "").lower()
    found = [m for m in call.guild().members.values() if (m.nick or m.user.username).lower().startswith(begins)]
    return [payloads.member(m) for m in found[: call.limit(1, 1000)]]


async def get_member(call: RestCall) -> Any:
    guild = call.guild()
    user_id = call.me.id if call.request.match_info["user_id"] == "@me" else call.id("user_id")
    if user_id not in guild.members:
        raise errors.unknown("Member")
    return payloads.member(guild.members[user_id])


_GUILDS_GUILD = "/guilds/{guild_id}"

GUILDS_ENDPOINTS = [
    RestEndpoint("GET", "/users/@me", me),
    RestEndpoint("GET", "/users/@me/guilds", my_guilds),
    RestEndpoint("POST", "/users/@me/channels", my_direct_channel),
    RestEndpoint("GET", "/users/{user_id}", get_user),
    RestEndpoint("GET", _GUILDS_GUILD, get_guild),
    RestEndpoint("GET", _GUILDS_GUILD + "/channels", guild_channels),
    RestEndpoint("GET", _GUILDS_GUILD + "/roles", guild_roles),
    RestEndpoint("GET", _GUILDS_GUILD + "/emojis", guild_emojis),
    RestEndpoint("GET", _GUILDS_GUILD + "/members", members),
    RestEndpoint("GET", _GUILDS_GUILD + "/members/search", search_members),
    RestEndpoint("GET", _GUILDS_GUILD + "/members/{user_id}", get_member),
]


_MAX_PER_CHANNEL = 15


def make(backend: Backend, channel: Channel, name: str, creator_id: int | None, app_id: int | None) -> Webhook:
    """Create a webhook of a channel and publish its event."""
    webhook = Webhook(
        id=backend.world.snowflakes.next(),
        channel_id=channel.id,
        guild_id=channel.guild_id or 0,
        name=name,
        token=secrets.token_urlsafe(51),
        creator_id=creator_id,
        application_id=app_id,
    )
    backend.world.webhooks[webhook.id] = webhook
    backend.emit("WEBHOOKS_UPDATE", messages.place(channel), channel)
    return webhook


def face(webhook: Webhook, name: str | None, avatar: str | None = None) -> User:
    """The author shown at a webhook's message."""
    return User(webhook.id, name or webhook.name, bot=True, avatar=avatar or webhook.avatar)


async def create(call: RestCall) -> Any:
    channel = call.channel(permissions.MANAGE_WEBHOOKS)
    name = str((await call.json()).get("name") or "").strip()
    _check_name("name", name)
    if len(_of_channel(call, channel)) >= _MAX_PER_CHANNEL:
        raise errors.ApiError(400, 30007, f"Maximum number of webhooks reached ({_MAX_PER_CHANNEL})")
    return payloads.webhook(call.world, make(call.backend, channel, name, call.me.id, call.app.id))


def _check_name(field: str, name: str) -> None:
    """Raise Discord's ApiError for a name that it refuses for a webhook."""
    visible = "".join(c for c in name if unicodedata.category(c) not in ("Cc", "Cf") and c not in BLANK_LETTERS)
    plain = unicodedata.normalize("NFKC", visible).strip().lower()
    if (
        not 1 <= len(name) <= 80
        or not plain
        or plain in ("everyone", "here")
        or any(word in plain for word in ("discord", "clyde", "```"))
        or any(char in name for char in "@#:")
    ):
        raise errors.invalid_form(field, "WEBHOOK_NAME_INVALID", "Webhook name is not allowed.")


def _of_channel(call: RestCall, channel: Channel) -> list[Webhook]:
    return [w for w in call.world.webhooks.values() if w.channel_id == channel.id]


async def of_channel(call: RestCall) -> Any:
    return [_listed(call, w) for w in _of_channel(call, call.channel(permissions.MANAGE_WEBHOOKS))]


def _listed(call: RestCall, webhook: Webhook) -> Any:
    """A webhook in a list; another application's has no token."""
    shown = payloads.webhook(call.world, webhook)
    if webhook.application_id not in (None, call.app.id):
        del shown["token"]
    return shown


async def of_guild(call: RestCall) -> Any:
    guild = call.guild()
    if not permissions.guild_permissions(guild, call.me.id) & permissions.MANAGE_WEBHOOKS:
        raise errors.missing_permissions()
    return [_listed(call, w) for w in call.world.webhooks.values() if w.guild_id == guild.id]


def _webhook(call: RestCall) -> Webhook:
    """The webhook in the path, authorised by the token in the path, otherwise by the bot's permission."""
    webhook = call.world.webhooks.get(call.id("webhook_id"))
    if webhook is None:
        raise errors.unknown("Webhook")
    token = call.request.match_info.get("token")
    if token is None:
        permissions.require(call.world, call.me.id, call.world.channel(webhook.channel_id), permissions.MANAGE_WEBHOOKS)
    elif token != webhook.token:
        raise errors.ApiError(401, 50027, "Invalid Webhook Token")
    return webhook


async def get(call: RestCall) -> Any:
    return payloads.webhook(call.world, _webhook(call))


async def change(call: RestCall) -> Any:
    webhook = _webhook(call)
    if name := str((await call.json()).get("name") or "").strip():
        _check_name("name", name)
        webhook.name = name
    return payloads.webhook(call.world, webhook)


async def remove(call: RestCall) -> None:
    webhook = _webhook(call)
    del call.world.webhooks[webhook.id]
    channel = call.world.channel(webhook.channel_id)
    call.backend.emit("WEBHOOKS_UPDATE", messages.place(channel), channel)


def _place(call: RestCall, webhook: Webhook) -> Channel:
    """The webhook's channel, or the thread of it that the query names."""
    thread_id = call.query_id("thread_id")
    if thread_id is None:
        return call.world.channel(webhook.channel_id)
    thread = call.world.find_channel(thread_id)
    if thread is None or thread.parent_id != webhook.channel_id:
        raise errors.unknown("Channel")
    return thread


async def execute(call: RestCall) -> Any:
    if rest_interactions.is_interaction(call):
        return await rest_interactions.follow_up(call)
    webhook = _webhook(call)
    channel = _place(call, webhook)
    body, uploads = await call.form()
    draft = draft_of(body, uploads)
    draft.check()
    if body.get("username") is not None:
        _check_name("username", str(body["username"]))
    threads.require_webhook_post(channel)
    author = face(webhook, body.get("username"), body.get("avatar_url"))
    how = Posting(webhook_id=webhook.id, application_id=webhook.application_id)
    message = messages.post(call.backend, channel, author, draft, how)
    if call.request.query.get("wait", "").lower() in ("true", "1"):
        return message_payloads.message(call.world, message)
    return RestAnswer(204)


def _message(call: RestCall) -> tuple[Channel, Message]:
    webhook = _webhook(call)
    channel = _place(call, webhook)
    message = channel.messages.get(snowflake("message_id", call.request.match_info["message_id"]))
    if message is None or message.webhook_id != webhook.id:
        raise errors.unknown("Message")
    return channel, message


async def get_message(call: RestCall) -> Any:
    if rest_interactions.is_interaction(call):
        return rest_interactions.get_answer(call)
    return message_payloads.message(call.world, _message(call)[1])


async def change_message(call: RestCall) -> Any:
    if rest_interactions.is_interaction(call):
        return await rest_interactions.change_answer(call)
    channel, message = _message(call)
    messages.edit(call.backend, channel, message, change_of(*await call.form()))
    return message_payloads.message(call.world, message)


async def remove_message(call: RestCall) -> None:
    if rest_interactions.is_interaction(call):
        rest_interactions.remove_answer(call)
        return
    channel, message = _message(call)
    messages.delete(call.backend, channel, [message.id])


_BY_TOKEN = "/webhooks/{webhook_id}/{token}"  # noqa: S105 - a path
_MESSAGE = _BY_TOKEN + "/messages/{message_id}"

WEBHOOKS_ENDPOINTS = [
    RestEndpoint("POST", "/channels/{channel_id}/webhooks", create),
    RestEndpoint("GET", "/channels/{channel_id}/webhooks", of_channel),
    RestEndpoint("GET", "/guilds/{guild_id}/webhooks", of_guild),
    RestEndpoint("GET", "/webhooks/{webhook_id}", get),
    RestEndpoint("PATCH", "/webhooks/{webhook_id}", change),
    RestEndpoint("DELETE", "/webhooks/{webhook_id}", remove),
    RestEndpoint("GET", _BY_TOKEN, get, open=True),
    RestEndpoint("PATCH", _BY_TOKEN, change, open=True),
    RestEndpoint("DELETE", _BY_TOKEN, remove, open=True),
    RestEndpoint("POST", _BY_TOKEN, execute, "webhooks", open=True),
    RestEndpoint("GET", _MESSAGE, get_message, open=True),
    RestEndpoint("PATCH", _MESSAGE, change_message, "webhooks", open=True),
    RestEndpoint("DELETE", _MESSAGE, remove_message, "webhooks", open=True),
]
