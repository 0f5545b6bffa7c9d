"""Channels, messages, reactions over REST.

REST: channels and threads themselves.

REST: messages of a channel, their pins, typing.

Reactions to a message, and what counts as an emoji.

REST: reactions of a message.
"""

from __future__ import annotations

from typing import Any

from agentic.chat.emoji import is_reaction_emoji
from agentic.local.discord import channels, messages, payloads
from agentic.local.discord import channels as threads
from agentic.local.discord import payloads as message_payloads
from agentic.local.discord import world as errors
from agentic.local.discord import world as permissions
from agentic.local.discord.backend import Backend
from agentic.local.discord.messages import Change, place, require_unarchived
from agentic.local.discord.rest import RestAnswer, RestCall, RestEndpoint, draft_of, snowflake
from agentic.local.discord.world import PRIVATE_THREAD, PUBLIC_THREAD, THREADS, Channel, Message, Overwrite, World, iso


async def get(call: RestCall) -> Any:
    return payloads.channel(call.world, call.channel())


async def create(call: RestCall) -> Any:
    guild = call.guild()
    if not permissions.guild_permissions(guild, call.me.id) & permissions.MANAGE_CHANNELS:
        raise errors.missing_permissions()
    body = await call.json()
    return RestAnswer(
        201,
        payloads.channel(call.world, channels.channels_create(call.backend, guild, body["name"], body.get("topic"))),
    )


async def change(call: RestCall) -> Any:
    """Name, topic and overwrites of a channel; name, archived, locked and auto-archive of a thread."""
    channel = call.channel()
    body = await call.json()
    if channel.is_thread:
        threads.require_change(call.world, call.me.id, channel, body)
        threads.change(call.backend, channel, body)
    else:
        _change_channel(call, channel, body)
    channels.tell_changed(call.backend, channel)
    return payloads.channel(call.world, channel)


def _change_channel(call: RestCall, channel: Channel, body: dict[str, Any]) -> None:
    permissions.require(call.world, call.me.id, channel, permissions.MANAGE_CHANNELS)
    channel.name = body.get("name", channel.name)
    channel.topic = body.get("topic", channel.topic)
    if "permission_overwrites" in body:
        permissions.require(call.world, call.me.id, channel, permissions.MANAGE_ROLES)
        channel.overwrites = {int(o["id"]): _overwrite(o) for o in body["permission_overwrites"]}


def _overwrite(body: dict[str, Any]) -> Overwrite:
    return Overwrite(int(body["id"]), int(body["type"]), int(body.get("allow", 0)), int(body.get("deny", 0)))


async def remove(call: RestCall) -> Any:
    channel = call.channel()
    bit = permissions.MANAGE_THREADS if channel.is_thread else permissions.MANAGE_CHANNELS
    permissions.require(call.world, call.me.id, channel, bit)
    body = payloads.channel(call.world, channel)
    channels.delete(call.backend, channel)
    return body


async def thread_from_message(call: RestCall) -> Any:
    channel = call.channel(permissions.CREATE_PUBLIC_THREADS)
    message = call.message(channel)
    if message.thread_id is not None:
        raise errors.ApiError(400, 160004, "A thread has already been created for this message")
    return _create_thread(call, channel, await call.json(), message=message)


async def thread_alone(call: RestCall) -> Any:
    body = await call.json()
    kind = int(body.get("type") or PRIVATE_THREAD)
    private = kind == PRIVATE_THREAD
    channel = call.channel(permissions.CREATE_PRIVATE_THREADS if private else permissions.CREATE_PUBLIC_THREADS)
    if kind not in THREADS:
        raise errors.invalid_form("type", "BASE_TYPE_CHOICES", f"Value must be one of {sorted(THREADS)}.")
    return _create_thread(call, channel, body, kind=kind)


def _create_thread(call: RestCall, channel: Channel, body: dict[str, Any], **how: Any) -> RestAnswer:
    name, minutes = threads.read_name(body), threads.read_archive_minutes(body)
    thread = threads.create(call.backend, channel, name, call.me, archive_minutes=minutes, **how)
    return RestAnswer(201, payloads.channel(call.world, thread))


async def join_thread(call: RestCall) -> None:
    thread = call.channel()
    if not thread.is_thread:
        raise errors.ApiError(400, 50024, "Cannot execute action on this channel type")
    if call.me.id not in thread.thread_members:
        thread.thread_members.append(call.me.id)
        channels.tell_changed(call.backend, thread)


async def active_threads(call: RestCall) -> Any:
    guild = call.guild()
    active = [c for c in guild.channels.values() if c.is_thread and not c.archived]
    seen = [t for t in active if permissions.may_view(call.world, call.me.id, t)]
    return {"threads": [payloads.channel(call.world, t) for t in seen], "members": []}


async def archived_threads(call: RestCall) -> Any:
    channel = call.channel(permissions.READ_MESSAGE_HISTORY)
    guild = call.world.guilds[channel.guild_id or 0]
    past = [c for c in guild.channels.values() if c.parent_id == channel.id and c.archived and c.type == PUBLIC_THREAD]
    return {"threads": [payloads.channel(call.world, t) for t in past], "members": [], "has_more": False}


_ONE = "/channels/{channel_id}"

ENDPOINTS = [
    RestEndpoint("GET", _ONE, get),
    RestEndpoint("PATCH", _ONE, change),
    RestEndpoint("DELETE", _ONE, remove),
    RestEndpoint("POST", "/guilds/{guild_id}/channels", create),
    RestEndpoint("POST", _ONE + "/messages/{message_id}/threads", thread_from_message),
    RestEndpoint("POST", _ONE + "/threads", thread_alone),
    RestEndpoint("PUT", _ONE + "/thread-members/@me", join_thread),
    RestEndpoint("GET", "/guilds/{guild_id}/threads/active", active_threads),
    RestEndpoint("GET", _ONE + "/threads/archived/public", archived_threads),
]


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


async def rest_messages_create(call: RestCall) -> Any:
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


async def rest_messages_change(call: RestCall) -> Any:
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


async def rest_messages_remove(call: RestCall) -> None:
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
_REST_MESSAGES_ONE = _ALL + "/{message_id}"

REST_MESSAGES_ENDPOINTS = [
    RestEndpoint("GET", _ALL + "/pins", pins),
    RestEndpoint("PUT", _ALL + "/pins/{message_id}", pin),
    RestEndpoint("DELETE", _ALL + "/pins/{message_id}", unpin),
    RestEndpoint("GET", "/channels/{channel_id}/pins", old_pins),
    RestEndpoint("PUT", "/channels/{channel_id}/pins/{message_id}", pin),
    RestEndpoint("DELETE", "/channels/{channel_id}/pins/{message_id}", unpin),
    RestEndpoint("POST", _ALL + "/bulk-delete", remove_many, "deletes"),
    RestEndpoint("GET", _ALL, history, "history"),
    RestEndpoint("POST", _ALL, rest_messages_create, "messages_per_channel"),
    RestEndpoint("GET", _REST_MESSAGES_ONE, get_one),
    RestEndpoint("PATCH", _REST_MESSAGES_ONE, rest_messages_change, "edits"),
    RestEndpoint("DELETE", _REST_MESSAGES_ONE, rest_messages_remove, "deletes"),
    RestEndpoint("POST", "/channels/{channel_id}/typing", typing, "typing"),
]


MAX_KINDS = 20
Emoji = tuple[int | None, str]


def parse_emoji(world: World, text: str) -> Emoji:
    """Read a fully qualified Unicode emoji, or "name:id" of a custom one (also as <:name:id>).

    Raises ApiError 10014 for anything else, as Discord does.
    """
    text = text.strip("<>").removeprefix("a:").removeprefix(":")
    name, colon, custom = text.rpartition(":")
    if colon and custom.isdecimal():
        if any(int(custom) in guild.emojis for guild in world.guilds.values()):
            return int(custom), name
    elif is_reaction_emoji(text):
        return None, text
    raise errors.ApiError(400, 10014, "Unknown Emoji")


def add(backend: Backend, channel: Channel, message: Message, user_id: int, emoji: Emoji) -> None:
    """Add a reaction and publish the event; an existing one changes nothing.

    Raises ApiError 30010 for one kind too many, and for an archived thread.
    """
    require_unarchived(channel)
    if emoji not in message.reactions and len(message.reactions) >= MAX_KINDS:
        raise errors.ApiError(403, 30010, f"Maximum number of reactions reached ({MAX_KINDS})")
    who = message.reactions.setdefault(emoji, [])
    if user_id in who:
        return
    who.append(user_id)
    body = _body(channel, message, emoji) | {"user_id": str(user_id), "burst": False, "type": 0}
    if not message.webhook_id:
        body["message_author_id"] = str(message.author.id)
    if channel.guild_id is not None and user_id in (members := backend.world.guilds[channel.guild_id].members):
        body["member"] = payloads.member(members[user_id])
    backend.emit("MESSAGE_REACTION_ADD", body, channel)


def world_reactions_remove(backend: Backend, channel: Channel, message: Message, user_id: int, emoji: Emoji) -> None:
    who = message.reactions.get(emoji, [])
    if user_id not in who:
        return
    require_unarchived(channel)
    who.remove(user_id)
    if not who:
        del message.reactions[emoji]
    body = _body(channel, message, emoji) | {"user_id": str(user_id), "burst": False, "type": 0}
    backend.emit("MESSAGE_REACTION_REMOVE", body, channel)


def remove_kind(backend: Backend, channel: Channel, message: Message, emoji: Emoji) -> None:
    if message.reactions.pop(emoji, None) is not None:
        backend.emit("MESSAGE_REACTION_REMOVE_EMOJI", _body(channel, message, emoji), channel)


def remove_all(backend: Backend, channel: Channel, message: Message) -> None:
    message.reactions.clear()
    backend.emit("MESSAGE_REACTION_REMOVE_ALL", {**place(channel), "message_id": str(message.id)}, channel)


def _body(channel: Channel, message: Message, emoji: Emoji) -> payloads.Json:
    return {**place(channel), "message_id": str(message.id), "emoji": payloads.emoji(*emoji)}


def _emoji(call: RestCall) -> Emoji:
    return parse_emoji(call.world, call.request.match_info["emoji"])


def _target(call: RestCall, needed: int = 0) -> tuple[Channel, Message]:
    channel = call.channel(needed)
    return channel, call.message(channel)


async def rest_reactions_add(call: RestCall) -> None:
    channel, message = _target(call, permissions.READ_MESSAGE_HISTORY)
    emoji = _emoji(call)
    if emoji not in message.reactions:  # joining one that is there needs no permission
        permissions.require(call.world, call.me.id, channel, permissions.ADD_REACTIONS)
    add(call.backend, channel, message, call.me.id, emoji)


async def remove_own(call: RestCall) -> None:
    channel, message = _target(call)
    world_reactions_remove(call.backend, channel, message, call.me.id, _emoji(call))


async def remove_other(call: RestCall) -> None:
    channel, message = _target(call, permissions.MANAGE_MESSAGES)
    world_reactions_remove(call.backend, channel, message, call.id("user_id"), _emoji(call))


async def rest_reactions_remove_kind(call: RestCall) -> None:
    channel, message = _target(call, permissions.MANAGE_MESSAGES)
    remove_kind(call.backend, channel, message, _emoji(call))


async def rest_reactions_remove_all(call: RestCall) -> None:
    channel, message = _target(call, permissions.MANAGE_MESSAGES)
    remove_all(call.backend, channel, message)


async def users(call: RestCall) -> Any:
    _, message = _target(call, permissions.READ_MESSAGE_HISTORY)
    after = call.query_id("after") or 0
    users = sorted(u for u in message.reactions.get(_emoji(call), []) if u > after)
    return [payloads.user(call.world.users[u]) for u in users[: call.limit(25, 100)]]


_REST_REACTIONS_ALL = "/channels/{channel_id}/messages/{message_id}/reactions"
_KIND = _REST_REACTIONS_ALL + "/{emoji}"

REST_REACTIONS_ENDPOINTS = [
    RestEndpoint("PUT", _KIND + "/@me", rest_reactions_add, "reactions"),
    RestEndpoint("DELETE", _KIND + "/@me", remove_own, "reactions"),
    RestEndpoint("DELETE", _KIND + "/{user_id}", remove_other, "reactions"),
    RestEndpoint("DELETE", _KIND, rest_reactions_remove_kind, "reactions"),
    RestEndpoint("DELETE", _REST_REACTIONS_ALL, rest_reactions_remove_all, "reactions"),
    RestEndpoint("GET", _KIND, users),
]
