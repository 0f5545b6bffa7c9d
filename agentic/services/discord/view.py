"""The view of a Discord channel: its names, its transcript and pins, and reads of missing messages."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

import discord

from agentic.chat.attachments import DEFAULT_LIMITS, Attached, AttachmentLimits, AttachmentReader
from agentic.chat.directory import clean_name
from agentic.chat.outlet import ServiceInfo
from agentic.chat.service import Person
from agentic.chat.splitting import split_text
from agentic.chat.transcript import Transcript, Transcripts
from agentic.context.entries import Entry, is_mark
from agentic.context.history import Interval
from agentic.services.discord.channels import (
    Channel,
    guild_id_of,
    guild_of,
    may_be_shown,
    me_in,
    name_in,
    parent_in,
    permissions_in,
    person_in,
    with_members,
)
from agentic.services.discord.gate import REQUEST_ERRORS, Gate, error_code
from agentic.services.discord.history import PAGE_TIMEOUT, HistoryCache, HistoryFetcher
from agentic.services.discord.mentions import to_markup, user_ids
from agentic.services.discord.messages import expires_at, to_entries

DISCORD = ServiceInfo(
    key="discord",
    name="Discord",
    membership="an AI member of a Discord server",
    members="AI members of a Discord server",
    heading="The channel #{}",
    markup="Discord's markdown",
)

log = logging.getLogger(__name__)

MAX_LOOKUPS = 10  # of one page; of further reactions, bots' reactions count too
MAX_GIVERS = 100  # Discord's largest page

# Returns None if they can't be read.
Givers = Callable[[discord.Reaction], Awaitable[Sequence[discord.User | discord.Member] | None]]


async def with_marks_of_people(messages: Sequence[discord.Message], givers: Givers) -> Sequence[discord.Message]:
    """Count the marks (agentic.context.entries) on messages without bots' reactions; a mark only from bots is removed.
    The gateway sends each reaction's giver, but REST only sends a number, so the givers are read."""
    found = [(message, mark) for message in messages for mark in message.reactions if is_mark(str(mark.emoji))]
    for message, mark in found[:MAX_LOOKUPS]:
        by = await givers(mark)
        if by is None or len(by) == MAX_GIVERS:
            continue
        mark.count = sum(not user.bot for user in by)
        if mark.count == 0:
            message.reactions.remove(mark)
    return messages


class DiscordView:
    """A channel or thread as one bot reads it, for itself or for a persona."""

    service = DISCORD

    def __init__(
        self,
        channel: Channel,
        *,
        gate: Gate,
        transcripts: Transcripts,
        fetcher: HistoryFetcher,
        attachments: AttachmentReader,
        history_cache: HistoryCache,
    ) -> None:
        self.channel, self.gate, self.transcripts = channel, gate, transcripts
        self.channel_id, self.guild_id = channel.id, guild_id_of(channel)
        self._reader: str | None = None
        self._fetcher, self._attachments, self._history_cache = fetcher, attachments, history_cache

    def read_by(self, persona: str) -> DiscordView:
        """Return the same view for a persona without an account, which has this name and can't be mentioned."""
        view = copy.copy(self)
        view._reader = persona
        return view

    @property
    def is_private(self) -> bool:
        return self.guild_id is None

    @property
    def readers_id(self) -> int | None:
        return self.guild_id

    @property
    def name(self) -> str:
        return name_in(self.channel)

    @property
    def own_name(self) -> str:
        return clean_name(self._reader or me_in(self.channel).display_name)

    @property
    def own_ids(self) -> frozenset[int]:
        """The ids that mention the bot: its user id and its own role's id."""
        if self._reader is not None:
            return frozenset()
        guild = guild_of(self.channel)
        role = guild.self_role if guild is not None else None
        return frozenset((me_in(self.channel).id, *((role.id,) if role is not None else ())))

    @property
    def transcript(self) -> Transcript:
        return self.transcripts.of(self.channel.id)

    @property
    def parent(self) -> DiscordView | None:
        """The view of a thread's channel, or None if this isn't a thread or the parent is unknown."""
        above = parent_in(self.channel)
        if above is None:
            return None
        view = copy.copy(self)
        view.channel, view.channel_id, view._reader = above, above.id, None
        return view

    @property
    def pins(self) -> tuple[tuple[Entry, ...], ...]:
        """Pinned messages, oldest first: of a thread's channel, then of the channel itself."""
        above = self.parent
        return (*(above.pins if above else ()), tuple(self.transcript.pinned()))

    async def ensure_history(self) -> None:
        """Wait briefly for the history and the pins of the channel and of a thread's parent."""
        above = self.parent
        own = self._fetcher.ensure_complete(self.channel.id, self.read_page, self.read_pins)
        await (own if above is None else asyncio.gather(own, above.ensure_history()))

    async def fetch_history(self, interval: Interval, messages: int) -> Sequence[Entry] | None:
        """Return the newest `messages` up to an interval's last one, oldest first, in any channel of this server, or
        None if the bot, or somebody who reads this channel, may not read them."""
        source: object = self.channel
        if interval.channel_id != self.channel.id:
            guild = guild_of(self.channel)
            source = await self._history_cache.channel(self.gate, guild, interval.channel_id) if guild else None
        if not isinstance(source, Channel) or not may_be_shown(source, self.channel):
            return None
        rights = permissions_in(source)
        if not (rights.view_channel and rights.read_message_history):
            return None

        async def read(limit: int, before: int | None) -> Sequence[discord.Message]:
            return await self._completed(await self.gate.history(source, limit, before))

        return await self._history_cache.upto(interval, messages, read)

    async def attached(self, entries: Sequence[Entry], limits: AttachmentLimits = DEFAULT_LIMITS) -> Attached:
        return await self._attachments.read(await self.with_valid_addresses(entries), limits)

    async def with_valid_addresses(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries with new addresses for files whose addresses have expired, which Discord's do after a day.
        Each of these messages takes a request; if that fails, it stays as it is."""
        return await asyncio.gather(*map(self._with_valid_addresses, entries))

    async def _with_valid_addresses(self, entry: Entry) -> Entry:
        if all(expires_at(file.url) > time.time() for file in entry.attachments):
            return entry
        places = (view for view in (self, self.parent) if view is not None)
        place = next((view for view in places if view.transcript.has(entry.id)), None)
        if place is None or not permissions_in(place.channel).read_message_history:
            return entry  # of another channel, which was read a moment ago; or it may not be read again
        try:
            async with asyncio.timeout(PAGE_TIMEOUT):
                message = await self.gate.message(place.channel, entry.id)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.info("message %d: reading new addresses of its files failed: %s", entry.id, error_code(error))
            return entry
        found = to_entries([message] if message is not None else [], self.transcripts.directory)
        addresses = {file.id: file.url for fresh in found for file in fresh.attachments}
        place.transcript.renew_addresses(entry.id, addresses)
        return entry.with_addresses(addresses)

    async def read_page(self, limit: int, before: int | None) -> Sequence[discord.Message]:
        """Return a page of messages, newest first, or none if the bot may not read them. Raises REQUEST_ERRORS."""
        if not permissions_in(self.channel).read_message_history:
            return ()
        return await self._completed(await self.gate.history(self.channel, limit, before))

    async def read_pins(self) -> Sequence[discord.Message] | None:
        """Return all pinned messages, or None if the bot may not read them. Raises one of REQUEST_ERRORS."""
        if not permissions_in(self.channel).read_message_history:
            return None
        return await self._completed(await self.gate.pins(self.channel))

    async def newest(self, count: int, seconds: float) -> Sequence[discord.Message]:
        """Return the channel's newest messages as Discord has them now, or none if that fails or takes too long."""
        try:
            async with asyncio.timeout(seconds):
                return await self.read_page(count, None)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning("channel %d: reading its newest messages failed: %s", self.channel_id, error_code(error))
            return ()

    async def newest_with(self, emojis: Collection[str], count: int) -> Sequence[tuple[int, int, float, str]]:
        """Return these reactions to the newest `count` messages: the message's id, author, and time (unix seconds), and
        the emoji."""
        newest = await self.newest(count, PAGE_TIMEOUT)
        given = [(message, str(reaction.emoji)) for message in newest for reaction in message.reactions]
        return [(one.id, one.author.id, one.created_at.timestamp(), emoji) for one, emoji in given if emoji in emojis]

    async def givers(self, message_id: int, emoji: str) -> Sequence[Person]:
        """Return the people who gave a reaction, with their rights here, or none if that fails. The reactions of people
        who left the server stay."""
        try:
            message = await self.gate.message(self.channel, message_id)
            given = [one for one in message.reactions if str(one.emoji) == emoji] if message is not None else []
            users = [user for one in given for user in await self.gate.givers(one, MAX_GIVERS) if not user.bot]
        except REQUEST_ERRORS as error:
            text = "channel %d: reading who reacted with %s to message %d failed: %s"
            log.warning(text, self.channel_id, emoji, message_id, error_code(error))
            return ()
        return [await self._person(user) for user in users]

    async def _person(self, user: discord.User | discord.Member) -> Person:
        """Return a user with their rights here; without rights if they left, or if that can't be read."""
        guild, directory = guild_of(self.channel), self.transcripts.directory
        if guild is None:
            return person_in(user, self.channel, directory)
        try:
            member = await self.gate.member(guild, user.id)
        except REQUEST_ERRORS as error:
            log.info("user %d: reading their roles failed: %s; assuming none", user.id, error_code(error))
            return person_in(user, self.channel, directory)
        return replace(person_in(member or user, self.channel, directory), has_left=member is None)

    async def _completed(self, messages: Sequence[discord.Message]) -> Sequence[discord.Message]:
        """Add what REST leaves out: the roles of people who give commands, and the people who hide messages."""

        async def givers(mark: discord.Reaction) -> Sequence[discord.User | discord.Member] | None:
            try:
                return await self.gate.givers(mark, MAX_GIVERS)
            except REQUEST_ERRORS as error:
                text = "message %d: reading who hid it failed: %s; bots' reactions are counted too"
                log.info(text, mark.message.id, error_code(error))
                return None

        return await with_marks_of_people(await with_members(messages, self._member), givers)

    async def _member(self, user_id: int) -> discord.Member | None:
        guild = guild_of(self.channel)
        try:
            return await self.gate.member(guild, user_id) if guild is not None else None
        except REQUEST_ERRORS as error:
            log.info("user %d: reading their roles failed: %s; assuming none", user_id, error_code(error))
            return None


def split_cleaned(
    view: DiscordView, text: str, limit: int, *names: Mapping[str, str], growing: bool = False
) -> list[str]:
    """Clean a text, turn names into mentions, and split it into messages."""
    agents = user_ids(view.transcripts.directory, *names)
    return split_text(to_markup(view.gate.clean(text), view.channel, view.transcript, agents), limit, growing=growing)
