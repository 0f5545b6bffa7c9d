"""Messages of other channels for `.history`: read once, cached for ten minutes.

The caller makes sure that the bot may read them, and everybody who reads the channel where it speaks
(objects/audience.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

import discord
from cachetools import TLRUCache

from agentic.chat.transcript import Transcript, Transcripts
from agentic.context.entries import Entry
from agentic.context.history import Interval
from agentic.services.discord.errors import REQUEST_ERRORS, kind
from agentic.services.discord.gate import Gate
from agentic.services.discord.history import PAGE, PAGE_TIMEOUT, Reader
from agentic.services.discord.messages import to_entries

KEEP_SECONDS = 600.0
MAX_CACHED = 64
TRY_AGAIN = 30.0  # seconds after a failed read

_REFUSED = object()  # a channel that the bot does not see; it is cached as long as a found one

log = logging.getLogger(__name__)


def _until(_: object, found: object, now: float) -> float:
    """The time at which a cached value expires; None stands for a failed read."""
    return now + (TRY_AGAIN if found is None else KEEP_SECONDS)


class HistoryCache:
    """Shared by all bots of a process. `clock` returns seconds."""

    def __init__(self, transcripts: Transcripts, clock: Callable[[], float] | None = None) -> None:
        self._transcripts, self._clock = transcripts, clock
        self._kept: TLRUCache[tuple[int, int, int | None, int], tuple[Entry, ...] | None]  # oldest first
        self._kept = TLRUCache(MAX_CACHED, _until, self._now)
        self._found: TLRUCache[tuple[int, int], object] = TLRUCache(MAX_CACHED, _until, self._now)  # by bot and channel
        transcripts.on_change(self.forget)

    async def channel(self, gate: Gate, guild: discord.Guild, channel_id: int) -> object:
        """A channel or thread of the guild as the gate's bot sees it; anything else where it does not. The gateway
        brings channels and active threads; an archived thread is requested."""
        known = guild.get_channel_or_thread(channel_id)
        if known is not None:
            return known
        key = (guild.me.id, channel_id)
        if key not in self._found:
            self._found[key] = await self._look(gate, guild, channel_id)
        return self._found.get(key)

    async def _look(self, gate: Gate, guild: discord.Guild, channel_id: int) -> object:
        try:
            return await asyncio.wait_for(gate.channel(guild, channel_id), PAGE_TIMEOUT)
        except (*REQUEST_ERRORS, discord.InvalidData, TimeoutError) as error:
            log.info("channel %d, which .history names, could not be found: %s", channel_id, kind(error))
            refused = isinstance(error, discord.Forbidden | discord.NotFound | discord.InvalidData)
            return _REFUSED if refused else None

    async def upto(self, interval: Interval, messages: int, reader: Reader) -> Sequence[Entry] | None:
        """The newest `messages` up to the interval's last one, oldest first; None where they cannot be read. `reader`
        reads that channel."""
        transcript = self._transcripts.known(interval.channel_id)
        if transcript is not None and (live := known_upto(transcript, interval, messages)) is not None:
            return live
        key = (interval.channel_id, interval.last, interval.first, messages)  # no more is read than back to the first
        if key not in self._kept:
            self._kept[key] = await self._read(interval, messages, reader)
        return self._kept.get(key)

    def forget(self, channel_id: int, message_ids: Iterable[int]) -> None:
        """Drops what holds messages that were edited or deleted."""
        oldest = min(message_ids, default=0)
        for key in [key for key in self._kept if key[0] == channel_id and key[1] >= oldest]:
            del self._kept[key]

    def _now(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()

    async def _read(self, interval: Interval, messages: int, reader: Reader) -> tuple[Entry, ...] | None:
        found: list[discord.Message] = []
        before = interval.last + 1
        try:
            while len(found) < messages:
                wanted = min(PAGE, messages - len(found))
                page = await asyncio.wait_for(reader(wanted, before), PAGE_TIMEOUT)
                found += page
                if len(page) < wanted or any(message.id == interval.first for message in page):
                    break
                before = page[-1].id
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.info("channel %d: messages for .history could not be read: %s", interval.channel_id, kind(error))
            return None
        return tuple(to_entries(reversed(found), self._transcripts.directory))


def known_upto(transcript: Transcript, interval: Interval, messages: int) -> Sequence[Entry] | None:
    """The same messages from a transcript; None where it does not reach so far back."""
    if not transcript.whole:
        return None
    upto = [entry for entry in transcript.entries() if entry.id <= interval.last]
    reaches = transcript.begins or len(upto) >= messages or any(entry.id == interval.first for entry in upto)
    return upto[-messages:] if upto and reaches else None
