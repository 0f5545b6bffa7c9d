"""Stops: a person wants silence in a channel.

A stop is a key that runs out by itself, after the time that was asked for and a day at most, so that it survives
restarts; a notice tells every process of it at once. Each process holds all stops in memory, where asking costs
nothing. While Redis is away a stop counts in the process that heard it, and is written when Redis is back.

Of a channel's orders, stops and resumes, the one that was given last counts, whoever hears of it when. So beside the
stop stands when the last order was given: an order that is found late (it was given while nobody listened) changes
nothing where a newer one is known, and where Redis knows less than a living process, since it was emptied or set back,
that process writes it once more.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from redis.asyncio import Redis

from agent_protocol.connection.link import RedisAway, RedisLink
from agent_protocol.wire import keys
from agent_protocol.wire.messages import HushNotice, StopNotice
from agent_protocol.wire.reading import read
from agent_protocol.wire.subscriptions import Subscriber

LONGEST = 86400.0  # seconds; what nobody lifts ends by itself
SCAN_COUNT = 1000
RETRY_EVERY = 0.5
TICK = 0.001  # seconds

CHECK_EVERY = 5.0  # seconds between two looks whether Redis still knows of the stops that hold

# KEYS: the stop, when the last order was given. ARGV: what asked for it, until when, ms, where to tell it, the notice,
# when it was given, "1" where it is found late, how long that is known in ms. Returns -1 where a newer order is known.
STOP = """
local known, at = tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[6])
local there = redis.call('GET', KEYS[1])
if there and (ARGV[1] ~= '' and string.find(there, ARGV[1] .. ' ', 1, true) == 1) then return 0 end
if there and ARGV[1] == '' and known >= at then return 0 end
if known > at and ARGV[7] == '1' then return -1 end
redis.call('SET', KEYS[2], string.format('%.3f', math.max(known, at)), 'PX', ARGV[8])
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
"""
# KEYS: as above. ARGV: where to tell it, the notice, when it was given, "1" where it is found late, ms.
LIFT = """
local known, at = tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[3])
if known > at and ARGV[4] == '1' then return -1 end
redis.call('SET', KEYS[2], string.format('%.3f', math.max(known, at)), 'PX', ARGV[5])
local was = redis.call('DEL', KEYS[1])
if was == 1 then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return was
"""
OUTDATED = -1

OnHush = Callable[[int, int], Awaitable[None]]
OnStop = Callable[[int], Awaitable[None] | None]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Order:
    """The last one of a channel; unix seconds. A resume lasts until 0."""

    at: float
    until: float
    source: str = ""


class Stops:
    """Needs `start()` before the bus runs, and `run()` in a task of its owner. `clock` gives unix seconds. No method
    raises RedisAway but `read`."""

    def __init__(
        self,
        link: RedisLink,
        bus: Subscriber,
        clock: Callable[[], float] = time.time,
        *,
        check_every: float = CHECK_EVERY,
    ) -> None:
        self._link, self._bus, self._clock, self._check_every = link, bus, clock, check_every
        self._orders: dict[int, _Order] = {}
        self._callbacks: list[OnStop] = []
        self._on_hush: list[OnHush] = []
        self._behind = asyncio.Event()  # Redis and this process may not know the same

    def start(self) -> None:
        """Hears what other processes do."""
        self._bus.subscribe(keys.COORDINATOR_STOPS, self._on_notice)
        self._bus.subscribe(keys.COORDINATOR_HUSHES, self._on_hush_notice)
        self._bus.on_resubscribed(self._behind.set)

    async def run(self) -> None:
        """After each new connection, and where Redis forgot a stop, reads what was missed and writes what is missing
        there. Until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._check_every):
                    await self._behind.wait()
            await self._link.present.wait()
            try:
                if self._behind.is_set() or await self._forgotten():
                    self._behind.clear()
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
        order = self._orders.get(channel_id)
        return order is not None and order.until > self._clock()

    def held(self) -> dict[int, float]:
        """The channels and threads that are stopped by themselves, and until when."""
        return {channel: order.until for channel, order in self._orders.items() if self.holds(channel)}

    def silent_until(self, channel_id: int) -> float:
        """What was said there before this time (unix seconds) is not answered any more: its answer was stopped, or it
        was said into the silence. 0 where no order is known."""
        order = self._orders.get(channel_id)
        return 0.0 if order is None else max(order.at, order.until)

    def resumed_at(self, channel_id: int) -> float:
        """When a person let the bots speak again there, as the last order; else 0."""
        order = self._orders.get(channel_id)
        return 0.0 if order is None or order.until else order.at

    async def stop(
        self,
        channel_id: int,
        source: str,
        seconds: float | None = None,
        *,
        at: float | None = None,
        late: bool = False,
    ) -> bool:
        """Stops a channel for `seconds`, a day where they are missing and at most; in this process before anything
        else. `source` (one word) is what asked for it, a message's id for one: True for the first caller that comes
        with it, among all processes. Without a source a stop that holds already is left as it is.

        `at`: when it was said, now where that is not known. `late`: it may have been said before orders that are known
        already, and changes nothing then.
        """
        lasting = min(max(seconds or LONGEST, 1.0), LONGEST)
        known, now = self._orders.get(channel_id), self._clock()
        order = self._dated(channel_id, at, late, min(now if at is None else at, now) + lasting, source)
        if known is not None and (known.at > order.at or (self.holds(channel_id) and source in ("", known.source))):
            return False
        if late and order.until <= now:  # and so does what it took the place of
            await self.lift(channel_id, at=order.at, late=True)
            return False
        if late and await self._write_or_owe(channel_id, order, late=True) in (OUTDATED, 0):
            await self._catch_up(channel_id)
            return False
        self._orders[channel_id] = order
        log.info("channel %d is stopped by a person for %.0f minutes", channel_id, (order.until - now) / 60)
        await self._tell(channel_id)
        return late or await self._write_or_owe(channel_id, order) in (1, None)

    async def lift(self, channel_id: int, *, at: float | None = None, late: bool = False) -> bool:
        """Ends a channel's stop; `at` and `late` as in `stop`. True for the one caller that ended it."""
        known, held = self._orders.get(channel_id), self.holds(channel_id)
        order = self._dated(channel_id, at, late, 0.0)
        if known is not None and known.at > order.at:
            return False
        if not late:
            self._orders[channel_id] = order
        lifted = await self._write_or_owe(channel_id, order, late=late)
        if lifted == OUTDATED:
            await self._catch_up(channel_id)
            return False
        await self._learn(channel_id, order)
        log.info("channel %d is stopped no more", channel_id)
        return held if lifted is None else bool(lifted)

    async def read(self) -> None:
        """Learns which channels are stopped, and tells a Redis that knows less what this process knows. Raises
        RedisAway."""
        kept = await self._read_all()
        for channel_id, order in kept.items():
            await self._learn(channel_id, order)
        now = self._clock()
        self._orders = {channel: one for channel, one in self._orders.items() if max(one.at, one.until) > now - LONGEST}
        for channel_id, order in list(self._orders.items()):
            there = kept.get(channel_id)
            lacks = there is None or there.at < order.at or (there.at == order.at and there.until < order.until)
            if lacks and (there is not None or order.until > now):
                await self._write(channel_id, order, late=True)

    def _dated(self, channel_id: int, at: float | None, late: bool, until: float, source: str = "") -> _Order:
        """What is heard as it is said comes after all that is known, whatever the clocks say."""
        known = self._orders.get(channel_id)
        at = round(self._clock() if at is None else at, 3)
        return _Order(at if late or known is None else max(at, known.at + TICK), until, source)

    async def _learn(self, channel_id: int, order: _Order) -> None:
        """What Redis or another process knows counts where it is newer."""
        known = self._orders.get(channel_id)
        if known is not None and known.at >= order.at:
            return
        self._orders[channel_id] = order
        if self.holds(channel_id) and (known is None or known.until != order.until):
            await self._tell(channel_id)

    async def _catch_up(self, channel_id: int) -> None:
        """Another process knew of the order, or of a newer one."""
        try:
            for known in (await self._read_some([channel_id])).values():
                await self._learn(channel_id, known)
        except RedisAway:
            self._behind.set()

    async def _write_or_owe(self, channel_id: int, order: _Order, *, late: bool = False) -> int | None:
        """1 where it was news to Redis; None while Redis is away."""
        try:
            return await self._write(channel_id, order, late=late)
        except RedisAway as away:
            log.warning("a stop of channel %d counts in this process alone, Redis is away: %s", channel_id, away)
            self._behind.set()
            return None

    async def _write(self, channel_id: int, order: _Order, *, late: bool = False) -> int:
        """Tells Redis and everybody; 1 where it was news, -1 where a newer order is known. Raises RedisAway."""
        places, left = [keys.stop(channel_id), keys.ordered(channel_id)], round((order.until - self._clock()) * 1000)
        notice = StopNotice(channel_id=channel_id, until=order.until or None, at=order.at).to_wire()
        told: list[str | int | float] = [keys.COORDINATOR_STOPS, notice, order.at, int(late), round(LONGEST * 1000)]
        if left <= 0:  # what has run out by now undoes an earlier stop all the same
            return int(await self._link.script(LIFT, places, told))
        return int(await self._link.script(STOP, places, [order.source, order.until, left, *told]))

    async def _on_notice(self, raw: str) -> None:
        notice = read(StopNotice, raw)
        if notice is None:
            return
        known, now = self._orders.get(notice.channel_id), self._clock()
        at = notice.at if notice.at is not None else max(now, known.at + TICK if known is not None else 0.0)
        until = min(notice.until or 0.0, now + LONGEST)
        await self._learn(notice.channel_id, _Order(min(at, now + LONGEST), until))

    async def _on_hush_notice(self, raw: str) -> None:
        notice = read(HushNotice, raw)
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

    async def _forgotten(self) -> bool:
        """Whether Redis does not know of a stop that holds: it was emptied behind an unbroken connection."""
        held = [keys.stop(channel) for channel in self.held()]
        return bool(held) and None in await self._link.call(lambda redis: redis.mget(held))

    async def _read_all(self) -> dict[int, _Order]:
        """The last order of each channel that is stopped, and of those that this process knows of."""
        cursor, channels = 0, set(self._orders)
        while True:
            cursor, found = await self._link.call(partial(_read_page, cursor))
            for key in found:
                try:
                    channels.add(int(key.rpartition(":")[2]))
                except ValueError:
                    log.warning("a stop cannot be read: %.80r", key)
            if not cursor:
                return await self._read_some(sorted(channels))

    async def _read_some(self, channels: Sequence[int]) -> dict[int, _Order]:
        if not channels:
            return {}
        names = [name for channel in channels for name in (keys.stop(channel), keys.ordered(channel))]
        texts = await self._link.call(lambda redis: redis.mget(names))
        read = {}
        for channel, stop, at in zip(channels, texts[::2], texts[1::2], strict=True):
            source, _, until = str(stop or "").partition(" ")
            try:
                if stop is not None or at is not None:
                    ends = min(float(until or 0.0), self._clock() + LONGEST)
                    read[channel] = _Order(float(at or 0.0), ends, source)
            except ValueError:
                log.warning("a stop cannot be read: %.80r", keys.stop(channel))
        return read


async def _read_page(cursor: int, redis: Redis) -> tuple[int, list[str]]:
    cursor, found = await redis.scan(cursor, match=keys.stop("*"), count=SCAN_COUNT, _type="string")
    return cursor, [str(key) for key in found]
