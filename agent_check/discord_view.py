"""Read what a bot sees of Discord, by REST GET requests alone.

A channel that the bot may not view is looked up in its guild's channel list, which Discord returns whole, so that every
missing permission can be named.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import discord
from discord.http import HTTPClient

from agent_check.permissions import Overwrite, channel_bits, guild_bits

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChannelView:
    id: int
    guild_id: int | None
    name: str
    kind: int
    overwrites: Mapping[int, Overwrite]


@dataclass(frozen=True, slots=True)
class RoleView:
    id: int
    name: str
    bits: int
    mentionable: bool


@dataclass(frozen=True, slots=True)
class GuildView:
    """A guild of the bot. `bits`: the permissions of its roles there."""

    id: int
    name: str
    roles: Mapping[int, RoleView]
    my_roles: Collection[int]
    bits: int


@dataclass(slots=True)
class BotView:
    """The guilds and channels that a bot sees. `hidden`: channels it may not view that no guild of it lists; `unknown`:
    channels that do not exist."""

    user_id: int
    name: str
    guilds: dict[int, GuildView] = field(default_factory=dict)
    channels: dict[int, ChannelView] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)

    def bits_in(self, channel: ChannelView) -> int:
        """The bot's permissions in the channel; 0 in a guild that it has not joined."""
        guild = self.guilds.get(channel.guild_id or 0)
        if guild is None:
            return 0
        return channel_bits(
            guild.bits, channel.overwrites, guild_id=guild.id, role_ids=guild.my_roles, user_id=self.user_id
        )


@asynccontextmanager
async def discord_http() -> AsyncIterator[HTTPClient]:
    """py-cord's REST client; log in with `static_login`."""
    http = HTTPClient()
    try:
        yield http
    finally:
        await http.close()


async def read_bot_view(
    http: HTTPClient, me: Json, channel_ids: Collection[int], guild_ids: Collection[int]
) -> BotView:
    """Read these channels, their guilds and these guilds as the bot `me` (its user object) sees them."""
    view = BotView(user_id=int(me["id"]), name=str(me["username"]))
    for channel_id in channel_ids:
        await _read_channel(http, view, channel_id)
    of_channels = [channel.guild_id for channel in view.channels.values() if channel.guild_id is not None]
    for guild_id in dict.fromkeys((*guild_ids, *of_channels)):
        await _read_guild(http, view, guild_id)
    return view


async def _read_channel(http: HTTPClient, view: BotView, channel_id: int) -> None:
    try:
        view.channels[channel_id] = _channel(await http.get_channel(channel_id))
    except discord.Forbidden:
        view.hidden.add(channel_id)
    except discord.NotFound:
        view.unknown.add(channel_id)


async def _read_guild(http: HTTPClient, view: BotView, guild_id: int) -> None:
    """Add the guild, if the bot is in it."""
    try:
        guild = await http.get_guild(guild_id, with_counts=False)
        member = await http.get_member(guild_id, view.user_id)
    except (discord.Forbidden, discord.NotFound):
        return
    view.guilds[guild_id] = _guild(guild, member, view.user_id)
    if view.hidden:
        listed = [_channel(one) for one in await http.get_all_guild_channels(guild_id)]
        view.channels |= {channel.id: channel for channel in listed if channel.id in view.hidden}
        view.hidden -= view.channels.keys()


def _guild(guild: Json, member: Json, user_id: int) -> GuildView:
    guild_id = int(guild["id"])
    roles = {int(role["id"]): _role(role) for role in guild["roles"]}
    mine = [int(role) for role in member["roles"]]
    held = [roles[role].bits for role in (guild_id, *mine) if role in roles]
    bits = guild_bits(held, is_owner=int(guild["owner_id"]) == user_id)
    return GuildView(guild_id, str(guild["name"]), roles, mine, bits)


def _role(role: Json) -> RoleView:
    return RoleView(int(role["id"]), str(role["name"]), int(role["permissions"]), bool(role["mentionable"]))


def _channel(channel: Json) -> ChannelView:
    return ChannelView(
        id=int(channel["id"]),
        guild_id=int(channel["guild_id"]) if channel.get("guild_id") else None,
        name=str(channel.get("name") or "direct message"),
        kind=int(channel["type"]),
        overwrites={
            int(one["id"]): Overwrite(int(one["allow"]), int(one["deny"]))
            for one in channel.get("permission_overwrites") or ()
        },
    )
