"""REST: guilds with their channels, roles and members; users; the bot itself and how to reach the gateway."""

from typing import Any

from agentic.local.discord import channels, errors, payloads, permissions
from agentic.local.discord.calls import RestCall, RestEndpoint
from agentic.local.discord.world import Guild


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


_GUILD = "/guilds/{guild_id}"

ENDPOINTS = [
    RestEndpoint("GET", "/users/@me", me),
    RestEndpoint("GET", "/users/@me/guilds", my_guilds),
    RestEndpoint("POST", "/users/@me/channels", my_direct_channel),
    RestEndpoint("GET", "/users/{user_id}", get_user),
    RestEndpoint("GET", _GUILD, get_guild),
    RestEndpoint("GET", _GUILD + "/channels", guild_channels),
    RestEndpoint("GET", _GUILD + "/roles", guild_roles),
    RestEndpoint("GET", _GUILD + "/emojis", guild_emojis),
    RestEndpoint("GET", _GUILD + "/members", members),
    RestEndpoint("GET", _GUILD + "/members/search", search_members),
    RestEndpoint("GET", _GUILD + "/members/{user_id}", get_member),
]
