"""Where a bot was told to speak and cannot: named once, in a line each, when it comes online."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import discord

from agent_discord.objects.channels import Channel
from agent_discord.outlet import DiscordOutlet


def troubles(
    bot: discord.Client,
    channel_ids: Iterable[int],
    guild_ids: Collection[int],
    outlet: Callable[[Channel], DiscordOutlet],
) -> Iterator[str]:
    """A line for each channel that the bot does not see or may not write in, one where it is in none of the guilds
    (none named: any will do); nothing while a guild is on its way."""
    if any(guild.unavailable for guild in bot.guilds):
        return
    if guild_ids and not any(guild.id in guild_ids for guild in bot.guilds):
        yield "is in no server of GUILD_IDS and hears nothing: mend the ids, or invite it there"
        return
    for channel_id in channel_ids:
        channel = bot.get_channel(channel_id)
        if channel is None:
            yield f"does not see channel {channel_id}: it is not there, or the bot lacks View Channel"
        elif not isinstance(channel, Channel):
            yield f"cannot speak in channel {channel_id}: it is no channel for messages"
        elif outlet(channel).refusal() is not None:
            yield f"may not write in channel {channel_id}: it lacks Send Messages there"
