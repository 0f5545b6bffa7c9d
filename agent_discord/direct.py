"""The direct messages that a bot has heard from: Discord names none of them when a bot comes online."""

from __future__ import annotations

import discord
from cachetools import LRUCache

REMEMBERED = 1000


class DirectMessages:
    """One bot's, by channel id; the longest unheard ones are forgotten."""

    def __init__(self) -> None:
        self._channels: LRUCache[int, discord.DMChannel] = LRUCache(REMEMBERED)

    def note(self, channel: object) -> None:
        """Remembers where something was heard, if that is a direct message."""
        if isinstance(channel, discord.DMChannel):
            self._channels[channel.id] = channel

    def of(self, channel_id: int) -> discord.DMChannel | None:
        return self._channels.get(channel_id)
