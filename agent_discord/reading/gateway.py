"""Keeps the transcript true: gateway events in, entries out. Decides nothing.

All bots of a process feed the same transcripts, each event up to four times; the transcript takes that without harm.
"""

from __future__ import annotations

from datetime import datetime

import discord

from agent_chat.transcript import Transcripts
from agent_discord.objects.mentions import NOBODY, clean_name
from agent_discord.objects.messages import (
    to_entry,
)


class Listener:
    """Enters what one bot hears into the shared transcripts. Which channels matter is for the caller to say."""

    def __init__(self, bot: discord.Client, transcripts: Transcripts) -> None:
        self._bot, self._transcripts = bot, transcripts

    def message(self, message: discord.Message) -> None:
        transcript = self._transcripts.of(message.channel.id)
        if message.id in transcript and not transcript.lacks_text(message.id):
            return
        entry = to_entry(message, self._transcripts.directory)
        if entry is not None:
            transcript.add(entry)

    def edit(self, event: discord.RawMessageUpdateEvent) -> None:
        """Also a message that is pinned, however old, or that is not any more."""
        if "content" not in event.data:
            return
        self._transcripts.changed(event.channel_id, (event.message_id,))
        transcript = self._transcripts.known(event.channel_id)
        if transcript is None:
            return
        entry = to_entry(event.new_message, self._transcripts.directory)
        if entry is not None:
            transcript.revise(entry)

    def pins_changed(self, channel_id: int) -> None:
        transcript = self._transcripts.known(channel_id)
        if transcript is not None:
            transcript.pins.doubt()

    def delete(self, channel_id: int, message_ids: set[int]) -> None:
        self._transcripts.changed(channel_id, message_ids)
        transcript = self._transcripts.known(channel_id)
        if transcript is not None:
            for message_id in message_ids:
                transcript.delete(message_id)

    def react(self, event: discord.RawReactionActionEvent) -> None:
        transcript = self._transcripts.known(event.channel_id)
        if transcript is not None:
            name, bot = self._name(event), self._by_bot(event)
            transcript.react(event.message_id, str(event.emoji), event.user_id, name, bot=bot)

    def unreact(self, event: discord.RawReactionActionEvent) -> None:
        transcript = self._transcripts.known(event.channel_id)
        if transcript is not None:
            transcript.unreact(event.message_id, str(event.emoji), event.user_id, bot=self._by_bot(event))

    def clear(self, channel_id: int, message_id: int, emoji: str | None = None) -> None:
        transcript = self._transcripts.known(channel_id)
        if transcript is not None:
            transcript.clear_reactions(message_id, emoji)

    def drop(self, channel_id: int) -> None:
        """The channel is gone."""
        self._transcripts.drop(channel_id)

    def _by_bot(self, event: discord.RawReactionActionEvent) -> bool:
        """Discord tells of a reaction's giver in a server; ours are known everywhere."""
        told = event.member is not None and event.member.bot
        return told or self._transcripts.directory.agent_of(event.user_id) is not None

    def _name(self, event: discord.RawReactionActionEvent) -> str:
        guild = self._bot.get_guild(event.guild_id) if event.guild_id else None
        member = event.member or (guild.get_member(event.user_id) if guild else None)
        if member is None:
            return NOBODY
        name = clean_name(member.display_name)
        return self._transcripts.directory.told_apart(event.user_id, name, bot=member.bot)


class TranscriptCog(discord.Cog):
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
