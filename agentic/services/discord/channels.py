"""Reads what py-cord knows about a channel: its server, its name, permissions of the bot and of people, its readers.

Something learned in one channel may be shown in another if everyone who reads the other channel may read the first.
That is true in the channel itself and its public threads. Elsewhere in the same server it is true only if nobody is
excluded from the first channel, or both channels exclude exactly the same people. If this can't be decided (a deleted
channel, another server's, a private thread, a direct message), nothing is shown. Only roles and overwrites are
compared, because members aren't cached. The rules are Discord's
(https://docs.discord.com/developers/topics/permissions#permission-overwrites).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import discord

from agentic.chat.directory import Directory, clean_name
from agentic.chat.service import Person, PersonReaction
from agentic.chat.transcript import Transcripts
from agentic.context.commands import order_in
from agentic.ids import sent_at

GuildChannel = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel
MainChannel = discord.TextChannel | discord.VoiceChannel | discord.StageChannel | discord.ForumChannel
Channel = GuildChannel | discord.DMChannel
ChannelOf = Callable[[int], object]

DIRECT_NAME = "direct message"
READS = discord.Permissions(view_channel=True, read_message_history=True)
_COMMAND = re.compile(r"(?:\s*<@[!&]?\d{1,20}>)*\s*\.(?:config|history)\b")


# These run many times a turn, and isinstance() is slow if it fails for py-cord's classes, which are ABCs.


def guild_of(channel: Channel) -> discord.Guild | None:
    return getattr(channel, "guild", None)


def guild_id_of(channel: object) -> int | None:
    guild = getattr(channel, "guild", None)
    return None if guild is None else guild.id


def parent_of(channel: object) -> int | None:
    """Return the id of a thread's channel, or None if it isn't a thread."""
    return getattr(channel, "parent_id", None)


def parent_in(channel: Channel) -> Channel | None:
    """Return a thread's channel if the bot sees it."""
    parent = getattr(channel, "parent", None)
    return parent if parent is not None and isinstance(parent, Channel) else None


def name_in(channel: Channel) -> str:
    return DIRECT_NAME if isinstance(channel, discord.DMChannel) else clean_name(channel.name)


def me_in(channel: Channel) -> discord.Member | discord.ClientUser:
    place: Any = guild_of(channel) or channel
    return place.me  # type: ignore[no-any-return]


def permissions_in(channel: Channel) -> discord.Permissions:
    """Return the bot's own permissions."""
    me: Any = me_in(channel)  # a user in a direct message, otherwise a member
    return channel.permissions_for(me)


def refusal_in(channel: Channel, *, our_lock: bool = False) -> str | None:
    """Return why the bot may not write there, or None if it may. A locked thread is closed to it even if it may manage
    threads: a moderator means bots too. `our_lock`: we locked the thread ourselves, only for people."""
    permissions, is_thread = permissions_in(channel), parent_of(channel) is not None
    may_send = permissions.send_messages_in_threads if is_thread else permissions.send_messages
    locked = getattr(channel, "locked", False) and not (our_lock and permissions.manage_threads)
    return None if permissions.view_channel and may_send and not locked else "not_permitted"


def threads_to_read(channels: Iterable[Channel], transcripts: Transcripts, since: float) -> Iterator[discord.Thread]:
    """Yield the channels' active threads with a message since `since` (unix seconds), or with a transcript to keep up
    to date. A server may have a thousand active threads: the others are read when a turn needs them."""
    for channel in channels:
        for thread in getattr(channel, "threads", ()):  # a voice channel has none
            last = thread.last_message_id
            if thread.archived or last is None:
                continue
            if transcripts.known(thread.id) is not None or sent_at(last) >= since:
                yield thread


class Audience:
    """Decides what may be shown where. `channel_of` returns a bot's channel by id, or any other value if unknown."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    def may_see(self, here: int) -> Callable[[int], bool]:
        """Return a test for other channels: whether everyone who reads `here` may read them. `here` is 0 for none."""
        place = self._channel_of(here) if here else None

        def may_show(channel_id: int) -> bool:
            if not here or channel_id == here:
                return bool(here)
            source = self._channel_of(channel_id)
            return isinstance(source, Channel) and isinstance(place, Channel) and may_be_shown(source, place)

        return may_show

    def is_open(self, channel_id: int) -> bool:
        """Return whether everyone in its server reads the channel."""
        place = self._channel_of(channel_id)
        base = main_channel(place) if isinstance(place, Channel) else None
        return base is not None and not _is_closed_thread(place) and _is_open(base)

    def guild_of(self, channel_id: int) -> int | None:
        return guild_id_of(self._channel_of(channel_id))

    def name_of(self, channel_id: int) -> str | None:
        """Return the channel's name, or None if it is unknown or a direct message."""
        place = self._channel_of(channel_id)
        return place.name if isinstance(place, Channel) and not isinstance(place, discord.DMChannel) else None

    def origin(self, here: int) -> int:
        """Return the channel under which to record something learned `here`: for a public thread its parent, which the
        same people read and which is still known when the thread is archived."""
        place = self._channel_of(here) if here else None
        base = main_channel(place) if isinstance(place, Channel) else None
        return base.id if base is not None and not _is_closed_thread(place) else here


def may_be_shown(source: Channel, here: Channel) -> bool:
    """Return whether everyone who reads `here` may read `source`."""
    if source.id == here.id:
        return True
    if isinstance(source, discord.DMChannel) or isinstance(here, discord.DMChannel):
        return False
    if source.guild.id != here.guild.id or _is_closed_thread(source):
        return False
    theirs, ours = main_channel(source), main_channel(here)
    if theirs is None or ours is None:
        return False
    return theirs.id == ours.id or _is_open(theirs) or _overwrites(theirs) == _overwrites(ours)


def _is_open(channel: discord.abc.GuildChannel) -> bool:
    """Return whether @everyone reads it and no role or member is excluded."""
    everyone = channel.guild.default_role
    if not channel.permissions_for(everyone).is_superset(READS):
        return False
    return not any(deny for role, (_, deny) in _overwrites(channel).items() if role != everyone.id)


def _overwrites(channel: discord.abc.GuildChannel) -> dict[int, tuple[int, int]]:
    """Return the overwrites about reading: role or member → allowed and denied bits, if there are any."""
    # The public property leaves out members that py-cord hasn't cached, but they matter here too.
    found = {one.id: (one.allow & READS.value, one.deny & READS.value) for one in channel._overwrites}
    return {one_id: bits for one_id, bits in found.items() if any(bits)}


def _is_closed_thread(channel: object) -> bool:
    return isinstance(channel, discord.Thread) and channel.is_private()


def main_channel(channel: Channel) -> MainChannel | None:
    """Return the channel with the overwrites and the webhook: for a thread its parent, for a direct message None."""
    if isinstance(channel, discord.DMChannel):
        return None
    return channel.parent if isinstance(channel, discord.Thread) else channel


def person_in(
    user: discord.User | discord.Member | discord.ClientUser, channel: object, directory: Directory
) -> Person:
    """Return a user with their rights in a channel, or without rights if they aren't a known member of its guild. The
    bots' owner may do in the program what Discord's permissions allow others."""
    is_owner, name = directory.is_owner(user.id), clean_name(user.display_name)
    if not isinstance(user, discord.Member) or not isinstance(channel, Channel):
        return Person(user.id, manages_messages=is_owner, name=name)
    roles = frozenset(role.id for role in user.roles)
    may = channel.permissions_for(user)
    return Person(user.id, roles, is_owner or may.manage_messages, is_owner or may.manage_guild, name)


def author_of(message: discord.Message, directory: Directory) -> Person:
    """Return a message's author with their rights in its channel."""
    return person_in(message.author, message.channel, directory)


def person_reaction(
    event: discord.RawReactionActionEvent, channel: object, transcripts: Transcripts
) -> PersonReaction | None:
    """Return a person's reaction, or None if a bot reacted or the message's author is unknown."""
    # Discord sends the message's author with the event, except for webhooks; py-cord has it only in the raw data.
    author = event.data.get("message_author_id")
    if not (isinstance(author, str) and author.isdecimal()):
        transcript = transcripts.known(event.channel_id)
        entry = transcript.get(event.message_id) if transcript is not None else None
        author = entry.speaker.id if entry is not None else None
    if author is None or event.member is None or event.member.bot:
        return None
    who = person_in(event.member, channel, transcripts.directory)
    return PersonReaction(who, event.channel_id, event.message_id, int(author), str(event.emoji))


async def with_members(
    messages: Sequence[discord.Message], member: Callable[[int], Awaitable[discord.Member | None]]
) -> Sequence[discord.Message]:
    """Add the author's roles to messages that are commands. The gateway sends an author's roles with each message, but
    REST doesn't, so each such author costs one request."""
    members: dict[int, discord.Member | None] = {}
    for message in messages:
        author, content = message.author, message.content
        if not isinstance(author, discord.User) or author.bot or message.webhook_id is not None:
            continue
        calls = message.mentions or message.raw_role_mentions or message.reference
        if not _COMMAND.match(content) and not (calls and order_in(content) is not None):
            continue
        if author.id not in members:
            members[author.id] = await member(author.id)
        message.author = members[author.id] or author
    return messages
