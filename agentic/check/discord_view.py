"""Read what a bot sees of Discord, by REST GET requests alone.

`logged_in` raises one of two errors, which tell a wrong token from a Discord that cannot be asked:

    TokenRefusedError   Discord refuses the token
    NoAnswerError       network, time limit, an answer that cannot be read: the token may be right

A channel that the bot may not view is looked up in its guild's channel list, which Discord returns whole, so that every
missing permission can be named.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import discord
from discord.http import HTTPClient

from agentic.check.permissions import Overwrite, channel_bits, guild_bits

Json = Mapping[str, Any]

# Bots in fewer than a hundred servers have the "limited" flag; it is the same switch in the portal.
# https://discord.com/developers/docs/resources/application#application-object-application-flags
MESSAGE_CONTENT = 1 << 18 | 1 << 19


class TokenRefusedError(Exception):
    """Discord refuses the token."""


class NoAnswerError(Exception):
    """Discord could not be asked; the text completes "Discord …"."""


@dataclass(frozen=True, slots=True)
class Application:
    """A bot's application in the developer portal. `code_grant`: its invite link does not work as it is."""

    id: int
    message_content: bool
    code_grant: bool


@dataclass(frozen=True, slots=True)
class ChannelView:
    id: int
    guild_id: int | None
    name: str
    kind: int
    overwrites: Mapping[int, Overwrite]
    position: int = 0
    parent_id: int | None = None


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


@asynccontextmanager
async def logged_in(token: str, seconds: float) -> AsyncIterator[tuple[HTTPClient, Json]]:
    """A client for at most `seconds`, and the bot's user object. Raises TokenRefusedError, NoAnswerError."""
    try:
        async with asyncio.timeout(seconds), discord_http() as http:
            yield http, await http.static_login(token)
    except discord.LoginFailure:
        raise TokenRefusedError from None
    except TimeoutError:
        raise NoAnswerError(f"gives no answer within {seconds:g} s") from None
    except discord.HTTPException as error:
        raise NoAnswerError(f"answers with an error (HTTP {error.status})") from None
    except (aiohttp.ClientError, OSError) as error:
        raise NoAnswerError(f"cannot be reached from this machine{cause(error)}") from None
    except (LookupError, TypeError, ValueError):
        raise NoAnswerError("cannot be understood, as if a proxy answered in its place") from None


def cause(error: Exception) -> str:
    """The system's words for a failed connection, in brackets; "" where there are none."""
    return f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""


async def read_application(http: HTTPClient) -> Application:
    """Read the application of the bot that is logged in."""
    found: Json = await http.application_info()
    return Application(
        id=int(found["id"]),
        message_content=bool(int(found.get("flags") or 0) & MESSAGE_CONTENT),
        code_grant=bool(found.get("bot_require_code_grant")),
    )


async def read_guild_names(http: HTTPClient) -> dict[int, str]:
    """The guilds that the bot is in: id → name, the first 200."""
    return {int(guild["id"]): str(guild["name"]) for guild in await http.get_guilds(200, with_counts=False)}


async def read_guild_channels(http: HTTPClient, guild_id: int) -> list[ChannelView]:
    """All channels of a guild that the bot is in, categories and those that it may not view too."""
    return [_channel(one) for one in await http.get_all_guild_channels(guild_id)]


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
        listed = await read_guild_channels(http, guild_id)
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
        position=int(channel.get("position") or 0),
        parent_id=int(channel["parent_id"]) if channel.get("parent_id") else None,
    )
