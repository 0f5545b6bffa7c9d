"""Reads each channel's history and pins once, so that transcripts are complete, and other channels' for `.history`.

All bots share one read of a channel. If a turn waits for a read, it starts immediately; the others run one after
another, slowly. Every read has a timeout: py-cord makes a history read and a post in the same channel wait for each
other, and canceling the read frees the post.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

import discord
from cachetools import TLRUCache

from agentic.chat.service import HistoryListener
from agentic.chat.transcript import Transcript, Transcripts
from agentic.context.entries import Entry
from agentic.context.history import Interval
from agentic.process.tasks import cancel_and_wait
from agentic.services.discord.gate import REQUEST_ERRORS, Gate, error_code
from agentic.services.discord.messages import replied_messages, to_entries
from agentic.state.posts import WebhookPosts

log = logging.getLogger(__name__)

PAGE = 100  # Discord's largest page
PAGE_TIMEOUT = 5.0  # seconds
TURN_WAIT = 1.5  # seconds that a turn waits for the history before it continues without it
READ_PACE = 0.25  # seconds between two reads that nobody waits for
RETRY_AFTER, MAX_RETRY_AFTER = 2.0, 30.0  # seconds before a failed read is retried: the first, doubled up to the second
MAX_PIN_READS = 3  # of a channel's pins in a row, if they change meanwhile
KEEP_SECONDS = 600.0
MAX_CACHED = 64
TRY_AGAIN = 30.0  # seconds after a failed read
_REFUSED = object()  # a channel that the bot can't see; cached for as long as a found channel

Reader = Callable[[int, int | None], Awaitable[Sequence[discord.Message]]]  # limit, before → newest first
PinReader = Callable[[], Awaitable[Sequence[discord.Message] | None]]  # None: this bot may not read them


class HistoryFetcher:
    """Completes transcripts. `posts` has the ids of our webhook posts. Pins are read only if a pin reader is given."""

    def __init__(self, transcripts: Transcripts, posts: WebhookPosts | None = None) -> None:
        self._transcripts, self._posts = transcripts, posts
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, tuple[Reader, PinReader | None]] = {}  # queued channels, in order
        self._not_before: dict[int, float] = {}
        self._failures: dict[int, int] = {}  # in a row
        self._refused: set[int] = set()  # channels that the bot may not read: only a turn retries
        self._again: dict[int, asyncio.TimerHandle] = {}
        self._upto: dict[int, int] = {}  # channel → its newest known message
        self._idle: asyncio.Task[None] | None = None
        self._on_read: list[HistoryListener] = []

    def on_read(self, listener: HistoryListener) -> Callable[[], None]:
        """Call `listener` with each channel whose history was read, before waiting turns continue. Return a function
        that removes it."""
        self._on_read.append(listener)

        def end() -> None:
            if listener in self._on_read:
                self._on_read.remove(listener)

        return end

    def catch_up(self, channel_id: int, last: int | None, reader: Reader, pins: PinReader | None = None) -> None:
        """Mark the transcript as complete if nothing is missing, otherwise queue a read. `last` is the id of the
        channel's newest message."""
        transcript = self._transcripts.of(channel_id)
        if last is None:
            transcript.is_complete = transcript.begins = transcript.pins.known = True
        elif last > transcript.newest and last not in transcript.deleted:
            self._upto[channel_id] = max(last, self._upto.get(channel_id, 0))
            transcript.note_gap()
            transcript.pins.mark_stale()
        self.want(channel_id, reader, pins)

    def want(self, channel_id: int, reader: Reader, pins: PinReader | None = None) -> None:
        """Queue a read of the channel's history, retried until it succeeds."""
        if not self._lacks(channel_id, pins):
            return
        if (timer := self._again.pop(channel_id, None)) is not None:
            timer.cancel()
        self._waiting[channel_id] = (reader, pins)
        if self._idle is None or self._idle.done():
            self._idle = asyncio.create_task(self._read_waiting(), name="history")

    async def ensure_complete(self, channel_id: int, reader: Reader, pins: PinReader | None = None) -> None:
        """Return when the transcript is complete and its pins are known, or after TURN_WAIT seconds."""
        if not self._lacks(channel_id, pins):
            return
        task = self._tasks.get(channel_id) or self._start(channel_id, reader, pins)
        if task is not None:
            await asyncio.wait((task,), timeout=TURN_WAIT)

    def _lacks(self, channel_id: int, pins: PinReader | None) -> bool:
        transcript = self._transcripts.of(channel_id)
        return not transcript.is_complete or (pins is not None and not transcript.pins.known)

    async def known(self, channel_id: int) -> bool:
        """Wait for a queued or running read of the channel's history. Return whether the transcript is complete."""
        while (transcript := self._transcripts.known(channel_id)) is None or not transcript.is_complete:
            task = self._tasks.get(channel_id)
            if task is None and channel_id not in self._waiting:
                return False
            await asyncio.wait((task,) if task else (asyncio.ensure_future(asyncio.sleep(READ_PACE)),))
        return True

    async def aclose(self) -> None:
        for timer in self._again.values():
            timer.cancel()
        await cancel_and_wait(*self._tasks.values(), *([self._idle] if self._idle else []))

    async def _read_waiting(self) -> None:
        while self._waiting:
            channel_id = next(iter(self._waiting))
            reader, pins = self._waiting.pop(channel_id)
            if (running := self._tasks.get(channel_id)) is not None:  # a turn started it
                await asyncio.wait((running,))
            if not self._lacks(channel_id, pins):
                continue
            if (task := self._start(channel_id, reader, pins)) is not None:
                await asyncio.wait((task,))
            # Queue a failed read for later, or another read now if more is wanted than when this one began.
            loop = asyncio.get_running_loop()
            at = self._not_before.get(channel_id, 0.0)
            has_failed, is_refused = at > loop.time(), channel_id in self._refused
            wanted = not is_refused if has_failed else not self._transcripts.of(channel_id).is_complete
            if wanted and channel_id not in self._waiting:
                self._again[channel_id] = loop.call_at(at, self.want, channel_id, reader, pins)
            if task is not None:
                await asyncio.sleep(READ_PACE)

    def _start(self, channel_id: int, reader: Reader, pins: PinReader | None) -> asyncio.Task[None] | None:
        if self._not_before.get(channel_id, 0.0) > asyncio.get_running_loop().time():
            return None
        task = asyncio.create_task(self._read(channel_id, reader, pins), name=f"history {channel_id}")
        task.add_done_callback(lambda _: self._tasks.pop(channel_id, None))
        self._tasks[channel_id] = task
        return task

    async def _read(self, channel_id: int, reader: Reader, pins: PinReader | None) -> None:
        transcript = self._transcripts.of(channel_id)
        try:
            if not transcript.is_complete:
                await self._read_history(transcript, reader)
            if pins is not None and not transcript.pins.known:
                await self._read_pins(transcript, pins)
            self._failures.pop(channel_id, None)
            self._refused.discard(channel_id)
        except Exception as error:  # one channel's failure must not stop the other reads
            failures = self._failures[channel_id] = self._failures.get(channel_id, 0) + 1
            if isinstance(error, (discord.Forbidden, discord.NotFound, RuntimeError)):  # RuntimeError: its bot is gone
                self._refused.add(channel_id)
            pause = MAX_RETRY_AFTER if channel_id in self._refused else RETRY_AFTER * 2.0 ** min(failures - 1, 10)
            self._not_before[channel_id] = asyncio.get_running_loop().time() + min(pause, MAX_RETRY_AFTER)
            level = logging.WARNING if failures == 1 else logging.DEBUG
            what = "pins" if transcript.is_complete else "history"
            text = "channel %d: reading its %s failed: %s; turns continue without it"
            log.log(level, text, channel_id, what, error_code(error))

    async def _read_history(self, transcript: Transcript, reader: Reader) -> None:
        directory, depth = self._transcripts.directory, transcript.depth
        upto = self._upto.get(transcript.channel_id, 0)
        if self._posts is not None:
            for message_id, agent in (await self._posts.read(transcript.channel_id)).items():
                directory.learn_post(message_id, agent)
        seen = await self._read_pages(transcript, reader)
        notified = (listener(transcript.channel_id) for listener in self._on_read)
        for outcome in await asyncio.gather(*notified, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("channel %d: a listener for its history failed", transcript.channel_id, exc_info=outcome)
        newer = self._upto.get(transcript.channel_id, 0) > max(upto, seen)
        transcript.is_complete = transcript.depth == depth and not newer  # a turn may want more by now

    async def _read_pages(self, transcript: Transcript, reader: Reader) -> int:
        """Add the pages to the transcript. Return the newest message's id, or 0 if there is none."""
        before: int | None = None
        seen = 0
        for _ in range(-(-transcript.depth // PAGE)):
            page = await asyncio.wait_for(reader(PAGE, before), PAGE_TIMEOUT)
            seen = max(seen, page[0].id if page else 0)
            joined = any(message.id in transcript and message.id <= transcript.gap_after for message in page)
            for entry in to_entries(page, self._transcripts.directory):
                transcript.add(entry)
            if before is None:
                for entry in to_entries(replied_messages(page), self._transcripts.directory):
                    transcript.quote(entry)
            if len(page) < PAGE:
                transcript.begins = True
                return seen
            if joined and transcript.was_complete:
                return seen
            before = page[-1].id
        transcript.cut_back(before or 0)
        return seen

    async def _read_pins(self, transcript: Transcript, reader: PinReader) -> None:
        for _ in range(MAX_PIN_READS):
            changes = transcript.pins.changes
            pinned = await asyncio.wait_for(reader(), PAGE_TIMEOUT)
            if pinned is None:
                return
            entries = to_entries(pinned, self._transcripts.directory)
            transcript.keep_pins([replace(entry, pinned=True) for entry in entries])
            if transcript.pins.changes == changes:
                break
        transcript.pins.known = True


def _until(_: object, found: object, now: float) -> float:
    """Return when a cached value expires. None is a failed read."""
    return now + (TRY_AGAIN if found is None else KEEP_SECONDS)


class HistoryCache:
    """Messages of other channels for `.history`: read once, cached for ten minutes, shared by all bots of a process.

    The caller makes sure that the bot, and everyone who reads the channel where it speaks, may read them. `clock`
    returns seconds.
    """

    def __init__(self, transcripts: Transcripts, clock: Callable[[], float] | None = None) -> None:
        self._transcripts, self._clock = transcripts, clock
        self._kept: TLRUCache[tuple[int, int, int | None, int], tuple[Entry, ...] | None]  # oldest first
        self._kept = TLRUCache(MAX_CACHED, _until, self._now)
        self._found: TLRUCache[tuple[int, int], object] = TLRUCache(MAX_CACHED, _until, self._now)  # by bot and channel
        transcripts.on_change(self.forget)

    async def channel(self, gate: Gate, guild: discord.Guild, channel_id: int) -> object:
        """Return a channel or thread of the guild, or some other object if the gate's bot can't see it. py-cord knows
        channels and active threads; an archived thread is requested."""
        if (known := guild.get_channel_or_thread(channel_id)) is not None:
            return known
        key = (guild.me.id, channel_id)
        if key not in self._found:
            try:
                self._found[key] = await asyncio.wait_for(gate.channel(guild, channel_id), PAGE_TIMEOUT)
            except (*REQUEST_ERRORS, discord.InvalidData, TimeoutError) as error:
                log.info("channel %d in .history was not found: %s", channel_id, error_code(error))
                refused = isinstance(error, discord.Forbidden | discord.NotFound | discord.InvalidData)
                self._found[key] = _REFUSED if refused else None
        return self._found.get(key)

    async def upto(self, interval: Interval, messages: int, reader: Reader) -> Sequence[Entry] | None:
        """Return the newest `messages` up to the interval's last one, oldest first, or None if they can't be read.
        `reader` reads that channel."""
        transcript = self._transcripts.known(interval.channel_id)
        if transcript is not None and (live := known_upto(transcript, interval, messages)) is not None:
            return live
        key = (interval.channel_id, interval.last, interval.first, messages)  # a read stops at `first`
        if key not in self._kept:
            self._kept[key] = await self._read(interval, messages, reader)
        return self._kept.get(key)

    def forget(self, channel_id: int, message_ids: Iterable[int]) -> None:
        """Drop cached reads that contain edited or deleted messages."""
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
            log.info("channel %d: reading messages for .history failed: %s", interval.channel_id, error_code(error))
            return None
        return tuple(to_entries(reversed(found), self._transcripts.directory))


def known_upto(transcript: Transcript, interval: Interval, messages: int) -> Sequence[Entry] | None:
    """Return the messages of `upto` from a transcript, or None if it doesn't go back far enough."""
    if not transcript.is_complete:
        return None
    upto = [entry for entry in transcript.entries() if entry.id <= interval.last]
    reaches = transcript.begins or len(upto) >= messages or any(entry.id == interval.first for entry in upto)
    return upto[-messages:] if upto and reaches else None
