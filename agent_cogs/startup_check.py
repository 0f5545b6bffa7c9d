"""Names the channels of the settings that a bot cannot speak in, a line each, when it comes online."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import discord

from agentic.services.discord.channels import Channel, refusal_in


def channel_problems(bot: discord.Client, channel_ids: Iterable[int], guild_ids: Collection[int]) -> Iterator[str]:
    """A line for each channel that the bot does not see or may not write in, and one where it is in none of the guilds
    (none named: any guild counts). Nothing while a guild is still on its way."""
    if any(guild.unavailable for guild in bot.guilds):
        return
    if guild_ids and not any(guild.id in guild_ids for guild in bot.guilds):
        yield "is in no server of GUILD_IDS and hears nothing: correct the ids, or invite it there"
        return
    for channel_id in channel_ids:
        channel = bot.get_channel(channel_id)
        if channel is None:
            yield f"does not see channel {channel_id}: it does not exist, or the bot lacks View Channel"
        elif not isinstance(channel, Channel):
            yield f"cannot speak in channel {channel_id}: it is not a channel for messages"
        elif refusal_in(channel) is not None:
            yield f"may not write in channel {channel_id}: it lacks Send Messages there"
