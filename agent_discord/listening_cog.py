"""The gateway events that only keep the transcript true, as py-cord hands them to a cog.

py-cord collects listeners along the whole line of classes, so a subclass hears what stands here and adds its own; one
for the same event needs a method name of its own, or it replaces the one here.
"""

from __future__ import annotations

from datetime import datetime

import discord

from agent_discord.listening import Listener
from agent_discord.transcript import Transcripts


class ListeningCog(discord.Cog):
    """Edits, deletions, pins and reactions. New messages are for the subclass: which channels matter, it knows."""

    def __init__(self, bot: discord.Client, transcripts: Transcripts) -> None:
        self._listener = Listener(bot, transcripts)

    @discord.Cog.listener()
    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self._listener.edit(event)

    @discord.Cog.listener()
    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self._listener.delete(event.channel_id, {event.message_id})

    @discord.Cog.listener()
    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        self._listener.delete(event.channel_id, event.message_ids)

    @discord.Cog.listener()
    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        self._listener.react(event)

    @discord.Cog.listener()
    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        self._listener.unreact(event)

    @discord.Cog.listener()
    async def on_raw_reaction_clear(self, event: discord.RawReactionClearEvent) -> None:
        self._listener.clear(event.channel_id, event.message_id)

    @discord.Cog.listener()
    async def on_raw_reaction_clear_emoji(self, event: discord.RawReactionClearEmojiEvent) -> None:
        self._listener.clear(event.channel_id, event.message_id, str(event.emoji))

    @discord.Cog.listener()
    async def on_guild_channel_pins_update(
        self, channel: discord.abc.GuildChannel | discord.Thread, _: datetime | None
    ) -> None:
        """Threads' pins too."""
        self._listener.pins_changed(channel.id)

    @discord.Cog.listener()
    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        self._listener.drop(channel.id)

    @discord.Cog.listener()
    async def on_raw_thread_delete(self, event: discord.RawThreadDeleteEvent) -> None:
        self._listener.drop(event.thread_id)
