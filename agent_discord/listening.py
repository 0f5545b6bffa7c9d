"""Keeps the transcript true: gateway events in, entries out. Decides nothing.

All bots of a process feed the same transcripts, each event up to four times; the transcript takes that without harm.
"""

from __future__ import annotations

import discord

from agent_discord.asking import AskedFor
from agent_discord.convert import is_said, mentioned_users, replied_author, to_entry
from agent_discord.heard import Heard
from agent_discord.mentions import NOBODY, clean_name
from agent_discord.transcript import Transcripts


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


def parent_of(channel: object) -> int | None:
    """The channel that a thread hangs on."""
    return channel.parent_id if isinstance(channel, discord.Thread) else None


def heard(message: discord.Message, by_command: AskedFor | None = None) -> Heard:
    """The facts by which it is decided whether a message calls an agent; `by_command` where it is the question that
    somebody asked by a command."""
    if by_command is not None:
        return Heard(
            message_id=message.id,
            author_id=by_command.by.id,
            by_person=True,
            guild_id=message.guild.id if message.guild else None,
            channel_id=message.channel.id,
            parent_id=parent_of(message.channel),
            mentioned_users=frozenset((by_command.agent,)),
        )
    return Heard(
        message_id=message.id,
        author_id=message.author.id,
        by_person=not message.author.bot and message.webhook_id is None and is_said(message),
        author_roles=frozenset(role.id for role in getattr(message.author, "roles", ())),  # users have none
        guild_id=message.guild.id if message.guild else None,
        channel_id=message.channel.id,
        parent_id=parent_of(message.channel),
        mentioned_users=mentioned_users(message),
        mentioned_roles=frozenset(message.raw_role_mentions),
        replied_to=replied_author(message),
    )
