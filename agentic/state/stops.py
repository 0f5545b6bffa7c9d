"""Stops: a person silences a channel.

A stop is a key that expires by itself, after the time asked for and a day at most, so it survives restarts; a notice
publishes it to every process. Each process holds all stops in memory, where a check is cheap. While Redis is away a
stop counts in the process that received it, and is written when Redis is back.

A pause of all bots is the stop of EVERYWHERE: it holds in every channel, until it is lifted.

A channel's last order, stop or resume, counts, whenever a process learns of it. So each order has its time: one that is
found late changes nothing where a newer one is known, and a process writes its orders again where Redis, emptied or
set back, knows older ones.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable

from agentic.state.stop_store import EVERYWHERE, LONGEST, OUTDATED, Order, StopStore, longest
from agentic.wire import keys
from agentic.wire.following import follow
from agentic.wire.link import RedisAway, RedisLink
from agentic.wire.messages import HushNotice, StopNotice
from agentic.wire.reading import read
from agentic.wire.subscriptions import Subscriber

TICK = 0.001  # seconds
CHECK_EVERY = 5.0  # seconds between two checks that Redis still knows the stops

OnHush = Callable[[int, int], Awaitable[None]]
OnStop = Callable[[int], Awaitable[None] | None]

log = logging.getLogger(__name__)


class Stops:
    """Call `start()` before the bus runs, and `run()` in a task. `clock` gives unix seconds. Only `read` raises
    RedisAway."""

    def __init__(
        self,
        link: RedisLink,
        bus: Subscriber,
        clock: Callable[[], float] = time.time,
        *,
        check_every: float = CHECK_EVERY,
    ) -> None:
        self._link, self._bus, self._clock, self._check_every = link, bus, clock, check_every
        self._store = StopStore(link, clock)
        self._orders: dict[int, Order] = {}
        self._callbacks: list[OnStop] = []
        self._on_hush: list[OnHush] = []
        self._behind = asyncio.Event()  # Redis and this process may differ

    def start(self) -> None:
        """Subscribe to the notices of other processes."""
        self._bus.subscribe(keys.COORDINATOR_STOPS, self._on_notice)
        self._bus.subscribe(keys.COORDINATOR_HUSHES, self._on_hush_notice)
        self._bus.on_resubscribed(self._behind.set)

    async def run(self) -> None:
        """Until cancelled: after each new connection, and where Redis lost a stop, call `read`."""
        await follow(
            self._link,
            self._behind,
            "stops",
            check_every=self._check_every,
            lost=lambda: self._store.lacks_any(self._held_itself()),
            read=self.read,
        )

    @property
    def behind(self) -> bool:
        """Whether Redis lacks an order of this process, or may have one that this process does not know."""
        return self._behind.is_set()

    def on_stop(self, callback: OnStop) -> None:
        """Call `callback` with each channel that is stopped, immediately; for one stop maybe twice."""
        self._callbacks.append(callback)

    def on_hush(self, callback: OnHush) -> None:
        """Call `callback` with a channel and a person who cancels their answers there; maybe twice."""
        self._on_hush.append(callback)

    def off(self, on_stop: OnStop, on_hush: OnHush) -> None:
        """Call these no more."""
        self._callbacks = [callback for callback in self._callbacks if callback != on_stop]
        self._on_hush = [callback for callback in self._on_hush if callback != on_hush]

    async def hush(self, channel_id: int, user_id: int) -> None:
        """Cancel the answers to this person there, in this process and, unless Redis is away, in all others."""
        await self._hush(channel_id, user_id)
        notice = HushNotice(channel_id=channel_id, user_id=user_id).to_wire()
        try:
            await self._link.call(lambda redis: redis.publish(keys.COORDINATOR_HUSHES, notice))
        except RedisAway as away:
            log.warning("answers in channel %d are cancelled in this process only, Redis is away: %s", channel_id, away)

    def holds(self, channel_id: int) -> bool:
        """Whether the channel is stopped, or all bots are paused."""
        return self.paused or self._holds_itself(channel_id)

    @property
    def paused(self) -> bool:
        """Whether all bots are paused."""
        return self._holds_itself(EVERYWHERE)

    def held(self) -> dict[int, float]:
        """The channels and threads that are stopped themselves, and until when; without a pause of all bots."""
        return {channel: until for channel, until in self._held_itself().items() if channel != EVERYWHERE}

    def _held_itself(self) -> dict[int, float]:
        return {channel: order.until for channel, order in self._orders.items() if self._holds_itself(channel)}

    def _holds_itself(self, channel_id: int) -> bool:
        order = self._orders.get(channel_id)
        return order is not None and order.until > self._clock()

    def silent_until(self, channel_id: int) -> float:
        """Messages from before this time (unix seconds) are no longer answered: their answer was stopped, or they came
        during the stop. 0 where no order is known."""
        orders = filter(None, (self._orders.get(channel_id), self._orders.get(EVERYWHERE)))
        return max((max(order.at, order.until) for order in orders), default=0.0)

    def resumed_at(self, channel_id: int) -> float:
        """The time of the last order, if that was a resume; else 0."""
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
        """Stop a channel for `seconds`, by default and at most a day; in this process first. EVERYWHERE stands for all
        channels, and has no such limit.

        `source` (one word) identifies the order, by a message's id for example: True for its first caller among all
        processes. Without a source a stop that holds already stays as it is. `at` is the time of the order, by default
        now. A `late` order does nothing where a newer one is known.
        """
        lasting = min(max(seconds or longest(channel_id), 1.0), longest(channel_id))
        known, now = self._orders.get(channel_id), self._clock()
        order = self._dated(channel_id, at, late, min(now if at is None else at, now) + lasting, source)
        if known is not None and (
            known.at > order.at or (self._holds_itself(channel_id) and source in ("", known.source))
        ):
            return False
        if late and order.until <= now:  # it has expired by now, and it replaced an earlier one
            await self.lift(channel_id, at=order.at, late=True)
            return False
        if late and await self._write_or_retry(channel_id, order, late=True) in (OUTDATED, 0):
            await self._catch_up(channel_id)
            return False
        self._orders[channel_id] = order
        if channel_id == EVERYWHERE:
            log.warning("a person paused all bots")
        else:
            log.info("a person stopped channel %d for %.0f minutes", channel_id, (order.until - now) / 60)
        await self._notify(channel_id)
        return late or await self._write_or_retry(channel_id, order) in (1, None)

    async def lift(self, channel_id: int, *, at: float | None = None, late: bool = False) -> bool:
        """Lift a channel's stop; `at` and `late` as in `stop`. True for the first caller among all processes."""
        known, held = self._orders.get(channel_id), self._holds_itself(channel_id)
        order = self._dated(channel_id, at, late, 0.0)
        if known is not None and known.at > order.at:
            return False
        if not late:
            self._orders[channel_id] = order
        lifted = await self._write_or_retry(channel_id, order, late=late)
        if lifted == OUTDATED:
            await self._catch_up(channel_id)
            return False
        await self._learn(channel_id, order)
        if channel_id == EVERYWHERE:
            log.warning("all bots may go on")
        else:
            log.info("the stop of channel %d is lifted", channel_id)
        return held if lifted is None else bool(lifted)

    async def read(self) -> None:
        """Learn all orders from Redis, and write those that are newer here. Raises RedisAway."""
        kept = await self._store.read_all(self._orders)
        for channel_id, order in kept.items():
            await self._learn(channel_id, order)
        now = self._clock()
        self._orders = {channel: one for channel, one in self._orders.items() if max(one.at, one.until) > now - LONGEST}
        for channel_id, order in list(self._orders.items()):
            there = kept.get(channel_id)
            lacks = there is None or there.at < order.at or (there.at == order.at and there.until < order.until)
            if lacks and (there is not None or order.until > now):
                await self._store.write(channel_id, order, late=True)

    def _dated(self, channel_id: int, at: float | None, late: bool, until: float, source: str = "") -> Order:
        """The order with its time. One that is not late comes after all known ones, whatever the clocks say."""
        known = self._orders.get(channel_id)
        at = round(self._clock() if at is None else at, 3)
        return Order(at if late or known is None else max(at, known.at + TICK), until, source)

    async def _learn(self, channel_id: int, order: Order) -> None:
        """Take over an order of Redis or another process if it is newer."""
        known = self._orders.get(channel_id)
        if known is not None and known.at >= order.at:
            return
        self._orders[channel_id] = order
        if self._holds_itself(channel_id) and (known is None or known.until != order.until):
            await self._notify(channel_id)

    async def _catch_up(self, channel_id: int) -> None:
        """Learn an order that Redis knew already, or the newer one that it has."""
        try:
            for known in (await self._store.read([channel_id])).values():
                await self._learn(channel_id, known)
        except RedisAway:
            self._behind.set()

    async def _write_or_retry(self, channel_id: int, order: Order, *, late: bool = False) -> int | None:
        """As `StopStore.write`; None while Redis is away, and then `run` writes it later."""
        try:
            return await self._store.write(channel_id, order, late=late)
        except RedisAway as away:
            log.warning("an order for channel %d counts in this process only, Redis is away: %s", channel_id, away)
            self._behind.set()
            return None

    async def _on_notice(self, raw: str) -> None:
        notice = read(StopNotice, raw)
        if notice is None:
            return
        known, now = self._orders.get(notice.channel_id), self._clock()
        at = notice.at if notice.at is not None else max(now, known.at + TICK if known is not None else 0.0)
        until = min(notice.until or 0.0, now + longest(notice.channel_id))
        await self._learn(notice.channel_id, Order(min(at, now + LONGEST), until))

    async def _on_hush_notice(self, raw: str) -> None:
        notice = read(HushNotice, raw)
        if notice is not None:
            await self._hush(notice.channel_id, notice.user_id)

    async def _hush(self, channel_id: int, user_id: int) -> None:
        for callback in self._on_hush:
            await callback(channel_id, user_id)

    async def _notify(self, channel_id: int) -> None:
        """Call all callbacks at the same time: a slow or failing one must not delay the others."""

        async def call(callback: OnStop) -> None:
            outcome = callback(channel_id)
            if inspect.isawaitable(outcome):
                await outcome

        for outcome in await asyncio.gather(*map(call, self._callbacks), return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("a callback failed at the stop of channel %d", channel_id, exc_info=outcome)
