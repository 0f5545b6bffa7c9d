"""Guilds, members, users, applications with their commands, and webhooks over REST.

Webhooks are created and listed by bots, and executed with the token in their address. Answers to interactions use the
same addresses (/webhooks/{application}/{token}); interactions.py handles them.
"""

from __future__ import annotations

import secrets
import unicodedata
from typing import Any

from agentic.chat.directory import BLANK_LETTERS
from agentic.local.discord import channels, interactions, messages, payloads, world
from agentic.local.discord.backend import Backend
from agentic.local.discord.rest import RestAnswer, RestCall, RestEndpoint, draft_of
from agentic.local.discord.world import ApiError, Channel, Message, User, Webhook

_MAX_WEBHOOKS = 15  # of a channel


def _own_commands(call: RestCall) -> list[dict[str, Any]]:
    """The list that the path names: of the guild in it, or the global one. Only the application's own."""
    if call.id("application_id") != call.app.id:
        raise ApiError(403, 20012, "You are not authorized to perform this action on this application")
    guild_id = call.guild().id if "guild_id" in call.request.match_info else None
    if guild_id in call.app.without_commands:
        raise world.missing_access()
    return call.app.commands.setdefault(guild_id, [])


def _build_command(call: RestCall, body: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A command as Discord saves it; one of the same name keeps its id."""
    old = known.get(body["name"])
    command = {
        "type": 1,
        "description": "",
        "options": [],
        "default_member_permissions": None,
        "nsfw": False,
        **_without_defaults(body),
        "id": old["id"] if old else str(call.world.new_id()),
        "application_id": str(call.app.id),
        "version": str(call.world.new_id()),
    }
    if "guild_id" in call.request.match_info:
        command["guild_id"] = call.request.match_info["guild_id"]
    return command


def _without_defaults(option: dict[str, Any]) -> dict[str, Any]:
    """Discord leaves out defaults: an option that is not required, no choices."""
    body = {key: value for key, value in option.items() if key != "required" or value}
    if isinstance(body.get("default_member_permissions"), int):
        body["default_member_permissions"] = str(body["default_member_permissions"])
    if "options" in body:
        body["options"] = [_without_defaults(one) for one in body["options"]]
    return body


async def replace_commands(call: RestCall) -> Any:
    commands = _own_commands(call)
    known = {c["name"]: c for c in commands}
    commands[:] = [_build_command(call, body, known) for body in await call.json_list()]
    return commands


async def add_command(call: RestCall) -> Any:
    commands = _own_commands(call)
    known = {c["name"]: c for c in commands}
    added = _build_command(call, await call.json(), known)
    commands[:] = [c for c in commands if c["name"] != added["name"]] + [added]
    return RestAnswer(200 if added["name"] in known else 201, added)


def remove_command(call: RestCall) -> None:
    commands = _own_commands(call)
    wanted = call.request.match_info["command_id"]
    if all(c["id"] != wanted for c in commands):
        raise world.unknown("application command")
    commands[:] = [c for c in commands if c["id"] != wanted]


def read_user(call: RestCall) -> Any:
    user = call.world.users.get(call.id("user_id"))
    if user is None:
        raise world.unknown("User")
    return payloads.user(user)


def list_own_guilds(call: RestCall) -> Any:
    after = call.query_id("after") or 0
    return [
        {
            "id": str(guild.id),
            "name": guild.name,
            "icon": None,
            "owner": guild.owner_id == call.me.id,
            "permissions": str(world.guild_permissions(guild, call.me.id)),
            "features": [],
        }
        for guild in call.world.guilds.values()
        if call.me.id in guild.members and guild.id > after
    ][: call.limit(200, 200)]


async def open_direct_channel(call: RestCall) -> Any:
    recipient = int((await call.json())["recipient_id"])
    if recipient not in call.world.users:
        raise ApiError(400, 50033, "Invalid Recipient(s)")
    return payloads.channel(call.world, channels.direct_channel(call.backend, call.me.id, recipient))


def list_channels(call: RestCall) -> Any:
    return [payloads.channel(call.world, c) for c in call.guild().channels.values() if not c.is_thread]


def list_members(call: RestCall) -> Any:
    guild = call.guild()
    if not call.app.members_intent:
        raise world.missing_access()
    after = call.query_id("after") or 0
    found = sorted((m for m in guild.members.values() if m.user.id > after), key=lambda m: m.user.id)
    return [payloads.member(m) for m in found[: call.limit(1, 1000)]]


def search_members(call: RestCall) -> Any:
    begins = call.request.query.get("query", "").lower()
    found = [m for m in call.guild().members.values() if (m.nick or m.user.username).lower().startswith(begins)]
    return [payloads.member(m) for m in found[: call.limit(1, 1000)]]


def read_member(call: RestCall) -> Any:
    guild = call.guild()
    user_id = call.me.id if call.request.match_info["user_id"] == "@me" else call.id("user_id")
    if user_id not in guild.members:
        raise world.unknown("Member")
    return payloads.member(guild.members[user_id])


def make_webhook(backend: Backend, channel: Channel, name: str, creator_id: int | None, app_id: int | None) -> Webhook:
    """Create a webhook of a channel and publish its event."""
    webhook = Webhook(
        id=backend.world.new_id(),
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


def webhook_author(webhook: Webhook, name: str | None, avatar: str | None = None) -> User:
    """The author shown at a webhook's message."""
    return User(webhook.id, name or webhook.name, bot=True, avatar=avatar or webhook.avatar)


async def create_webhook(call: RestCall) -> Any:
    channel = call.channel(world.MANAGE_WEBHOOKS)
    name = str((await call.json()).get("name") or "").strip()
    _check_name("name", name)
    if sum(w.channel_id == channel.id for w in call.world.webhooks.values()) >= _MAX_WEBHOOKS:
        raise ApiError(400, 30007, f"Maximum number of webhooks reached ({_MAX_WEBHOOKS})")
    return payloads.webhook(call.world, make_webhook(call.backend, channel, name, call.me.id, call.app.id))


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
        raise world.invalid_form(field, "WEBHOOK_NAME_INVALID", "Webhook name is not allowed.")


def list_channel_webhooks(call: RestCall) -> Any:
    channel = call.channel(world.MANAGE_WEBHOOKS)
    return [_list_item(call, w) for w in call.world.webhooks.values() if w.channel_id == channel.id]


def list_guild_webhooks(call: RestCall) -> Any:
    guild = call.guild(world.MANAGE_WEBHOOKS)
    return [_list_item(call, w) for w in call.world.webhooks.values() if w.guild_id == guild.id]


def _list_item(call: RestCall, webhook: Webhook) -> Any:
    """A webhook in a list; another application's has no token."""
    body = payloads.webhook(call.world, webhook)
    if webhook.application_id not in (None, call.app.id):
        del body["token"]
    return body


def _webhook(call: RestCall) -> Webhook:
    """The webhook in the path, authorized by the token in the path, otherwise by the bot's permission."""
    webhook = call.world.webhooks.get(call.id("webhook_id"))
    if webhook is None:
        raise world.unknown("Webhook")
    token = call.request.match_info.get("token")
    if token is None:
        call.require(call.world.channel(webhook.channel_id), world.MANAGE_WEBHOOKS)
    elif token != webhook.token:
        raise ApiError(401, 50027, "Invalid Webhook Token")
    return webhook


def read_webhook(call: RestCall) -> Any:
    return payloads.webhook(call.world, _webhook(call))


async def change_webhook(call: RestCall) -> Any:
    webhook = _webhook(call)
    if name := str((await call.json()).get("name") or "").strip():
        _check_name("name", name)
        webhook.name = name
    return payloads.webhook(call.world, webhook)


def delete_webhook(call: RestCall) -> None:
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
        raise world.unknown("Channel")
    return thread


async def execute_webhook(call: RestCall) -> Any:
    if interactions.is_interaction(call):
        return await interactions.follow_up(call)
    webhook = _webhook(call)
    channel = _place(call, webhook)
    body, uploads = await call.form()
    draft = draft_of(body, uploads)
    draft.check()
    if body.get("username") is not None:
        _check_name("username", str(body["username"]))
    if channel.locked and channel.archived:  # it has no permissions: it posts into a locked one, but unarchives none
        raise world.archived()
    author = webhook_author(webhook, body.get("username"), body.get("avatar_url"))
    draft.webhook_id, draft.application_id = webhook.id, webhook.application_id
    message = messages.post(call.backend, channel, author, draft)
    if call.request.query.get("wait", "").lower() in ("true", "1"):
        return payloads.message(call.world, message)
    return RestAnswer(204)


def _webhook_message(call: RestCall) -> tuple[Channel, Message]:
    webhook = _webhook(call)
    channel = _place(call, webhook)
    message = call.message(channel)
    if message.webhook_id != webhook.id:
        raise world.unknown("Message")
    return channel, message


def read_webhook_message(call: RestCall) -> Any:
    if interactions.is_interaction(call):
        return interactions.read_answer(call)
    return payloads.message(call.world, _webhook_message(call)[1])


async def change_webhook_message(call: RestCall) -> Any:
    if interactions.is_interaction(call):
        return await interactions.change_answer(call)
    channel, message = _webhook_message(call)
    messages.edit(call.backend, channel, message, *await call.form())
    return payloads.message(call.world, message)


def delete_webhook_message(call: RestCall) -> None:
    if interactions.is_interaction(call):
        interactions.delete_answer(call)
        return
    channel, message = _webhook_message(call)
    messages.delete(call.backend, channel, [message.id])


_GUILD = "/guilds/{guild_id}"
_WEBHOOK = "/webhooks/{webhook_id}"
_BY_TOKEN = _WEBHOOK + "/{token}"
_MESSAGE = _BY_TOKEN + "/messages/{message_id}"

ENDPOINTS = [
    RestEndpoint("POST", "/channels/{channel_id}/webhooks", create_webhook),
    RestEndpoint("GET", "/channels/{channel_id}/webhooks", list_channel_webhooks),
    RestEndpoint("GET", _GUILD + "/webhooks", list_guild_webhooks),
    RestEndpoint("GET", _WEBHOOK, read_webhook),
    RestEndpoint("PATCH", _WEBHOOK, change_webhook),
    RestEndpoint("DELETE", _WEBHOOK, delete_webhook),
    RestEndpoint("GET", _BY_TOKEN, read_webhook, open=True),
    RestEndpoint("PATCH", _BY_TOKEN, change_webhook, open=True),
    RestEndpoint("DELETE", _BY_TOKEN, delete_webhook, open=True),
    RestEndpoint("POST", _BY_TOKEN, execute_webhook, open=True),
    RestEndpoint("GET", _MESSAGE, read_webhook_message, open=True),
    RestEndpoint("PATCH", _MESSAGE, change_webhook_message, open=True),
    RestEndpoint("DELETE", _MESSAGE, delete_webhook_message, open=True),
    RestEndpoint("GET", "/oauth2/applications/@me", lambda call: payloads.application(call.world, call.app)),
    RestEndpoint("GET", "/applications/@me", lambda call: payloads.application(call.world, call.app)),
    RestEndpoint("GET", "/applications/{application_id}/emojis", lambda _: {"items": []}),
    # py-cord reads the default sounds before it is ready; local use needs none
    RestEndpoint("GET", "/soundboard-default-sounds", lambda _: []),
    RestEndpoint("GET", _GUILD + "/soundboard-sounds", lambda _: {"items": []}),
    *(
        endpoint
        for path in ("/applications/{application_id}/commands", "/applications/{application_id}" + _GUILD + "/commands")
        for endpoint in (
            RestEndpoint("GET", path, _own_commands),
            RestEndpoint("PUT", path, replace_commands),
            RestEndpoint("POST", path, add_command),
            RestEndpoint("DELETE", path + "/{command_id}", remove_command),
        )
    ),
    RestEndpoint("GET", "/users/@me", lambda call: payloads.own_user(call.me)),
    RestEndpoint("GET", "/users/@me/guilds", list_own_guilds),
    RestEndpoint("POST", "/users/@me/channels", open_direct_channel),
    RestEndpoint("GET", "/users/{user_id}", read_user),
    RestEndpoint("GET", _GUILD, lambda call: payloads.guild(call.guild())),
    RestEndpoint("GET", _GUILD + "/channels", list_channels),
    RestEndpoint("GET", _GUILD + "/roles", lambda call: payloads.guild(call.guild())["roles"]),
    RestEndpoint("GET", _GUILD + "/emojis", lambda call: payloads.guild(call.guild())["emojis"]),
    RestEndpoint("GET", _GUILD + "/members", list_members),
    RestEndpoint("GET", _GUILD + "/members/search", search_members),
    RestEndpoint("GET", _GUILD + "/members/{user_id}", read_member),
]
