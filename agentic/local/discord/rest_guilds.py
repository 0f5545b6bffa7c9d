"""Guilds, members, users, applications with their commands, and webhooks over REST.

Bots create and list webhooks, and execute them with the token in their address. Answers to interactions use the same
addresses (/webhooks/{application}/{token}); interactions.py handles them.
"""

from __future__ import annotations

import secrets
from typing import Any

from agentic.local.discord import interactions, messages, payloads, world
from agentic.local.discord.rest import RestCall, RestEndpoint, draft_of
from agentic.local.discord.world import ApiError, Channel, Message, User, Webhook, World


def list_commands(call: RestCall) -> list[dict[str, Any]]:
    """Return the bot's commands in the guild of the path, or its global commands."""
    guild_id = call.guild().id if "guild_id" in call.request.match_info else None
    return call.app.commands.setdefault(guild_id, [])


def _build_command(call: RestCall, body: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a command as Discord saves it. A command with a known name keeps its id."""
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
    """Leave out defaults, as Discord does: an option that isn't required, no choices."""
    body = {key: value for key, value in option.items() if key != "required" or value}
    if isinstance(body.get("default_member_permissions"), int):
        body["default_member_permissions"] = str(body["default_member_permissions"])
    if "options" in body:
        body["options"] = [_without_defaults(one) for one in body["options"]]
    return body


async def replace_commands(call: RestCall) -> Any:
    commands = list_commands(call)
    known = {c["name"]: c for c in commands}
    commands[:] = [_build_command(call, body, known) for body in await call.json_list()]
    return commands


def read_member(call: RestCall) -> Any:
    guild = call.guild()
    user_id = call.me.id if call.request.match_info["user_id"] == "@me" else call.id("user_id")
    if user_id not in guild.members:
        raise world.unknown("Member")
    return payloads.member(guild.members[user_id])


def make_webhook(world: World, channel: Channel, name: str, creator_id: int | None, app_id: int | None) -> Webhook:
    webhook = Webhook(
        id=world.new_id(),
        channel_id=channel.id,
        guild_id=channel.guild_id or 0,
        name=name,
        token=secrets.token_urlsafe(51),
        creator_id=creator_id,
        application_id=app_id,
    )
    world.webhooks[webhook.id] = webhook
    world.emit("WEBHOOKS_UPDATE", messages.place(channel), channel)
    return webhook


def webhook_author(webhook: Webhook, name: str | None, avatar: str | None = None) -> User:
    return User(webhook.id, name or webhook.name, bot=True, avatar=avatar)


async def create_webhook(call: RestCall) -> Any:
    name = (await call.json())["name"]
    return payloads.webhook(call.world, make_webhook(call.world, call.channel(), name, call.me.id, call.app.id))


def list_channel_webhooks(call: RestCall) -> Any:
    channel = call.channel()
    listed = [payloads.webhook(call.world, w) for w in call.world.webhooks.values() if w.channel_id == channel.id]
    own = (None, str(call.app.id))  # another application's has no token
    return [w if w["application_id"] in own else {**w, "token": None} for w in listed]


def _webhook(call: RestCall) -> Webhook:
    """Return the webhook in the path. Raises ApiError if it's unknown or the token there is wrong."""
    webhook = call.world.webhooks.get(call.id("webhook_id"))
    if webhook is None:
        raise world.unknown("Webhook")
    if call.request.match_info["token"] != webhook.token:
        raise ApiError(401, 50027, "Invalid Webhook Token")
    return webhook


def _place(call: RestCall, webhook: Webhook) -> Channel:
    """Return the webhook's channel, or its thread that the query names."""
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
    author = webhook_author(webhook, body.get("username"), body.get("avatar_url"))
    draft.webhook_id, draft.application_id = webhook.id, webhook.application_id
    message = messages.post(call.world, channel, author, draft)
    if call.request.query.get("wait", "").lower() in ("true", "1"):
        return payloads.message(call.world, message)
    return None


def _webhook_message(call: RestCall) -> tuple[Channel, Message]:
    webhook = _webhook(call)
    channel = _place(call, webhook)
    message = call.message(channel)
    if message.webhook_id != webhook.id:
        raise world.unknown("Message")
    return channel, message


async def change_webhook_message(call: RestCall) -> Any:
    if interactions.is_interaction(call):
        return await interactions.change_answer(call)
    channel, message = _webhook_message(call)
    messages.edit(call.world, channel, message, *await call.form())
    return payloads.message(call.world, message)


def delete_webhook_message(call: RestCall) -> None:
    channel, message = _webhook_message(call)
    messages.delete(call.world, channel, message.id)


_COMMANDS = "/applications/{application_id}/guilds/{guild_id}/commands"
_WEBHOOK = "/webhooks/{webhook_id}/{token}"
_MESSAGE = _WEBHOOK + "/messages/{message_id}"

ENDPOINTS = [
    RestEndpoint("POST", "/channels/{channel_id}/webhooks", create_webhook),
    RestEndpoint("GET", "/channels/{channel_id}/webhooks", list_channel_webhooks),
    RestEndpoint("POST", _WEBHOOK, execute_webhook, open=True),
    RestEndpoint("PATCH", _MESSAGE, change_webhook_message, open=True),
    RestEndpoint("DELETE", _MESSAGE, delete_webhook_message, open=True),
    RestEndpoint("GET", "/oauth2/applications/@me", lambda call: payloads.application(call.world, call.app)),
    RestEndpoint("GET", _COMMANDS, list_commands),
    RestEndpoint("PUT", _COMMANDS, replace_commands),
    RestEndpoint("GET", "/users/@me", lambda call: payloads.user(call.me)),
    RestEndpoint("GET", "/guilds/{guild_id}/members/{user_id}", read_member),
]
