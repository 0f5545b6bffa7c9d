"""REST: messages of a channel, their pins, typing."""

from typing import Any

from agentic.local.discord import errors, message_payloads, messages, payloads, permissions, threads
from agentic.local.discord.calls import RestCall, RestEndpoint, draft_of, snowflake
from agentic.local.discord.messages import Change
from agentic.local.discord.snowflakes import iso
from agentic.local.discord.world import Channel, Message

_TWO_WEEKS = 14 * 86_400
_MAX_PINS = 250


def shown(call: RestCall, channel: Channel, message: Message) -> payloads.Json:
    """A message as this bot may see it: without content, if its application lacks the message content intent."""
    body = message_payloads.message(call.world, message, call.me.id)
    if call.app.message_content or channel.guild_id is None:
        return body
    return message_payloads.without_content(body, call.me.id)


async def history(call: RestCall) -> Any:
    """Newest first. Without the permission to read history there are no messages instead of an error, as with
    Discord."""
    channel = call.channel()
    limit = call.limit(50, 100)
    if not call.may(channel, permissions.READ_MESSAGE_HISTORY):
        return []
    before, after, around = (call.query_id(name) for name in ("before", "after", "around"))
    found = _page(list(channel.messages.values()), limit, before, after, around)
    return [shown(call, channel, m) for m in reversed(found)]


def _page(
    oldest_first: list[Message], limit: int, before: int | None, after: int | None, around: int | None
) -> list[Message]:
    if around is not None:
        half = limit // 2
        older = [m for m in oldest_first if m.id < around][-half:] if half else []
        return older + [m for m in oldest_first if m.id >= around][: limit - half]
    if before is not None:
        return [m for m in oldest_first if m.id < before][-limit:]
    if after is not None:
        return [m for m in oldest_first if m.id > after][:limit]
    return oldest_first[-limit:]


async def get_one(call: RestCall) -> Any:
    channel = call.channel(permissions.READ_MESSAGE_HISTORY)
    return shown(call, channel, call.message(channel))


async def create(call: RestCall) -> Any:
    channel = call.channel()
    permissions.require(call.world, call.me.id, channel, permissions.sending_bit(channel))
    body, uploads = await call.form()
    draft = draft_of(body, uploads)
    draft.check()
    if uploads:
        permissions.require(call.world, call.me.id, channel, permissions.ATTACH_FILES)
    threads.require_post(call.world, call.me.id, channel)
    draft.reference = _reference(call, channel, body.get("message_reference"))
    nonce = str(draft.nonce) if draft.nonce is not None and body.get("enforce_nonce") else None
    first = call.backend.message_of_nonce(call.me.id, nonce) if nonce else None
    if first is not None:
        return message_payloads.message(call.world, first, call.me.id)
    message = messages.post(call.backend, channel, call.me, draft)
    if nonce:
        call.backend.remember_nonce(call.me.id, nonce, message)
    return message_payloads.message(call.world, message, call.me.id)


def _reference(call: RestCall, channel: Channel, wanted: dict[str, Any] | None) -> dict[str, Any] | None:
    if not wanted:
        return None
    permissions.require(call.world, call.me.id, channel, permissions.READ_MESSAGE_HISTORY)
    target = channel.messages.get(snowflake("message_reference.message_id", str(wanted["message_id"])))
    if target is not None:
        return messages.reference(channel, target)
    if wanted.get("fail_if_not_exists", True):
        raise errors.invalid_form("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
    return None


async def change(call: RestCall) -> Any:
    channel = call.channel()
    message = call.message(channel)
    body, uploads = await call.form()
    if message.author.id != call.me.id and (
        set(body) != {"flags"} or not call.may(channel, permissions.MANAGE_MESSAGES)
    ):
        raise errors.ApiError(403, 50005, "Cannot edit a message authored by another user")
    messages.edit(call.backend, channel, message, change_of(body, uploads))
    return message_payloads.message(call.world, message, call.me.id)


def change_of(body: dict[str, Any], uploads: list[messages.Upload]) -> Change:
    """An edit's body as a Change. A content of null empties the text; attachments that are not listed are removed."""
    keep = None
    if body.get("attachments") is not None:
        keep = {int(a["id"]) for a in body["attachments"]}
    return Change(
        content=str(body["content"] or "") if "content" in body else None,
        embeds=list(body["embeds"] or ()) if "embeds" in body else None,
        components=list(body["components"] or ()) if "components" in body else None,
        flags=body.get("flags"),
        keep=keep,
        uploads=uploads,
        allowed_mentions=body.get("allowed_mentions"),
    )


async def remove(call: RestCall) -> None:
    channel = call.channel()
    message = call.message(channel)
    if message.author.id != call.me.id:
        permissions.require(call.world, call.me.id, channel, permissions.MANAGE_MESSAGES)
    messages.delete(call.backend, channel, [message.id])


async def remove_many(call: RestCall) -> None:
    channel = call.channel(permissions.MANAGE_MESSAGES)
    ids = [int(m) for m in (await call.json()).get("messages") or ()]
    if not 2 <= len(ids) <= 100:
        raise errors.ApiError(400, 50016, "Provided too few or too many messages to delete. Must provide 2 to 100.")
    oldest = call.backend.clock() - _TWO_WEEKS
    if any(m in channel.messages and channel.messages[m].timestamp < oldest for m in ids):
        raise errors.ApiError(400, 50034, "You can only bulk delete messages that are under 14 days old.")
    messages.delete(call.backend, channel, ids, bulk=True)


async def typing(call: RestCall) -> None:
    channel = call.channel()
    permissions.require(call.world, call.me.id, channel, permissions.sending_bit(channel))
    messages.tell_typing(call.backend, channel, call.me.id, call.app.key)


def _pinned(call: RestCall) -> tuple[Channel, list[Message]]:
    channel = call.channel(permissions.READ_MESSAGE_HISTORY)
    pinned = [m for m in channel.messages.values() if m.pinned_at is not None]
    return channel, sorted(pinned, key=lambda m: m.pinned_at or 0.0, reverse=True)


async def pins(call: RestCall) -> Any:
    channel, pinned = _pinned(call)
    limit = call.limit(50, 50)
    before = call.request.query.get("before")
    if before:
        pinned = [m for m in pinned if iso(m.pinned_at or 0.0) < before]
    items = [{"pinned_at": iso(m.pinned_at or 0.0), "message": shown(call, channel, m)} for m in pinned[:limit]]
    return {"items": items, "has_more": len(pinned) > limit}


async def old_pins(call: RestCall) -> Any:
    channel, pinned = _pinned(call)
    return [shown(call, channel, m) for m in pinned[:50]]


async def pin(call: RestCall) -> None:
    channel = call.channel(permissions.PIN_MESSAGES)
    if sum(m.pinned_at is not None for m in channel.messages.values()) >= _MAX_PINS:
        raise errors.ApiError(400, 30003, f"Maximum number of pins reached for the channel ({_MAX_PINS})")
    messages.pin(call.backend, channel, call.message(channel), call.me)


async def unpin(call: RestCall) -> None:
    channel = call.channel(permissions.PIN_MESSAGES)
    messages.pin(call.backend, channel, call.message(channel), call.me, pinned=False)


_ALL = "/channels/{channel_id}/messages"
_ONE = _ALL + "/{message_id}"

ENDPOINTS = [
    RestEndpoint("GET", _ALL + "/pins", pins),
    RestEndpoint("PUT", _ALL + "/pins/{message_id}", pin),
    RestEndpoint("DELETE", _ALL + "/pins/{message_id}", unpin),
    RestEndpoint("GET", "/channels/{channel_id}/pins", old_pins),
    RestEndpoint("PUT", "/channels/{channel_id}/pins/{message_id}", pin),
    RestEndpoint("DELETE", "/channels/{channel_id}/pins/{message_id}", unpin),
    RestEndpoint("POST", _ALL + "/bulk-delete", remove_many, "deletes"),
    RestEndpoint("GET", _ALL, history, "history"),
    RestEndpoint("POST", _ALL, create, "messages_per_channel"),
    RestEndpoint("GET", _ONE, get_one),
    RestEndpoint("PATCH", _ONE, change, "edits"),
    RestEndpoint("DELETE", _ONE, remove, "deletes"),
    RestEndpoint("POST", "/channels/{channel_id}/typing", typing, "typing"),
]
