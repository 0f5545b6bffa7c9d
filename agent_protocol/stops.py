"""Stops: a person wants silence in a channel.

A stop is a key that runs out by itself, after the time that was asked for and a day at most, so that it survives
restarts; a notice tells every process of it at once. Each process holds all stops in memory, where asking costs
nothing. While Redis is away a stop counts in the process that heard it, and is written when Redis is back.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from redis.asyncio import Redis

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink
from agent_protocol.listener import Listener
from agent_protocol.messages import HushNotice, StopNotice, read_hush, read_stop

LONGEST = 86400.0  # seconds; what nobody lifts ends by itself
SCAN_COUNT = 1000
RETRY_EVERY = 0.5

# KEYS: the stop; ARGV: what asked for it, unix seconds, ms, where to tell it, the notice
STOP = """
if ARGV[1] == '' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if string.find(redis.call('GET', KEYS[1]) or '', ARGV[1] .. ' ', 1, true) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
"""
LIFT = """
local was = redis.call('DEL', KEYS[1])
if was == 1 then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return was
"""

OnHush = Callable[[int, int], Awaitable[None]]
OnStop = Callable[[int], Awaitable[None] | None]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stop:
    until: float  # unix seconds
    source: str


class Stops:
    """Needs `start()` before the bus runs, and `run()` in a task of its owner. `clock` gives unix seconds. No method
    raises RedisAway but `read`."""

    def __init__(self, link: RedisLink, bus: Listener, clock: Callable[[], float] = time.time) -> None:
        self._link, self._bus, self._clock = link, bus, clock
        self._stops: dict[int, _Stop] = {}
        self._unwritten: dict[int, _Stop | None] = {}  # what Redis was not told of; None: lifted
        self._callbacks: list[OnStop] = []
        self._on_hush: list[OnHush] = []
        self._changed: set[int] = set()  # channels, since the last reading began
        self._behind = asyncio.Event()  # Redis and this process may not know the same

    def start(self) -> None:
        """Hears what other processes do."""
        self._bus.subscribe(keys.COORDINATOR_STOPS, self._on_notice)
        self._bus.subscribe(keys.COORDINATOR_HUSHES, self._on_hush_notice)
        self._bus.on_resubscribed(self._behind.set)

    async def run(self) -> None:
        """After each new connection reads what was missed, and writes what Redis was not there for. Until cancelled."""
        while True:
            await self._behind.wait()
            await self._link.present.wait()
            self._behind.clear()
            try:
                for channel_id, stop in list(self._unwritten.items()):
                    await self._write(channel_id, stop)
                await self.read()
            except RedisAway as away:
                log.debug("stops are read when Redis is back: %s", away)
                self._behind.set()
                await asyncio.sleep(RETRY_EVERY)

    def on_stop(self, callback: OnStop) -> None:
        """Call this with the channel whenever one is stopped, at once; it may hear of the same stop twice."""
        self._callbacks.append(callback)

    def on_hush(self, callback: OnHush) -> None:
        """Call this with a channel and a person who wants no answer there any more; maybe twice."""
        self._on_hush.append(callback)

    async def hush(self, channel_id: int, user_id: int) -> None:
        """Ends the turns that answer this person there, in this process and, while Redis is there, in all others."""
        await self._hush(channel_id, user_id)
        notice = HushNotice(channel_id=channel_id, user_id=user_id).to_wire()
        try:
            await self._link.call(lambda redis: redis.publish(keys.COORDINATOR_HUSHES, notice))
        except RedisAway as away:
            log.warning("only this process ends its answers in channel %d, Redis is away: %s", channel_id, away)

    def holds(self, channel_id: int) -> bool:
        stop = self._stops.get(channel_id)
        return stop is not None and stop.until > self._clock()

    def held(self) -> dict[int, float]:
        """The channels and threads that are stopped by themselves, and until when."""
        return {channel: stop.until for channel, stop in self._stops.items() if self.holds(channel)}

    async def stop(self, channel_id: int, source: str, seconds: float | None = None) -> bool:
        """Stops a channel for `seconds`, a day where they are missing and at most; in this process before anything
        else. `source` (one word) is what asked for it, a message's id for one: True for the first caller that comes
        with it, among all processes. Without a source a stop that holds already is left as it is."""
        lasting = min(max(seconds or LONGEST, 1.0), LONGEST)
        stop, known = _Stop(self._clock() + lasting, source), self._stops.get(channel_id)
        if known is not None and self.holds(channel_id) and source in ("", known.source):
            return False
        self._stops[channel_id] = stop
        self._changed.add(channel_id)
        self._unwritten[channel_id] = stop
        log.info("channel %d is stopped by a person for %.0f minutes", channel_id, lasting / 60)
        await self._tell(channel_id)
        return await self._write_or_owe(channel_id, stop) in (True, None)

    async def lift(self, channel_id: int) -> bool:
        """Ends a channel's stop. True for the one caller that ended it."""
        known = self._stops.pop(channel_id, None)
        self._changed.add(channel_id)
        self._unwritten[channel_id] = None
        lifted = await self._write_or_owe(channel_id, None)
        log.info("channel %d is stopped no more", channel_id)
        return known is not None if lifted is None else lifted

    async def read(self) -> None:
        """Learns which channels are stopped. Raises RedisAway."""
        self._changed.clear()
        kept = await self._read_all()
        newer = {channel: self._stops.get(channel) for channel in self._changed}  # than what was read
        known = {**kept, **newer, **self._unwritten}
        news = [channel for channel, stop in known.items() if stop is not None and not self.holds(channel)]
        self._stops = {channel: stop for channel, stop in known.items() if stop is not None}
        for channel in news:
            await self._tell(channel)

    async def _write_or_owe(self, channel_id: int, stop: _Stop | None) -> bool | None:
        """Whether it was news to Redis; None while Redis is away."""
        try:
            return await self._write(channel_id, stop)
        except RedisAway as away:
            log.warning("a stop of channel %d counts in this process alone, Redis is away: %s", channel_id, away)
            self._behind.set()
            return None

    async def _write(self, channel_id: int, stop: _Stop | None) -> bool:
        """Tells Redis and everybody; whether it was news. Raises RedisAway."""
        key, now = keys.stop(channel_id), self._clock()
        notice = StopNotice(channel_id=channel_id, until=stop.until if stop else None).to_wire()
        if stop is None:
            news = await self._link.script(LIFT, [key], [keys.COORDINATOR_STOPS, notice])
        else:
            left = max(1, round((stop.until - now) * 1000))
            arguments: list[str | int | float] = [stop.source, stop.until, left, keys.COORDINATOR_STOPS, notice]
            news = await self._link.script(STOP, [key], arguments)
        if self._unwritten.get(channel_id) is stop:  # and nothing newer
            self._unwritten.pop(channel_id, None)
        return bool(news)

    async def _on_notice(self, raw: str) -> None:
        notice = read_stop(raw)
        if notice is None:
            return
        self._changed.add(notice.channel_id)
        if notice.until is None:
            self._stops.pop(notice.channel_id, None)
            return
        known = self._stops.get(notice.channel_id)
        if known is None or known.until != notice.until:
            self._stops[notice.channel_id] = _Stop(min(notice.until, self._clock() + LONGEST), "")
            await self._tell(notice.channel_id)

    async def _on_hush_notice(self, raw: str) -> None:
        notice = read_hush(raw)
        if notice is not None:
            await self._hush(notice.channel_id, notice.user_id)

    async def _hush(self, channel_id: int, user_id: int) -> None:
        for callback in self._on_hush:
            await callback(channel_id, user_id)

    async def _tell(self, channel_id: int) -> None:
        """Side by side: nobody speaks on because somebody else is slow to end, or fails to."""

        async def tell(callback: OnStop) -> None:
            outcome = callback(channel_id)
            if inspect.isawaitable(outcome):
                await outcome

        for outcome in await asyncio.gather(*map(tell, self._callbacks), return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("something did not end with the stop of channel %d", channel_id, exc_info=outcome)

    async def _read_all(self) -> dict[int, _Stop]:
        cursor, found = 0, dict[int, _Stop]()
        while True:
            cursor, page = await self._link.call(partial(_read_page, cursor))
            for key, text in page:
                channel, (source, _, until) = key.rpartition(":")[2], text.partition(" ")
                try:
                    found[int(channel)] = _Stop(min(float(until), self._clock() + LONGEST), source)
                except ValueError:
                    log.warning("a stop cannot be read: %.80r", key)
            if not cursor:
                return found


async def _read_page(cursor: int, redis: Redis) -> tuple[int, list[tuple[str, str]]]:
    cursor, found = await redis.scan(cursor, match=keys.stop("*"), count=SCAN_COUNT, _type="string")
    texts = await redis.mget(found) if found else []
    return cursor, [(str(key), str(text)) for key, text in zip(found, texts, strict=True) if text is not None]
