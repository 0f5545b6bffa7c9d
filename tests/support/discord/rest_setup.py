"""Requests that only --check, --setup, and py-cord's own bots make: guilds, their channels, and global commands."""

from __future__ import annotations

from typing import Any

from agentic.local.discord import payloads, world
from agentic.local.discord.rest import RestCall, RestEndpoint
from agentic.local.discord.rest_guilds import list_commands, replace_commands


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
    ][: call.limit(200)]


def list_channels(call: RestCall) -> Any:
    return [payloads.channel(call.world, c) for c in call.guild().channels.values() if not c.is_thread]


ENDPOINTS = [
    # py-cord reads the default sounds before it is ready
    RestEndpoint("GET", "/soundboard-default-sounds", lambda _: []),
    RestEndpoint("GET", "/applications/{application_id}/commands", list_commands),
    RestEndpoint("PUT", "/applications/{application_id}/commands", replace_commands),
    RestEndpoint("GET", "/users/@me/guilds", list_own_guilds),
    RestEndpoint("GET", "/guilds/{guild_id}", lambda call: payloads.guild(call.guild())),
    RestEndpoint("GET", "/guilds/{guild_id}/channels", list_channels),
]
