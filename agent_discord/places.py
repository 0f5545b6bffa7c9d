"""What a channel of a server and a direct message have in common, and where they differ."""

from __future__ import annotations

import discord

from agent_discord.channels import Channel
from agent_discord.mentions import clean_name

DIRECT_NAME = "direct message"


def guild_of(channel: Channel) -> discord.Guild | None:
    """None for a direct message."""
    return None if isinstance(channel, discord.DMChannel) else channel.guild


def guild_id_of(channel: Channel) -> int | None:
    guild = guild_of(channel)
    return guild.id if guild is not None else None


def me_in(channel: Channel) -> discord.Member | discord.ClientUser:
    return channel.me if isinstance(channel, discord.DMChannel) else channel.guild.me


def permissions_in(channel: Channel) -> discord.Permissions:
    """The bot's own."""
    if isinstance(channel, discord.DMChannel):
        return channel.permissions_for(channel.me)
    return channel.permissions_for(channel.guild.me)


def name_in(channel: Channel) -> str:
    return DIRECT_NAME if isinstance(channel, discord.DMChannel) else clean_name(channel.name)
