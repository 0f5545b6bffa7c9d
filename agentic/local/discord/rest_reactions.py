"""REST: reactions of a message."""

from typing import Any

from agentic.local.discord import payloads, permissions
from agentic.local.discord import world_reactions as reactions
from agentic.local.discord.calls import RestCall, RestEndpoint
from agentic.local.discord.world import Channel, Message


def _emoji(call: RestCall) -> reactions.Emoji:
    return reactions.parse_emoji(call.world, call.request.match_info["emoji"])


def _target(call: RestCall, needed: int = 0) -> tuple[Channel, Message]:
    channel = call.channel(needed)
    return channel, call.message(channel)


async def add(call: RestCall) -> None:
    channel, message = _target(call, permissions.READ_MESSAGE_HISTORY)
    emoji = _emoji(call)
    if emoji not in message.reactions:  # joining one that is there needs no permission
        permissions.require(call.world, call.me.id, channel, permissions.ADD_REACTIONS)
    reactions.add(call.backend, channel, message, call.me.id, emoji)


async def remove_own(call: RestCall) -> None:
    channel, message = _target(call)
    reactions.remove(call.backend, channel, message, call.me.id, _emoji(call))


async def remove_other(call: RestCall) -> None:
    channel, message = _target(call, permissions.MANAGE_MESSAGES)
    reactions.remove(call.backend, channel, message, call.id("user_id"), _emoji(call))


async def remove_kind(call: RestCall) -> None:
    channel, message = _target(call, permissions.MANAGE_MESSAGES)
    reactions.remove_kind(call.backend, channel, message, _emoji(call))


async def remove_all(call: RestCall) -> None:
    channel, message = _target(call, permissions.MANAGE_MESSAGES)
    reactions.remove_all(call.backend, channel, message)


async def users(call: RestCall) -> Any:
    _, message = _target(call, permissions.READ_MESSAGE_HISTORY)
    after = call.query_id("after") or 0
    users = sorted(u for u in message.reactions.get(_emoji(call), []) if u > after)
    return [payloads.user(call.world.users[u]) for u in users[: call.limit(25, 100)]]


_ALL = "/channels/{channel_id}/messages/{message_id}/reactions"
_KIND = _ALL + "/{emoji}"

ENDPOINTS = [
    RestEndpoint("PUT", _KIND + "/@me", add, "reactions"),
    RestEndpoint("DELETE", _KIND + "/@me", remove_own, "reactions"),
    RestEndpoint("DELETE", _KIND + "/{user_id}", remove_other, "reactions"),
    RestEndpoint("DELETE", _KIND, remove_kind, "reactions"),
    RestEndpoint("DELETE", _ALL, remove_all, "reactions"),
    RestEndpoint("GET", _KIND, users),
]
