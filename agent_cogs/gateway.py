"""Keeps the transcripts true by gateway events.

All bots of a process write into the same transcripts, so each event comes up to four times; a transcript takes that
without harm.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

import discord

from agentic.chat.names import NOBODY, clean_name
from agentic.chat.transcript import Transcripts
from agentic.services.discord.messages import to_entry


class GatewayListener(Protocol):
    """Hears of deletions and reactions, before the transcript does; agentic.record.gateway_notes."""

    def deleted(self, channel_id: int, message_ids: Collection[int]) -> None: ...
    def channel_deleted(self, channel_id: int) -> None: ...
    def reacted(
        self, agent: str, channel_id: int, message_id: int, user_id: int, emoji: str, *, given: bool = ...
    ) -> None: ...


class TranscriptCog(discord.Cog):
    """Records edits, deletions, pins and reactions. The subclass passes new messages to `record`: it knows which
    channels matter. `listener` hears of deletions, and as `agent` of reactions."""

    def __init__(
        self,
        bot: discord.Client,
        transcripts: Transcripts,
        listener: GatewayListener | None = None,
        agent: str = "",
    ) -> None:
        self._client, self._transcripts = bot, transcripts
        self._listener, self._agent = listener, agent

    def record(self, message: discord.Message) -> None:
        """Adds a new message to its channel's transcript."""
        transcript = self._transcripts.of(message.channel.id)
        if message.id in transcript and not transcript.lacks_text(message.id):
            return
        entry = to_entry(message, self._transcripts.directory)
        if entry is not None:
            transcript.add(entry)

    @discord.Cog.listener()
    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        """Comes also for a message that is pinned or unpinned, however old."""
        if "content" not in event.data:
            return
        self._transcripts.changed(event.channel_id, (event.message_id,))
        transcript = self._transcripts.known(event.channel_id)
        if transcript is None:
            return
        entry = to_entry(event.new_message, self._transcripts.directory)
        if entry is not None:
            transcript.revise(entry)

    @discord.Cog.listener()
    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        self._delete(event.channel_id, {event.message_id})

    @discord.Cog.listener()
    async def on_raw_bulk_message_delete(self, event: discord.RawBulkMessageDeleteEvent) -> None:
        self._delete(event.channel_id, event.message_ids)

    def _delete(self, channel_id: int, message_ids: Collection[int]) -> None:
        if self._listener is not None:
            self._listener.deleted(channel_id, message_ids)
        self._transcripts.changed(channel_id, message_ids)
        transcript = self._transcripts.known(channel_id)
        if transcript is not None:
            for message_id in message_ids:
                transcript.delete(message_id)

    @discord.Cog.listener()
    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        transcript = self._transcripts.known(event.channel_id)
        if transcript is not None:
            name, bot = self._giver_name(event), self._by_bot(event)
            transcript.react(event.message_id, str(event.emoji), event.user_id, name, bot=bot)
        self._report_reaction(event, given=True)

    @discord.Cog.listener()
    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        transcript = self._transcripts.known(event.channel_id)
        if transcript is not None:
            transcript.unreact(event.message_id, str(event.emoji), event.user_id, bot=self._by_bot(event))
        self._report_reaction(event, given=False)

    def _report_reaction(self, event: discord.RawReactionActionEvent, *, given: bool) -> None:
        if self._listener is not None:
            emoji, place = str(event.emoji), (event.channel_id, event.message_id)
            self._listener.reacted(self._agent, *place, event.user_id, emoji, given=given)

    @discord.Cog.listener()
    async def on_raw_reaction_clear(self, event: discord.RawReactionClearEvent) -> None:
        self._clear_reactions(event.channel_id, event.message_id)

    @discord.Cog.listener()
    async def on_raw_reaction_clear_emoji(self, event: discord.RawReactionClearEmojiEvent) -> None:
        self._clear_reactions(event.channel_id, event.message_id, str(event.emoji))

    def _clear_reactions(self, channel_id: int, message_id: int, emoji: str | None = None) -> None:
        transcript = self._transcripts.known(channel_id)
        if transcript is not None:
            transcript.clear_reactions(message_id, emoji)

    @discord.Cog.listener()
    async def on_guild_channel_pins_update(
        self, channel: discord.abc.GuildChannel | discord.Thread, _: datetime | None
    ) -> None:
        """Comes for threads too."""
        transcript = self._transcripts.known(channel.id)
        if transcript is not None:
            transcript.pins.doubt()

    @discord.Cog.listener()
    async def on_guild_channel_delete(self, channel: discord.abc.GuildChannel) -> None:
        self._drop(channel.id)

    @discord.Cog.listener()
    async def on_raw_thread_delete(self, event: discord.RawThreadDeleteEvent) -> None:
        self._drop(event.thread_id)

    def _drop(self, channel_id: int) -> None:
        if self._listener is not None:
            self._listener.channel_deleted(channel_id)
        self._transcripts.drop(channel_id)

    def _by_bot(self, event: discord.RawReactionActionEvent) -> bool:
        """Whether a bot gave the reaction. Discord sends the giver in a server alone; our own are known everywhere."""
        bot = event.member is not None and event.member.bot
        return bot or self._transcripts.directory.agent_of(event.user_id) is not None

    def _giver_name(self, event: discord.RawReactionActionEvent) -> str:
        guild = self._client.get_guild(event.guild_id) if event.guild_id else None
        member = event.member or (guild.get_member(event.user_id) if guild else None)
        if member is None:
            return NOBODY
        name = clean_name(member.display_name)
        return self._transcripts.directory.distinct_name(event.user_id, name, bot=member.bot)
