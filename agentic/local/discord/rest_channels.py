"""Channels, threads, messages, pins, and reactions over REST."""

from __future__ import annotations

from typing import Any

from agentic.local.discord import channels, messages, payloads, polls, world
from agentic.local.discord.rest import RestCall, RestEndpoint, draft_of, json_response
from agentic.local.discord.world import ApiError, Channel, Message


async def change_channel(call: RestCall) -> Any:
    """Change the name, archived, locked, and auto-archive of a thread; bots change no other channels."""
    thread = call.channel()
    channels.change_thread(call.world, thread, await call.json())
    channels.publish_change(call.world, thread)
    return payloads.channel(call.world, thread)


async def create_thread(call: RestCall) -> Any:
    """Create a thread, from the message in the path if there is one."""
    channel, body = call.channel(), await call.json()
    how: dict[str, Any] = {"archive_minutes": int(body.get("auto_archive_duration") or 1440)}
    if "message_id" in call.request.match_info:
        how["message"] = call.message(channel)
    else:
        how["kind"] = int(body.get("type") or world.PRIVATE_THREAD)
    thread = channels.create_thread(call.world, channel, body["name"], call.me, **how)
    return json_response(201, payloads.channel(call.world, thread))


def read_history(call: RestCall) -> Any:
    """List messages, the newest first."""
    channel, limit = call.channel(), call.limit(50)
    before = call.query_id("before")
    found = [m for m in channel.messages.values() if before is None or m.id < before][-limit:]  # oldest first
    return [payloads.message(call.world, m, call.me.id) for m in reversed(found)]


def read_message(call: RestCall) -> Any:
    channel = call.channel()
    return payloads.message(call.world, call.message(channel), call.me.id)


async def post_message(call: RestCall) -> Any:
    channel = call.channel()
    body, uploads = await call.form()
    draft = draft_of(body, uploads)
    if wanted := body.get("message_reference"):
        target = channel.messages.get(int(wanted["message_id"]))
        if target is not None:
            draft.reference = messages.reference(channel, target)
        elif wanted.get("fail_if_not_exists", True):
            error = {"code": "REPLIES_UNKNOWN_MESSAGE", "message": "Unknown message"}
            raise ApiError(400, 50035, "Invalid Form Body", errors={"message_reference": {"_errors": [error]}})
    draft.poll = polls.poll_of(call.world, body["poll"]) if body.get("poll") else None
    nonce = (call.me.id, str(draft.nonce)) if draft.nonce is not None and body.get("enforce_nonce") else None
    message = call.world.nonces.get(nonce) if nonce else None
    if message is None or message.id not in channel.messages:
        message = messages.post(call.world, channel, call.me, draft)
        if nonce:
            call.world.nonces[nonce] = message
    return payloads.message(call.world, message, call.me.id)


async def change_message(call: RestCall) -> Any:
    channel, message = _target(call)
    body, uploads = await call.form()
    messages.edit(call.world, channel, message, body, uploads)
    return payloads.message(call.world, message, call.me.id)


def delete_message(call: RestCall) -> None:
    channel, message = _target(call)
    messages.delete(call.world, channel, message.id)


def start_typing(call: RestCall) -> None:
    messages.publish_typing(call.world, call.channel(), call.me.id)


def list_pins(call: RestCall) -> Any:
    channel = call.channel()
    limit, before = call.limit(50), call.request.query.get("before")
    times = ((m, world.iso(m.pinned_at)) for m in channel.messages.values() if m.pinned_at is not None)
    pinned = sorted((one for one in times if not before or one[1] < before), key=lambda one: one[1], reverse=True)
    items = [{"pinned_at": at, "message": payloads.message(call.world, m, call.me.id)} for m, at in pinned[:limit]]
    return {"items": items, "has_more": len(pinned) > limit}


def _target(call: RestCall) -> tuple[Channel, Message]:
    channel = call.channel()
    return channel, call.message(channel)


def add_reaction(call: RestCall) -> None:
    channel, message = _target(call)
    emoji = messages.parse_emoji(call.world, call.request.match_info["emoji"])
    messages.add_reaction(call.world, channel, message, call.me.id, emoji)


def list_reaction_users(call: RestCall) -> Any:
    _, message = _target(call)
    after = call.query_id("after") or 0
    emoji = messages.parse_emoji(call.world, call.request.match_info["emoji"])
    burst = bool(call.query_id("type"))
    given = (u for u in message.reactions.get(emoji, []) if ((emoji, u) in message.super_reactions) == burst)
    users = sorted(u for u in given if u > after)
    return [payloads.user(call.world.users[u]) for u in users[: call.limit(25)]]


_CHANNEL = "/channels/{channel_id}"
_MESSAGES = _CHANNEL + "/messages"
_MESSAGE = _MESSAGES + "/{message_id}"
_EMOJI = _MESSAGE + "/reactions/{emoji}"

ENDPOINTS = [
    *polls.ENDPOINTS,
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
    RestEndpoint("POST", _MESSAGE + "/threads", create_thread),
    RestEndpoint("POST", _CHANNEL + "/threads", create_thread),
]
