"""The kinds of channels that a bot speaks in, and what py-cord knows of one: its server, its name, the bot's rights."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Protocol

import discord
from cachetools import LRUCache

from agentic.chat.directory import clean_name
from agentic.chat.transcript import Transcripts
from agentic.ids import sent_at

GuildChannel = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel
Channel = GuildChannel | discord.DMChannel

DIRECT_NAME = "direct message"
MAX_DIRECT_MESSAGES = 1000  # channels remembered

log = logging.getLogger(__name__)


def guild_of(channel: Channel) -> discord.Guild | None:
    """None for a direct message."""
    return None if isinstance(channel, discord.DMChannel) else channel.guild


def guild_id_of(channel: Channel) -> int | None:
    guild = guild_of(channel)
    return guild.id if guild is not None else None


def parent_of(channel: object) -> int | None:
    """The id of a thread's channel; None for anything but a thread."""
    return channel.parent_id if isinstance(channel, discord.Thread) else None


def parent_in(channel: Channel) -> Channel | None:
    """A thread's channel, where the bot sees it."""
    parent = channel.parent if isinstance(channel, discord.Thread) else None
    return parent if isinstance(parent, Channel) else None


def name_in(channel: Channel) -> str:
    return DIRECT_NAME if isinstance(channel, discord.DMChannel) else clean_name(channel.name)


def me_in(channel: Channel) -> discord.Member | discord.ClientUser:
    return channel.me if isinstance(channel, discord.DMChannel) else channel.guild.me


def permissions_in(channel: Channel) -> discord.Permissions:
    """The bot's own."""
    if isinstance(channel, discord.DMChannel):
        return channel.permissions_for(channel.me)
    return channel.permissions_for(channel.guild.me)


def refusal_in(channel: Channel, *, our_lock: bool = False) -> str | None:
    """Why the bot may not write there; None when it may. A lock silences it, though Discord would take a post from a
    bot that may manage threads: a moderator means bots too. `our_lock`: it is our own, for people alone."""
    permissions, is_thread = permissions_in(channel), isinstance(channel, discord.Thread)
    may_send = permissions.send_messages_in_threads if is_thread else permissions.send_messages
    locked = isinstance(channel, discord.Thread) and channel.locked and not (our_lock and permissions.manage_threads)
    return None if permissions.view_channel and may_send and not locked else "not_permitted"


def threads_to_read(channels: Iterable[Channel], transcripts: Transcripts, since: float) -> Iterator[discord.Thread]:
    """The active threads of these channels with a message since then (unix seconds), or with a transcript that must
    stay true. A server may have a thousand active threads: the others are read when a turn needs them."""
    for channel in channels:
        for thread in getattr(channel, "threads", ()):  # a voice channel has none
            last = thread.last_message_id
            if thread.archived or last is None:
                continue
            if transcripts.known(thread.id) is not None or sent_at(last) >= since:
                yield thread


class ChannelFetcher(Protocol):
    """py-cord's client, as far as it matters here."""

    async def fetch_channel(self, channel_id: int, /) -> object: ...


class DirectMessages:
    """The direct message channels of one bot, by id: the most recently used ones. py-cord finds none by id."""

    def __init__(self) -> None:
        self._channels: LRUCache[int, discord.DMChannel] = LRUCache(MAX_DIRECT_MESSAGES)

    def note(self, channel: object) -> None:
        """Remembers the channel, if it is a direct message."""
        if isinstance(channel, discord.DMChannel):
            self._channels[channel.id] = channel

    def of(self, channel_id: int) -> discord.DMChannel | None:
        return self._channels.get(channel_id)

    async def fetch(self, bot: ChannelFetcher, channel_id: int) -> discord.DMChannel | None:
        """Ask Discord for a channel, and remember it. None if it can't be read, or is another kind of channel."""
        try:
            self.note(await bot.fetch_channel(channel_id))
        except (discord.HTTPException, discord.InvalidData) as error:
            log.info("channel %d can't be read: %s", channel_id, error)
        return self.of(channel_id)
