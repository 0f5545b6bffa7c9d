"""Channels, threads, messages, pins, and reactions over REST: the handlers check permissions, then change the world."""

from __future__ import annotations

from typing import Any

from agentic.local.discord import channels, messages, payloads, world
from agentic.local.discord.rest import RestCall, RestEndpoint, draft_of, json_response, snowflake
from agentic.local.discord.world import ApiError, Channel, Message


async def change_channel(call: RestCall) -> Any:
    """Change name, archived, locked and auto-archive of a thread; bots change no other channel."""
    thread = call.channel()
    if not thread.is_thread:
        raise ApiError(400, 50024, "Cannot execute action on this channel type")
    body = await call.json()
    channels.require_thread_change(call.world, call.me.id, thread, body)
    channels.change_thread(call.world, thread, body)
    channels.publish_change(call.world, thread)
    return payloads.channel(call.world, thread)


async def create_thread_from_message(call: RestCall) -> Any:
    channel = call.channel(world.CREATE_PUBLIC_THREADS)
    message = call.message(channel)
    if message.thread_id is not None:
        raise ApiError(400, 160004, "A thread has already been created for this message")
    return _create_thread(call, channel, await call.json(), message=message)


async def create_thread_alone(call: RestCall) -> Any:
    body = await call.json()
    kind = int(body.get("type") or world.PRIVATE_THREAD)
    private = kind == world.PRIVATE_THREAD
    channel = call.channel(world.CREATE_PRIVATE_THREADS if private else world.CREATE_PUBLIC_THREADS)
    if kind not in world.THREADS:
        raise world.invalid_form("type", "BASE_TYPE_CHOICES", f"Value must be one of {sorted(world.THREADS)}.")
    return _create_thread(call, channel, body, kind=kind)


def _create_thread(call: RestCall, channel: Channel, body: dict[str, Any], **how: Any) -> Any:
    name, minutes = channels.read_name(body), channels.read_archive_minutes(body)
    thread = channels.create_thread(call.world, channel, name, call.me, archive_minutes=minutes, **how)
    return json_response(201, payloads.channel(call.world, thread))


def read_history(call: RestCall) -> Any:
    """Newest first. As with Discord, a bot that may not read history gets no messages instead of an error."""
    channel = call.channel()
    limit = call.limit(50, 100)
    if not call.may(channel, world.READ_MESSAGE_HISTORY):
        return []
    before = call.query_id("before")
    found = [m for m in channel.messages.values() if before is None or m.id < before][-limit:]  # oldest first
    return [payloads.message(call.world, m, call.me.id) for m in reversed(found)]


def read_message(call: RestCall) -> Any:
    channel = call.channel(world.READ_MESSAGE_HISTORY)
    return payloads.message(call.world, call.message(channel), call.me.id)


async def post_message(call: RestCall) -> Any:
    channel = _channel_to_post(call)
    body, uploads = await call.form()
    draft = draft_of(body, uploads)
    draft.check()
    if uploads:
        call.require(channel, world.ATTACH_FILES)
    channels.require_post(call.world, call.me.id, channel)
    if wanted := body.get("message_reference"):
        call.require(channel, world.READ_MESSAGE_HISTORY)
        target = channel.messages.get(snowflake("message_reference.message_id", str(wanted["message_id"])))
        if target is not None:
            draft.reference = messages.reference(channel, target)
        elif wanted.get("fail_if_not_exists", True):
            raise world.invalid_form("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
    nonce = str(draft.nonce) if draft.nonce is not None and body.get("enforce_nonce") else None
    message = call.world.message_of_nonce(call.me.id, nonce) if nonce else None
    if message is None:
        message = messages.post(call.world, channel, call.me, draft)
        if nonce:
            call.world.remember_nonce(call.me.id, nonce, message)
    return payloads.message(call.world, message, call.me.id)


def _channel_to_post(call: RestCall) -> Channel:
    channel = call.channel()
    call.require(channel, world.SEND_MESSAGES_IN_THREADS if channel.is_thread else world.SEND_MESSAGES)
    return channel


async def change_message(call: RestCall) -> Any:
    channel, message = _target(call)
    body, uploads = await call.form()
    if message.author.id != call.me.id and (set(body) != {"flags"} or not call.may(channel, world.MANAGE_MESSAGES)):
        raise ApiError(403, 50005, "Cannot edit a message authored by another user")
    messages.edit(call.world, channel, message, body, uploads)
    return payloads.message(call.world, message, call.me.id)


def delete_message(call: RestCall) -> None:
    channel, message = _target(call)
    if message.author.id != call.me.id:
        call.require(channel, world.MANAGE_MESSAGES)
    messages.delete(call.world, channel, message.id)


def start_typing(call: RestCall) -> None:
    messages.publish_typing(call.world, _channel_to_post(call), call.me.id)


def list_pins(call: RestCall) -> Any:
    channel = call.channel(world.READ_MESSAGE_HISTORY)
    limit, before = call.limit(50, 50), call.request.query.get("before")
    times = ((m, world.iso(m.pinned_at)) for m in channel.messages.values() if m.pinned_at is not None)
    pinned = sorted((one for one in times if not before or one[1] < before), key=lambda one: one[1], reverse=True)
    items = [{"pinned_at": at, "message": payloads.message(call.world, m, call.me.id)} for m, at in pinned[:limit]]
    return {"items": items, "has_more": len(pinned) > limit}


def _target(call: RestCall, needed: int = 0) -> tuple[Channel, Message]:
    channel = call.channel(needed)
    return channel, call.message(channel)


def add_reaction(call: RestCall) -> None:
    channel, message = _target(call, world.READ_MESSAGE_HISTORY)
    emoji = messages.parse_emoji(call.world, call.request.match_info["emoji"])
    if emoji not in message.reactions:  # joining one that is there needs no permission
        call.require(channel, world.ADD_REACTIONS)
    messages.add_reaction(call.world, channel, message, call.me.id, emoji)


def list_reaction_users(call: RestCall) -> Any:
    _, message = _target(call, world.READ_MESSAGE_HISTORY)
    after = call.query_id("after") or 0
    emoji = messages.parse_emoji(call.world, call.request.match_info["emoji"])
    users = sorted(u for u in message.reactions.get(emoji, []) if u > after)
    return [payloads.user(call.world.users[u]) for u in users[: call.limit(25, 100)]]


_CHANNEL = "/channels/{channel_id}"
_MESSAGES = _CHANNEL + "/messages"
_MESSAGE = _MESSAGES + "/{message_id}"
_EMOJI = _MESSAGE + "/reactions/{emoji}"

ENDPOINTS = [
    RestEndpoint("GET", _MESSAGES + "/pins", list_pins),
    RestEndpoint("GET", _MESSAGES, read_history),
    RestEndpoint("POST", _MESSAGES, post_message),
    RestEndpoint("GET", _MESSAGE, read_message),
    RestEndpoint("PATCH", _MESSAGE, change_message),
    RestEndpoint("DELETE", _MESSAGE, delete_message),
    RestEndpoint("POST", _CHANNEL + "/typing", start_typing),
    RestEndpoint("PUT", _EMOJI + "/@me", add_reaction),
    RestEndpoint("GET", _EMOJI, list_reaction_users),
    RestEndpoint("GET", _CHANNEL, lambda call: payloads.channel(call.world, call.channel())),
    RestEndpoint("PATCH", _CHANNEL, change_channel),
    RestEndpoint("POST", _MESSAGE + "/threads", create_thread_from_message),
    RestEndpoint("POST", _CHANNEL + "/threads", create_thread_alone),
]
