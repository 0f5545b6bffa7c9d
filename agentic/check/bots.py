"""Check a bot on Discord: token, application, servers, channels; and what the bots share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import discord
from discord.http import HTTPClient

from agent_config import AgentSettings, Settings
from agentic.agent.options import load_options
from agentic.agent.persona import Personas
from agentic.check.discord_view import BotView, ChannelView, Json, discord_http, read_application, read_bot_view
from agentic.check.findings import Findings, ReportSection
from agentic.check.permissions import NEEDED, ROOMS, WELCOME, WRITING, invite_link, missing, wanted_by
from agentic.context.entries import Entry
from agentic.context.options import Options

TEXT_CHANNELS = (discord.ChannelType.text.value, discord.ChannelType.news.value)
OptionsIn = Callable[[int | None], Options]  # by server; None: any other

PORTAL = "discord.com/developers/applications"


async def check_bot(agent: AgentSettings, settings: Settings, section: ReportSection) -> BotView | None:
    """Fill the section; return what the bot sees, or None where it cannot log in.

    Raises errors of discord.py and aiohttp.
    """
    assert agent.token is not None
    found = section.findings
    async with discord_http() as http:
        try:
            me: Json = await http.static_login(agent.token.get_secret_value())
        except discord.LoginFailure:
            advice = f"{PORTAL}: Bot, Reset Token; put the new token into {agent.spec.token_setting}"
            found.wrong("token", "Discord refuses it", advice)
            return None
        found.ok("token", f"logs in as {me['username']}")
        options = options_in(agent.name, settings)
        await _check_application(http, settings, section, options)
        wanted = dict.fromkeys((*settings.channels, *report_channels(settings).values()))
        view = await read_bot_view(http, me, tuple(wanted), settings.guild_ids)
    guild_findings(view, settings, found)
    channel_findings(view, settings, found, options)
    purpose_findings(view, settings, found)
    return view


@dataclass(frozen=True, slots=True)
class _Server:
    """A place to look options up without pins: no channel of Discord is read."""

    guild_id: int | None
    channel_id: int = 0
    pins: tuple[tuple[Entry, ...], ...] = ()
    parent: _Server | None = None


def options_in(agent: str, settings: Settings) -> OptionsIn:
    """Options from the owner's files for the agent, or persona, of this key, by server."""
    names = {name: one.display_name for name, one in settings.agents.items()}
    book = load_options(settings, names, Personas(settings).layer)
    return lambda guild_id: book.options(agent, _Server(guild_id))


async def _check_application(http: HTTPClient, settings: Settings, section: ReportSection, options: OptionsIn) -> None:
    application = await read_application(http)
    section.link = link_to_invite(application.id, settings, options)
    if application.message_content:
        section.findings.ok("intents", "Message Content is on")
    else:
        advice = f"{PORTAL}: Bot, switch on Message Content Intent"
        section.findings.wrong("intents", "Message Content is off", advice)
    if application.code_grant:
        section.findings.warn(
            "invite link", "requires an OAuth2 code grant", f"{PORTAL}: Bot, switch off Requires OAuth2 Code Grant"
        )


def link_to_invite(application_id: int, settings: Settings, options: OptionsIn) -> str:
    """The invite link with the permissions that a bot needs; a single server of GUILD_IDS is preselected."""
    only_guild = settings.guild_ids[0] if len(settings.guild_ids) == 1 else None
    wanted = {name: one for server in (None, *settings.guild_ids) for name, one in wanted_by(options(server)).items()}
    return invite_link(application_id, only_guild, wanted.values())


def guild_findings(view: BotView, settings: Settings, found: Findings) -> None:
    """Check that the bot is in every server of GUILD_IDS."""
    for guild_id in settings.guild_ids:
        if guild_id not in view.guilds:
            found.wrong(
                f"server {guild_id}", "the bot is not in it", "open its invite link above, or correct GUILD_IDS"
            )
    if view.guilds:
        found.ok("servers", ", ".join(guild.name for guild in view.guilds.values()))


def channel_findings(
    view: BotView, settings: Settings, found: Findings, options: OptionsIn = lambda _: Options()
) -> None:
    """Check every channel. Those with problems get lines of their own, the others share one."""
    fine = []
    for channel_id in settings.channels:
        channel = view.channels.get(channel_id)
        before = len(found)
        if channel is None:
            _absent(view, channel_id, found)
        elif not _out_of_place(channel, settings, found):
            _lacking(channel, view.bits_in(channel), found, wanted_by(options(channel.guild_id)))
        if channel is not None and len(found) == before:
            fine.append(f"#{channel.name}")
    if fine:
        found.ok("channels", ", ".join(fine))
    _rooms(view, settings, found)


def _rooms(view: BotView, settings: Settings, found: Findings) -> None:
    """A hint where rooms lack permissions, in one line."""
    channels = [view.channels[channel_id] for channel_id in settings.channels if channel_id in view.channels]
    lacking = {f"#{channel.name}": missing(view.bits_in(channel), ROOMS) for channel in channels}
    names = dict.fromkeys(name for names in lacking.values() for name in names)
    if names:
        places = ", ".join(name for name, lacks in lacking.items() if lacks)
        found.note("rooms", f"{places}: missing {', '.join(names)}", "optional: rooms and personas need them")


def report_channels(settings: Settings) -> Mapping[str, int]:
    """The channels that settings name for reports and other output, by setting."""
    named = {"OWNER_CHANNEL_ID": settings.owner_channel_id, "OUTPUT_CHANNEL_ID": settings.output_channel_id}
    return {key: channel_id for key, channel_id in named.items() if channel_id is not None}


def purpose_findings(view: BotView, settings: Settings, found: Findings) -> None:
    """Check that the bot can write in the channels of report_channels."""
    for key, channel_id in report_channels(settings).items():
        channel = view.channels.get(channel_id)
        missing_here = [] if channel is None else missing(view.bits_in(channel), WRITING)
        if channel_id in view.unknown:
            found.warn(key, f"there is no channel {channel_id}", "correct the id, or leave it empty")
        elif channel is None:
            found.warn(
                key,
                f"the bot cannot see channel {channel_id}",
                "give it View Channels there, or choose another channel",
            )
        elif missing_here:
            found.warn(
                key, f"#{channel.name}: missing: {', '.join(missing_here)}", "give its role these permissions there"
            )
        else:
            found.ok(key, f"#{channel.name}")


def _absent(view: BotView, channel_id: int, found: Findings) -> None:
    if channel_id in view.unknown:
        advice = "correct the id in CHANNEL_THEME_MAP"
        found.wrong(f"channel {channel_id}", "there is no such channel", advice)
    else:
        advice = "invite it to that server, or give it View Channels there"
        found.wrong(f"channel {channel_id}", "the bot cannot see it", advice)


def _out_of_place(channel: ChannelView, settings: Settings, found: Findings) -> bool:
    if channel.guild_id is None or channel.kind not in TEXT_CHANNELS:
        kind = discord.ChannelType(channel.kind).name.replace("_", " ") if _known(channel.kind) else "other"
        found.wrong(f"#{channel.name}", f"not a text channel ({kind})", f"use a text channel instead of {channel.id}")
        return True
    if settings.guild_ids and channel.guild_id not in settings.guild_ids:
        advice = f"add {channel.guild_id} to GUILD_IDS, or remove the channel"
        found.wrong(f"#{channel.name}", "not in a server of GUILD_IDS", advice)
        return True
    return False


def _known(kind: int) -> bool:
    return kind in {one.value for one in discord.ChannelType}


def _lacking(channel: ChannelView, bits: int, found: Findings, more: Mapping[str, discord.Permissions]) -> None:
    if needed := missing(bits, NEEDED):
        advice = "give its role these permissions, in the server or in the channel"
        found.wrong(f"#{channel.name}", f"missing: {', '.join(needed)}", advice)
    if welcome := missing(bits, {**WELCOME, **more}):
        advice = "optional: give its role these permissions"
        found.warn(f"#{channel.name}", f"missing: {', '.join(welcome)}", advice)


# --- all bots together -----------------------------------------------------------------------------------------------


def doubled_identities(views: Mapping[str, BotView], sections: Mapping[str, ReportSection]) -> None:
    """Report tokens of one application: they are one bot, which would answer itself."""
    for name, view in views.items():
        twins = [
            sections[other].title for other, seen in views.items() if other != name and seen.user_id == view.user_id
        ]
        if twins:
            advice = "give each bot an application of its own, with its own token"
            sections[name].findings.wrong("identity", f"the same bot as {', '.join(twins)}", advice)


def listed_ids(views: Mapping[str, BotView], settings: Settings, sections: Mapping[str, ReportSection]) -> list[int]:
    """Report bots that BOT_IDS lacks; return ids in it that belong to no bot here."""
    if not settings.bot_ids:
        return []
    for name, view in views.items():
        if view.user_id not in settings.bot_ids:
            advice = f"add {view.user_id} to BOT_IDS"
            sections[name].findings.warn("BOT_IDS", "does not list this bot", advice)
    return [bot_id for bot_id in settings.bot_ids if bot_id not in {view.user_id for view in views.values()}]


def role_findings(views: Mapping[str, BotView], role_id: int, found: Findings) -> None:
    """Check the role whose mention calls all bots: it must exist and be mentionable."""
    guilds = {guild.id: guild for view in views.values() for guild in view.guilds.values()}
    roles = [guild.roles[role_id] for guild in guilds.values() if role_id in guild.roles]
    if not roles:
        found.warn("BOTS_ROLE_ID", "no server of the bots has this role", "correct the id, or leave it empty")
    elif not roles[0].mentionable:
        advice = "Server Settings, Roles: allow anyone to mention this role"
        found.warn("BOTS_ROLE_ID", f"not everyone may mention @{roles[0].name}", advice)
    else:
        found.ok("BOTS_ROLE_ID", f"@{roles[0].name}")
