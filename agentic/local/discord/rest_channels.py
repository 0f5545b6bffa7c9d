"""REST: channels and threads themselves."""

from typing import Any

from agentic.local.discord import channels, errors, payloads, permissions, threads
from agentic.local.discord.calls import RestAnswer, RestCall, RestEndpoint
from agentic.local.discord.world import PRIVATE_THREAD, PUBLIC_THREAD, THREADS, Channel, Overwrite


async def get(call: RestCall) -> Any:
    return payloads.channel(call.world, call.channel())


async def create(call: RestCall) -> Any:
    guild = call.guild()
    if not permissions.guild_permissions(guild, call.me.id) & permissions.MANAGE_CHANNELS:
        raise errors.missing_permissions()
    body = await call.json()
    return RestAnswer(
        201, payloads.channel(call.world, channels.create(call.backend, guild, body["name"], body.get("topic")))
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
