"""Check a bot on Discord: token, application, servers, channels, permissions; and what the bots share.

Everything is read with REST GET requests. `logged_in` raises one of two errors:

    TokenRefusedError   Discord rejects the token
    NoAnswerError       network, time limit, or an unreadable answer: the token may be right

A channel that the bot can't view is looked up in its guild's channel list, which Discord returns whole, so that every
missing permission can be named. Permissions are computed as Discord documents it: @everyone and roles, then the
channel's overwrites for @everyone, for the member's roles, and for the member.
https://discord.com/developers/docs/topics/permissions#permission-hierarchy
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import reduce
from operator import or_
from typing import Any

import aiohttp
import discord
from discord.http import HTTPClient

from agent_config import AgentSettings, Settings
from agentic.check.odd_settings import OptionsIn, options_in
from agentic.check.report import ReportSection
from agentic.context.options import Options
from agentic.findings import Findings
from agentic.text import explain_failure

Json = Mapping[str, Any]
Permissions = Mapping[str, discord.Permissions]

NEEDED: Permissions = {
    "View Channels": discord.Permissions(view_channel=True),
    "Send Messages": discord.Permissions(send_messages=True),
    "Send Messages in Threads": discord.Permissions(send_messages_in_threads=True),
    "Read Message History": discord.Permissions(read_message_history=True),
    "Add Reactions": discord.Permissions(add_reactions=True),
    "Attach Files": discord.Permissions(attach_files=True),
    "Embed Links": discord.Permissions(embed_links=True),
}
WELCOME: Permissions = {"Use External Emojis": discord.Permissions(use_external_emojis=True)}
"""Optional permissions: a bot works without them."""
ROOMS: Permissions = {
    "Create Public Threads": discord.Permissions(create_public_threads=True),
    "Manage Threads": discord.Permissions(manage_threads=True),
    "Manage Webhooks": discord.Permissions(manage_webhooks=True),
    "Create Polls": discord.Permissions(send_polls=True),
}
"""Optional permissions for rooms and for personas."""
LOST: Mapping[str, str] = {
    "Create Public Threads": "this bot can't open rooms",
    "Manage Threads": "threads aren't locked between the audience's times",
    "Manage Webhooks": "if no bot has it, personas can't speak",
    "Create Polls": "if no bot has it, people aren't asked for their side before and after a debate",
}
"""A permission of ROOMS → what is missing without it."""

WRITING: Permissions = {name: NEEDED[name] for name in ("View Channels", "Send Messages")}
"""Permissions that a bot needs in a channel for reports."""

SCOPES = ("bot", "applications.commands")
PORTAL = "discord.com/developers/applications"
TEXT_CHANNELS = (discord.ChannelType.text.value, discord.ChannelType.news.value)
# Bots in fewer than a hundred servers have the "limited" flag; it is the same switch in the portal.
# https://discord.com/developers/docs/resources/application#application-object-application-flags
MESSAGE_CONTENT = 1 << 18 | 1 << 19

MAX_CLOCK_SKEW = 60.0  # seconds; a slow answer must not look like a wrong clock

_ADMINISTRATOR = discord.Permissions(administrator=True).value


class TokenRefusedError(Exception):
    pass


class NoAnswerError(Exception):
    """Discord gave no usable answer; the text completes "Discord …"."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    allow: int
    deny: int


@dataclass(frozen=True, slots=True)
class Application:
    """A bot's application in the developer portal. With `code_grant` its invite link doesn't work."""

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
    name: str
    bits: int
    mentionable: bool


@dataclass(frozen=True, slots=True)
class GuildView:
    """A guild that the bot is in. `bits` are the permissions of its roles there."""

    id: int
    name: str
    roles: Mapping[int, RoleView]
    my_roles: Collection[int]
    bits: int


@dataclass(slots=True)
class BotView:
    """The guilds and channels that a bot sees. `hidden`: channels that it can't view and that none of its guilds lists;
    `unknown`: channels that don't exist."""

    user_id: int
    name: str
    guilds: dict[int, GuildView] = field(default_factory=dict)
    channels: dict[int, ChannelView] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)

    def bits_in(self, channel: ChannelView) -> int:
        """Return the bot's permissions in the channel; 0 in a guild that it hasn't joined."""
        guild = self.guilds.get(channel.guild_id or 0)
        if guild is None or guild.bits & _ADMINISTRATOR:
            return 0 if guild is None else guild.bits
        bits, of_roles = guild.bits, [one for role, one in channel.overwrites.items() if role in guild.my_roles]
        roles = Overwrite(_any(one.allow for one in of_roles), _any(one.deny for one in of_roles))
        # @everyone's overwrite has the guild's id.
        for step in (channel.overwrites.get(guild.id), roles, channel.overwrites.get(self.user_id)):
            if step is not None:
                bits = bits & ~step.deny | step.allow
        return bits


async def check_bot(agent: AgentSettings, settings: Settings, section: ReportSection) -> BotView | None:
    """Fill the section. Returns what the bot sees, or None if it can't log in. Raises errors of py-cord and aiohttp."""
    assert agent.token is not None
    found = section.findings
    async with discord_http() as http:
        try:
            me: Json = await http.static_login(agent.token.get_secret_value())
        except discord.LoginFailure:
            advice = f"at {PORTAL}, page Bot, click Reset Token and copy the new token to {agent.spec.token_setting}"
            found.wrong("token", "Discord rejects it", advice)
            return None
        found.ok("token", f"logs in as {me['username']}")
        options = options_in(agent.name, settings)
        application = await read_application(http)
        section.link = link_to_invite(application.id, settings, options)
        if application.message_content:
            found.ok("intents", "Message Content is on")
        else:
            advice = f"at {PORTAL}, page Bot, turn on Message Content Intent"
            found.wrong("intents", "Message Content is off, so the bot can't start", advice)
        if application.code_grant:
            advice = f"at {PORTAL}, page Bot, turn off Requires OAuth2 Code Grant"
            found.warn("invite link", "Requires OAuth2 Code Grant is on, so nobody can invite the bot", advice)
        wanted = dict.fromkeys((*settings.channels, *report_channels(settings).values()))
        view = await read_bot_view(http, me, tuple(wanted), settings.guild_ids)
    for guild_id in settings.guild_ids:
        if guild_id in view.channels:
            text = f"is the ID of #{view.channels[guild_id].name}, not of a server"
            found.wrong(f"server {guild_id}", text, "right-click the server, Copy Server ID, and correct GUILD_IDS")
        elif guild_id not in view.guilds:
            advice = "open its invite link above, or correct GUILD_IDS"
            found.wrong(f"server {guild_id}", "the bot isn't in it", advice)
    if view.guilds:
        found.ok("servers", ", ".join(guild.name for guild in view.guilds.values()))
    _check_channels(view, settings, found, options)
    _check_report_channels(view, settings, found)
    return view


def link_to_invite(application_id: int, settings: Settings, options: OptionsIn) -> str:
    """Return the invite link with the permissions that a bot needs. A single server of GUILD_IDS is preselected."""
    of_options = [wanted_by(options(server)) for server in (None, *settings.guild_ids)]
    permissions = discord.Permissions.none()
    for wanted in (NEEDED, WELCOME, ROOMS, *of_options):
        for permission in wanted.values():
            permissions |= permission
    if len(settings.guild_ids) != 1:
        return discord.utils.oauth_url(application_id, permissions=permissions, scopes=SCOPES)
    guild = discord.Object(settings.guild_ids[0])
    return discord.utils.oauth_url(application_id, permissions=permissions, scopes=SCOPES, guild=guild)


def wanted_by(options: Options) -> Permissions:
    """Return the permissions that options need, under names that include the option."""
    wanted = {}
    if options.tool_output_visible:
        wanted["Manage Webhooks (for tool_output_visible)"] = discord.Permissions(manage_webhooks=True)
    if options.mode == "prefill":
        wanted["Manage Messages (for mode: prefill, to delete m commands)"] = discord.Permissions(manage_messages=True)
    return wanted


def _check_channels(view: BotView, settings: Settings, found: Findings, options: OptionsIn) -> None:
    """Check every channel. Channels with problems get their own lines; the others share one."""
    fine: list[str] = []
    lacking: dict[str, list[str]] = {}  # for rooms
    for channel_id in settings.channels:
        channel = view.channels.get(channel_id)
        if channel is None and channel_id in view.unknown:
            advice = "right-click the channel, Copy Channel ID, and correct CHANNEL_THEME_MAP"
            found.wrong(f"channel {channel_id}", _why_unknown(channel_id, view), advice)
            continue
        if channel is None:
            advice = "invite the bot to that server, or allow it View Channels there"
            found.wrong(f"channel {channel_id}", "the bot can't see it", advice)
            continue
        bits, before = view.bits_in(channel), len(found)
        lacking[f"#{channel.name}"] = missing(bits, ROOMS)
        if not _is_out_of_place(channel, settings, found):
            if needed := missing(bits, NEEDED):
                advice = "give the bot's role these permissions, in the server or in the channel"
                found.wrong(f"#{channel.name}", f"missing permissions: {', '.join(needed)}", advice)
            if welcome := missing(bits, {**WELCOME, **wanted_by(options(channel.guild_id))}):
                advice = "optional: give the bot's role these permissions"
                found.warn(f"#{channel.name}", f"missing permissions: {', '.join(welcome)}", advice)
        if len(found) == before:
            fine.append(f"#{channel.name}")
    if fine:
        found.ok("channels", ", ".join(fine))
    if names := dict.fromkeys(name for names in lacking.values() for name in names):
        places = ", ".join(name for name, lacks in lacking.items() if lacks)
        text = f"{places}: missing permissions: {', '.join(f'{name} ({LOST[name]})' for name in names)}"
        found.note("rooms", text, "optional: give the bot's role these permissions, for rooms and personas")


def _why_unknown(channel_id: int, view: BotView) -> str:
    """Return what is wrong with the ID of no channel. Developer Mode copies IDs of servers, roles, and people, too."""
    if channel_id in view.guilds:
        return f"is the ID of the server {view.guilds[channel_id].name}, not of a channel"
    for guild in view.guilds.values():
        if channel_id in guild.roles:
            return f"is the ID of the role @{guild.roles[channel_id].name}, not of a channel"
    return "is the ID of this bot, not of a channel" if channel_id == view.user_id else "doesn't exist"


def _is_out_of_place(channel: ChannelView, settings: Settings, found: Findings) -> bool:
    """Return whether the channel isn't a text channel or isn't in a chosen server, and report that."""
    if channel.guild_id is None or channel.kind not in TEXT_CHANNELS:
        kinds = {one.value: one.name.replace("_", " ") for one in discord.ChannelType}
        text = f"isn't a text channel ({kinds.get(channel.kind, 'other')})"
        found.wrong(f"#{channel.name}", text, f"in CHANNEL_THEME_MAP, replace {channel.id} by a text channel")
        return True
    if settings.guild_ids and channel.guild_id not in settings.guild_ids:
        advice = f"add {channel.guild_id} to GUILD_IDS, or remove the channel from CHANNEL_THEME_MAP"
        found.wrong(f"#{channel.name}", "isn't in a server of GUILD_IDS", advice)
        return True
    return False


def report_channels(settings: Settings) -> Mapping[str, int]:
    named = {"OWNER_CHANNEL_ID": settings.owner_channel_id, "OUTPUT_CHANNEL_ID": settings.output_channel_id}
    return {key: channel_id for key, channel_id in named.items() if channel_id is not None}


def _check_report_channels(view: BotView, settings: Settings, found: Findings) -> None:
    for key, channel_id in report_channels(settings).items():
        channel = view.channels.get(channel_id)
        missing_here = [] if channel is None else missing(view.bits_in(channel), WRITING)
        if channel_id in view.unknown:
            text = f"channel {channel_id} {_why_unknown(channel_id, view)}"
            found.warn(key, text, "correct the id, or leave the setting empty")
        elif channel is None:
            advice = "allow it View Channels there, or choose another channel"
            found.warn(key, f"the bot can't see channel {channel_id}", advice)
        elif missing_here:
            text = f"#{channel.name}: missing permissions: {', '.join(missing_here)}"
            found.warn(key, text, "give the bot's role these permissions there")
        else:
            found.ok(key, f"#{channel.name}")


def check_identities(views: Mapping[str, BotView], sections: Mapping[str, ReportSection]) -> None:
    """Report tokens of the same application: they are the same bot, which would answer itself. Warn if a token may be
    in another bot's line: then two bots swap their characters."""
    titles = [section.title for section in sections.values()]
    for name, view in views.items():
        same = [other for other, seen in views.items() if other != name and seen.user_id == view.user_id]
        if twins := [sections[other].title for other in same]:
            advice = f"at {PORTAL}, make an application for each bot, and use its token"
            sections[name].findings.wrong("identity", f"has the same token as {', '.join(twins)}", advice)
        elif (owner := find_namesake(sections[name].title, view.name, titles)) is not None:
            advice = f"if it is {owner}'s, put each token into its own bot's line in .env; else nothing"
            sections[name].findings.warn("identity", f"logs in as {view.name}: perhaps {owner}'s token", advice)


def find_namesake(own: str, name: str, titles: Iterable[str]) -> str | None:
    """Return which other bot's title a bot's name in Discord contains, unless it contains its `own`."""
    found = [title for title in (own, *titles) if title.lower() in name.lower()]
    return None if not found or found[0] == own else found[0]


def check_bot_ids(views: Mapping[str, BotView], settings: Settings, sections: Mapping[str, ReportSection]) -> list[int]:
    """Report bots that BOT_IDS lacks. Returns the ids in it that don't belong to a bot here."""
    if not settings.bot_ids:
        return []
    for name, view in views.items():
        if view.user_id not in settings.bot_ids:
            advice = f"add {view.user_id} to BOT_IDS"
            sections[name].findings.warn("BOT_IDS", "doesn't list this bot", advice)
    return [bot_id for bot_id in settings.bot_ids if bot_id not in {view.user_id for view in views.values()}]


def check_role(views: Mapping[str, BotView], role_id: int, found: Findings) -> None:
    """Check the role whose mention calls all bots: it must exist and be mentionable."""
    guilds = {guild.id: guild for view in views.values() for guild in view.guilds.values()}
    roles = [guild.roles[role_id] for guild in guilds.values() if role_id in guild.roles]
    if not roles:
        text = "none of the bots' servers has this role"
        found.warn("BOTS_ROLE_ID", text, "correct the id, or leave the setting empty")
    elif not roles[0].mentionable:
        advice = "in Discord, under Server Settings, Roles, allow anyone to mention this role"
        found.warn("BOTS_ROLE_ID", f"not everyone can mention @{roles[0].name}", advice)
    else:
        found.ok("BOTS_ROLE_ID", f"@{roles[0].name}")


async def check_clock_by_discord(found: Findings, clock: Callable[[], float]) -> None:
    """Warn if the machine's clock differs from Discord's, by the date of an answer that needs no token."""
    with suppress(aiohttp.ClientError, OSError, KeyError, ValueError):  # without an answer or a date, nothing is known
        async with aiohttp.ClientSession() as session, session.get(discord.http.Route("GET", "/gateway").url) as answer:
            there = parsedate_to_datetime(answer.headers["Date"]).timestamp()
            ahead = clock() - there
            if abs(ahead) > MAX_CLOCK_SKEW:
                text = f"this machine's clock is {abs(ahead) / 60:.0f} minutes {'ahead' if ahead > 0 else 'behind'}"
                found.warn("clock", text, "set it, or turn on time synchronization (timedatectl set-ntp true)")


@asynccontextmanager
async def discord_http() -> AsyncIterator[HTTPClient]:
    """Yield py-cord's REST client; log in with `static_login`."""
    http = HTTPClient()
    try:
        yield http
    finally:
        await http.close()


@asynccontextmanager
async def logged_in(token: str, seconds: float) -> AsyncIterator[tuple[HTTPClient, Json]]:
    """Yield a client, for at most `seconds`, and the bot's user object. Raises TokenRefusedError, NoAnswerError."""
    try:
        async with asyncio.timeout(seconds), discord_http() as http:
            yield http, await http.static_login(token)
    except discord.LoginFailure:
        raise TokenRefusedError from None
    except TimeoutError:
        raise NoAnswerError(f"didn't answer within {seconds:g} seconds") from None
    except discord.HTTPException as error:
        raise NoAnswerError(f"answered with an error (HTTP {error.status})") from None
    except (aiohttp.ClientError, OSError) as error:
        raise NoAnswerError(f"can't be reached from this machine ({explain_failure(error)})") from None
    except (LookupError, TypeError, ValueError):
        raise NoAnswerError("gave an unreadable answer; perhaps a proxy answered in its place") from None


async def read_application(http: HTTPClient) -> Application:
    found: Json = await http.application_info()
    return Application(
        id=int(found["id"]),
        message_content=bool(int(found.get("flags") or 0) & MESSAGE_CONTENT),
        code_grant=bool(found.get("bot_require_code_grant")),
    )


async def read_guild_channels(http: HTTPClient, guild_id: int) -> list[ChannelView]:
    """Return all channels of a guild that the bot is in, including categories and channels that it can't view."""
    return [_channel(one) for one in await http.get_all_guild_channels(guild_id)]


async def read_bot_view(
    http: HTTPClient, me: Json, channel_ids: Collection[int], guild_ids: Collection[int]
) -> BotView:
    """Read these channels, their guilds, and these guilds as the bot `me` (its user object) sees them."""
    view = BotView(user_id=int(me["id"]), name=str(me["username"]))
    for channel_id in channel_ids:
        try:
            view.channels[channel_id] = _channel(await http.get_channel(channel_id))
        except discord.Forbidden:
            view.hidden.add(channel_id)
        except discord.NotFound:
            view.unknown.add(channel_id)
    of_channels = [channel.guild_id for channel in view.channels.values() if channel.guild_id is not None]
    for guild_id in dict.fromkeys((*guild_ids, *of_channels)):
        await _read_guild(http, view, guild_id)
    return view


async def _read_guild(http: HTTPClient, view: BotView, guild_id: int) -> None:
    try:
        guild = await http.get_guild(guild_id, with_counts=False)
        member = await http.get_member(guild_id, view.user_id)
    except (discord.Forbidden, discord.NotFound):
        return
    roles = {
        int(role["id"]): RoleView(str(role["name"]), int(role["permissions"]), bool(role["mentionable"]))
        for role in guild["roles"]
    }
    mine = [int(role) for role in member["roles"]]
    bits = _any(roles[role].bits for role in (guild_id, *mine) if role in roles)
    if bits & _ADMINISTRATOR or int(guild["owner_id"]) == view.user_id:
        bits = discord.Permissions.all().value
    view.guilds[guild_id] = GuildView(guild_id, str(guild["name"]), roles, mine, bits)
    if view.hidden:
        listed = await read_guild_channels(http, guild_id)
        view.channels |= {channel.id: channel for channel in listed if channel.id in view.hidden}
        view.hidden -= view.channels.keys()


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


def missing(bits: int, wanted: Permissions) -> list[str]:
    """Return the names of wanted permissions that are missing."""
    return [name for name, permission in wanted.items() if bits & permission.value != permission.value]


def _any(bits: Iterable[int]) -> int:
    return reduce(or_, bits, 0)
