"""REST: webhooks, created and listed by bots, executed with the token in their address.

Answers to interactions use the same addresses (/webhooks/{application}/{token}) and are handled by interactions.py.
"""

import secrets
import unicodedata
from typing import Any

from agentic.chat.directory import BLANK_LETTERS
from agentic.local.discord import errors, message_payloads, messages, payloads, permissions, threads
from agentic.local.discord import interactions as rest_interactions
from agentic.local.discord.backend import Backend
from agentic.local.discord.calls import RestAnswer, RestCall, RestEndpoint, draft_of, snowflake
from agentic.local.discord.messages import Posting
from agentic.local.discord.rest_messages import change_of
from agentic.local.discord.world import Channel, Message, User, Webhook

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

ENDPOINTS = [
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
