"""The readers of a channel: whether something learned in one channel may be shown in another.

It may where everybody who reads the other channel may read the first: in the channel itself and its public threads;
elsewhere in the same server only if nobody at all is excluded from the first, or both exclude exactly the same people.
What cannot be judged (a deleted channel, another server's, a private thread, a direct message) is shown nowhere else.

This is judged by roles and overwrites alone, since members are not cached. The rules of permissions are Discord's
(https://docs.discord.com/developers/topics/permissions#permission-overwrites).
"""

from __future__ import annotations

from collections.abc import Callable

import discord

from agentic.services.discord.channels import Channel, guild_id_of

READS = discord.Permissions(view_channel=True, read_message_history=True)

ChannelOf = Callable[[int], object]


class Audience:
    """`channel_of` returns a bot's channel by id, and anything else for an unknown one."""

    def __init__(self, channel_of: ChannelOf) -> None:
        self._channel_of = channel_of

    def may_see(self, here: int) -> Callable[[int], bool]:
        """A test for other channels: whether everybody who reads `here` may read them. `here` is 0 for no channel."""
        place = self._channel_of(here) if here else None

        def judged(channel_id: int) -> bool:
            if not here or channel_id == here:
                return bool(here)
            source = self._channel_of(channel_id)
            return isinstance(source, Channel) and isinstance(place, Channel) and may_be_shown(source, place)

        return judged

    def is_open(self, channel_id: int) -> bool:
        """Whether everybody of its server reads the channel."""
        place = self._channel_of(channel_id)
        base = _base(place) if isinstance(place, Channel) else None
        return base is not None and not _is_closed_thread(place) and _is_open(base)

    def guild_of(self, channel_id: int) -> int | None:
        """The channel's server; None for a direct message and for an unknown channel."""
        place = self._channel_of(channel_id)
        return guild_id_of(place) if isinstance(place, Channel) else None

    def name_of(self, channel_id: int) -> str | None:
        """The channel's name; None for an unknown one, and for a direct message."""
        place = self._channel_of(channel_id)
        return place.name if isinstance(place, Channel) and not isinstance(place, discord.DMChannel) else None

    def origin(self, here: int) -> int:
        """The channel that something learned `here` is recorded under: a public thread's is its parent, which the same
        people read, and which is still known when the thread is archived."""
        place = self._channel_of(here) if here else None
        base = _base(place) if isinstance(place, Channel) else None
        return base.id if base is not None and not _is_closed_thread(place) else here


def may_be_shown(source: Channel, here: Channel) -> bool:
    """Whether everybody who reads `here` may read `source`."""
    if source.id == here.id:
        return True
    if isinstance(source, discord.DMChannel) or isinstance(here, discord.DMChannel):
        return False
    if source.guild.id != here.guild.id or _is_closed_thread(source):
        return False
    theirs, ours = _base(source), _base(here)
    if theirs is None or ours is None:
        return False
    return theirs.id == ours.id or _is_open(theirs) or _overwrites(theirs) == _overwrites(ours)


def _is_open(channel: discord.abc.GuildChannel) -> bool:
    """Whether @everyone reads it, and no role or member is excluded."""
    everyone = channel.guild.default_role
    if not channel.permissions_for(everyone).is_superset(READS):
        return False
    return not any(deny for role, (_, deny) in _overwrites(channel).items() if role != everyone.id)


def _overwrites(channel: discord.abc.GuildChannel) -> dict[int, tuple[int, int]]:
    """The overwrites about reading: role or member → allowed and denied bits, where there are any."""
    # The public property leaves out members that py-cord has not cached, and those decide here too.
    found = {one.id: (one.allow & READS.value, one.deny & READS.value) for one in channel._overwrites}
    return {one_id: bits for one_id, bits in found.items() if any(bits)}


def _is_closed_thread(channel: object) -> bool:
    return isinstance(channel, discord.Thread) and channel.is_private()


def _base(channel: Channel) -> discord.abc.GuildChannel | None:
    """The channel whose overwrites count: a thread's is its parent."""
    if isinstance(channel, discord.DMChannel):
        return None
    return channel.parent if isinstance(channel, discord.Thread) else channel
