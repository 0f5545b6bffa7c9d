"""Messages of any channel up to one of them, for `.history`: read once, kept a while, and only where they may be shown.

Two have to be able to read what `.history` brings: the bot, and everybody who reads the channel where it speaks
(audience.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import discord

from agent_context.entries import Entry
from agent_context.history import Interval
from agent_discord.convert import to_entries
from agent_discord.fetching import PAGE, PAGE_TIMEOUT, Reader
from agent_discord.gate import REQUEST_ERRORS, Gate
from agent_discord.hand import kind
from agent_discord.transcript import Transcript, Transcripts

KEEP_SECONDS = 600.0
MOST_KEPT = 64
TRY_AGAIN = 30.0  # seconds after a read that failed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    entries: tuple[Entry, ...] | None  # oldest first; None: could not be read
    until: float


@dataclass(frozen=True, slots=True)
class _Found:
    channel: object  # None: the bot does not see it, or it is in no way known
    until: float


class Pasts:
    """Shared by all bots of a process. `clock` gives seconds."""

    def __init__(self, transcripts: Transcripts, clock: Callable[[], float] | None = None) -> None:
        self._transcripts, self._clock = transcripts, clock
        self._kept: OrderedDict[tuple[int, int, int | None, int], _Kept] = OrderedDict()
        self._found: OrderedDict[tuple[int, int], _Found] = OrderedDict()  # by bot and channel
        transcripts.on_change(self.forget)

    async def channel(self, gate: Gate, guild: discord.Guild, channel_id: int) -> object:
        """A channel or thread of the guild as the gate's bot sees it; None where it does not. Discord tells a bot of
        its channels and of threads in use; archived threads are asked for."""
        known = guild.get_channel_or_thread(channel_id)
        if known is not None:
            return known
        key = (guild.me.id, channel_id)
        found = self._found.get(key)
        if found is None or found.until <= self._now():
            found = self._found[key] = await self._look(gate, guild, channel_id)
            if len(self._found) > MOST_KEPT:
                self._found.popitem(last=False)
        return found.channel

    async def _look(self, gate: Gate, guild: discord.Guild, channel_id: int) -> _Found:
        try:
            channel = await asyncio.wait_for(gate.channel(guild, channel_id), PAGE_TIMEOUT)
            return _Found(channel, self._now() + KEEP_SECONDS)
        except (*REQUEST_ERRORS, discord.InvalidData, TimeoutError) as error:
            log.info("channel %d, which .history names, could not be asked for: %s", channel_id, kind(error))
            refused = isinstance(error, discord.Forbidden | discord.NotFound | discord.InvalidData)
            return _Found(None, self._now() + (KEEP_SECONDS if refused else TRY_AGAIN))

    async def upto(self, interval: Interval, messages: int, reader: Reader) -> Sequence[Entry] | None:
        """The newest `messages` up to the interval's last one, oldest first; None where they cannot be read.

        `reader` reads that channel as a bot that may.
        """
        transcript = self._transcripts.known(interval.channel_id)
        if transcript is not None and (live := known_upto(transcript, interval, messages)) is not None:
            return live
        key = (interval.channel_id, interval.last, interval.first, messages)  # no more is read than back to the first
        kept = self._kept.get(key)
        if kept is None or kept.until <= self._now():
            entries = await self._read(interval, messages, reader)
            kept = _Kept(entries, self._now() + (KEEP_SECONDS if entries is not None else TRY_AGAIN))
            self._kept[key] = kept
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return kept.entries

    def forget(self, channel_id: int, message_ids: Iterable[int]) -> None:
        """Messages were edited or deleted."""
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
    """The same from a live record; None where it does not reach as far."""
    if not transcript.whole:
        return None
    upto = [entry for entry in transcript.entries() if entry.id <= interval.last]
    reaches = transcript.begins or len(upto) >= messages or any(entry.id == interval.first for entry in upto)
    return upto[-messages:] if upto and reaches else None
