"""Silence: stops of channels, mutes of agents, ignored people.

A stop is a key that expires by itself, after the time asked for and a day at most, so it survives restarts; a notice
publishes it to every process. Each process holds all stops in memory, where a check is cheap. While Redis is away a
stop counts in the process that received it, and is written when Redis is back. A pause of all bots is the stop of
EVERYWHERE: it holds in every channel, until it is lifted.

A channel's last order, stop or resume, counts, whenever a process learns of it. So each order has its time: one that is
found late changes nothing if a newer one is known, and a process writes its orders again if Redis, emptied or set
back, knows older ones.

A mute is a key an agent, which has its end (unix seconds) and expires then. A turn learns of it in the script that
takes its limits (limits.py). Ignored people are one bounded set, which every process holds in memory too.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agentic.state.presence import read_end
from agentic.wire import keys
from agentic.wire.bus import Bus, Mirror
from agentic.wire.connection import RedisAway, RedisLink, Store
from agentic.wire.messages import HushNotice, IgnoreNotice, StopNotice, read

EVERYWHERE = 0  # the channel id of a pause of all bots, in every channel and in direct messages
MAX_STOP_SECONDS = 86400.0  # seconds; a stop that nobody lifts ends by itself
MAX_PAUSE_SECONDS = 366 * 86400.0  # seconds; a pause of all bots is for as long as an owner wants it
OUTDATED = -1
TICK = 0.001  # seconds
MAX_MUTE_SECONDS = 7 * 86400.0  # seconds
POLL_SECONDS = 2.0
LIFTED = "0"  # in the place of a mute
MAX_IGNORED = 1000  # people
CHECK_EVERY = 5.0  # seconds between two checks that Redis still has what this process knows
EVER = "-"  # not a user id; keeps the set of ignored people from being empty

# KEYS: the stop, the time of the last order. ARGV: the source, until when, ms, the channel for the notice, the notice,
# the time of the order, "1" if it is late, ms to keep that time. Returns OUTDATED if a newer order is known.
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
# KEYS: as above. ARGV: the channel for the notice, the notice, the time of the order, "1" if it is late, ms.
LIFT_STOP = """
local known, at = tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[3])
if known > at and ARGV[4] == '1' then return -1 end
redis.call('SET', KEYS[2], string.format('%.3f', math.max(known, at)), 'PX', ARGV[5])
local was = redis.call('DEL', KEYS[1])
if was == 1 then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return was
"""
LIFT_MUTE = f"""
local was = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], '{LIFTED}', 'PX', ARGV[1])
return was and was ~= '{LIFTED}' and 1 or 0
"""
# KEYS: the set; ARGV: the person, the set's bound, the channel for the notice, the notice
IGNORE = f"""
redis.call('SADD', KEYS[1], '{EVER}')
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 'known' end
if redis.call('SCARD', KEYS[1]) > tonumber(ARGV[2]) then return 'full' end
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 'added'
"""
UNIGNORE = f"""
redis.call('SADD', KEYS[1], '{EVER}')
local was = redis.call('SREM', KEYS[1], ARGV[1])
if was == 1 then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return was
"""

OnHush = Callable[[int, int], Awaitable[None]]
OnStop = Callable[[int], Awaitable[None] | None]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """The last order of a channel, in unix seconds. A resume has `until` 0."""

    at: float
    until: float
    source: str = ""


def longest(channel_id: int) -> float:
    """How long a stop may last, in seconds."""
    return MAX_PAUSE_SECONDS if channel_id == EVERYWHERE else MAX_STOP_SECONDS


class Stops(Mirror):
    """The stops of all channels. In Redis there are two keys a channel, the stop and the time of the last order. Call
    `start()` before the bus runs, and `run()` in a task. `clock` gives unix seconds. Only `read` raises RedisAway."""

    def __init__(
        self, link: RedisLink, bus: Bus, clock: Callable[[], float] = time.time, *, check_every: float = CHECK_EVERY
    ) -> None:
        super().__init__(link, bus, check_every)
        self._clock = clock
        self._orders: dict[int, Order] = {}
        self._callbacks: list[OnStop] = []
        self._on_hush: list[OnHush] = []

    def start(self) -> None:
        self._bus.subscribe(keys.COORDINATOR_STOPS, self._on_notice)
        self._bus.subscribe(keys.COORDINATOR_HUSHES, self._on_hush_notice)
        self._bus.on_resubscribed(self._behind.set)

    async def is_lost(self) -> bool:
        """Whether Redis does not know a stop of this process: it was emptied without a loss of the connection."""
        names = [keys.stop(channel) for channel in self._held_itself()]
        return bool(names) and None in await self._link.call(lambda redis: redis.mget(names))

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
        during the stop. 0 if no order is known."""
        orders = filter(None, (self._orders.get(channel_id), self._orders.get(EVERYWHERE)))
        return max((max(order.at, order.until) for order in orders), default=0.0)

    def resumed_at(self, channel_id: int) -> float:
        """The time of the last order, if that was a resume; else 0."""
        order = self._orders.get(channel_id)
        return 0.0 if order is None or order.until else order.at

    async def stop(
        self, channel_id: int, source: str, seconds: float | None = None, *, at: float | None = None, late: bool = False
    ) -> bool:
        """Stop a channel for `seconds`, by default and at most a day; in this process first. EVERYWHERE stands for all
        channels, and has no such limit.

        `source` (one word) identifies the order, by a message's id for example: True for its first caller among all
        processes. Without a source a stop that holds already stays as it is. `at` is the time of the order, by default
        now. A `late` order does nothing if a newer one is known.
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
        channels = set(self._orders)
        async for page in self._link.scan(keys.stop("*"), "string"):
            for key in page:
                try:
                    channels.add(int(key.rpartition(":")[2]))
                except ValueError:
                    log.warning("a stop cannot be read and is ignored: %.80r", key)
        kept = await self._read_orders(sorted(channels))
        for channel_id, order in kept.items():
            await self._learn(channel_id, order)
        now = self._clock()
        self._orders = {
            channel: one for channel, one in self._orders.items() if max(one.at, one.until) > now - MAX_STOP_SECONDS
        }
        for channel_id, order in list(self._orders.items()):
            there = kept.get(channel_id)
            lacks = there is None or there.at < order.at or (there.at == order.at and there.until < order.until)
            if lacks and (there is not None or order.until > now):
                await self._write(channel_id, order, late=True)

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
            for known in (await self._read_orders([channel_id])).values():
                await self._learn(channel_id, known)
        except RedisAway:
            self._behind.set()

    async def _write_or_retry(self, channel_id: int, order: Order, *, late: bool = False) -> int | None:
        """As `_write`; None while Redis is away, and then `run` writes it later."""
        try:
            return await self._write(channel_id, order, late=late)
        except RedisAway as away:
            log.warning("an order for channel %d counts in this process only, Redis is away: %s", channel_id, away)
            self._behind.set()
            return None

    async def _write(self, channel_id: int, order: Order, *, late: bool = False) -> int:
        """Store the order and publish it: 1 if Redis did not know it, 0 if it did, OUTDATED. Raises RedisAway."""
        places, left = [keys.stop(channel_id), keys.ordered(channel_id)], round((order.until - self._clock()) * 1000)
        notice = StopNotice(channel_id=channel_id, until=order.until or None, at=order.at).to_wire()
        kept = round(max(MAX_STOP_SECONDS * 1000, left))
        args = [keys.COORDINATOR_STOPS, notice, order.at, int(late), kept]
        if left <= 0:  # a stop that has expired by now still replaces an earlier one
            return int(await self._link.script(LIFT_STOP, places, args))
        return int(await self._link.script(STOP, places, [order.source, order.until, left, *args]))

    async def _read_orders(self, channels: Sequence[int]) -> dict[int, Order]:
        """The last order of each of these channels that has one. Raises RedisAway."""
        if not channels:
            return {}
        names = [name for channel in channels for name in (keys.stop(channel), keys.ordered(channel))]
        texts = await self._link.call(lambda redis: redis.mget(names))
        orders = {}
        for channel, stop, at in zip(channels, texts[::2], texts[1::2], strict=True):
            source, _, until = str(stop or "").partition(" ")
            try:
                if stop is not None or at is not None:
                    ends = min(float(until or 0.0), self._clock() + longest(channel))
                    orders[channel] = Order(float(at or 0.0), ends, source)
            except ValueError:
                log.warning("a stop cannot be read and is ignored: %.80r", keys.stop(channel))
        return orders

    async def _on_notice(self, raw: str) -> None:
        notice = read(StopNotice, raw)
        if notice is None:
            return
        known, now = self._orders.get(notice.channel_id), self._clock()
        at = notice.at if notice.at is not None else max(now, known.at + TICK if known is not None else 0.0)
        until = min(notice.until or 0.0, now + longest(notice.channel_id))
        await self._learn(notice.channel_id, Order(min(at, now + MAX_STOP_SECONDS), until))

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


class Mutes(Store):
    """Mutes of agents by people. `clock` gives unix seconds. `mute`, `lift`, and `read` raise RedisAway.

    A process remembers the mutes it knows, for as long as Redis is away. Lifting a mute leaves LIFTED in its place: if
    a key is missing although this process knows a mute, Redis was emptied, and the mute is written again.
    """

    def __init__(self, link: RedisLink, clock: Callable[[], float]) -> None:
        super().__init__(link, clock)
        self._until: dict[str, float] = {}

    async def run(self, agents: Iterable[str], every: float = POLL_SECONDS) -> None:
        """Until canceled: learn the mutes of these agents, and write them again if Redis was emptied."""
        names = list(agents)
        while True:
            await self._link.present.wait()
            try:
                await self.read(names)
            except RedisAway as away:
                log.debug("mutes cannot be read, will retry: %s", away)
            await asyncio.sleep(every)

    async def mute(self, agent: str, seconds: float) -> float:
        """Mute the agent in all channels for `seconds`, at most a week; until when."""
        lasting = min(max(seconds, 1.0), MAX_MUTE_SECONDS)
        until = self._clock() + lasting
        await self._write(agent, until)
        self.saw(agent, until)
        return until

    async def lift(self, agent: str) -> bool:
        """Whether it was muted."""
        lifted = await self._link.script(LIFT_MUTE, [keys.muted(agent)], [round(MAX_MUTE_SECONDS * 1000)])
        self.saw(agent, 0.0)
        return bool(lifted)

    async def read(self, agents: Iterable[str]) -> dict[str, float]:
        """Those of `agents` that are muted, and until when."""
        names, now = list(agents), self._clock()
        texts = await self._texts(keys.muted, names)
        for name in names:
            if name in texts:
                self.saw(name, read_end("mute", name, texts[name]))
            elif self._until.get(name, 0.0) > now:
                await self._write(name, self._until[name])
        return {name: until for name in names if (until := self._until.get(name, 0.0)) > now}

    def saw(self, agent: str, until: float) -> None:
        """Remember what Redis has; 0 for no mute."""
        self._until[agent] = until

    def holds(self, agent: str) -> bool:
        """As far as this process knows."""
        return self._until.get(agent, 0.0) > self._clock()

    async def _write(self, agent: str, until: float) -> None:
        left = max(1, round((until - self._clock()) * 1000))
        await self._link.call(lambda redis: redis.set(keys.muted(agent), str(until), px=left))


class Ignores(Mirror, Collection[int]):
    """The ids of ignored people. Call `start()` before the bus runs, and `run()` in a task.

    A notice publishes each change; after a loss of Redis the set is read again. Once used, the set is never empty
    (EVER): if it is missing Redis was emptied, and a living process writes it again.
    """

    def __init__(self, link: RedisLink, bus: Bus, *, check_every: float = CHECK_EVERY) -> None:
        super().__init__(link, bus, check_every)
        self._users: set[int] = set()
        self._changed: dict[int, bool] = {}  # since the last reading began

    def __contains__(self, user_id: object) -> bool:
        return user_id in self._users

    def __iter__(self) -> Iterator[int]:
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)

    def start(self) -> None:
        self._bus.subscribe(keys.COORDINATOR_IGNORES, self._on_notice)
        self._bus.on_resubscribed(self._behind.set)

    async def read(self) -> None:
        """Read the set, after writing it if Redis was emptied. Raises RedisAway."""
        self._changed.clear()
        if await self.is_lost():
            known = [EVER, *map(str, self._users)]
            await self._link.call(lambda redis: redis.sadd(keys.COORDINATOR_IGNORED, *known))
        members = await self._link.call(lambda redis: redis.smembers(keys.COORDINATOR_IGNORED))
        self._users = {int(member) for member in members if str(member).isdecimal()}
        for user_id, ignored in self._changed.items():
            self._note(user_id, ignored)

    async def add(self, user_id: int) -> Literal["added", "known", "full"]:
        """Ignore this person. Raises RedisAway."""
        notice = IgnoreNotice(user_id=user_id, ignored=True).to_wire()
        arguments = [str(user_id), MAX_IGNORED, keys.COORDINATOR_IGNORES, notice]
        outcome: Literal["added", "known", "full"] = await self._link.script(
            IGNORE, [keys.COORDINATOR_IGNORED], arguments
        )
        if outcome != "full":
            self._note(user_id, True)
        return outcome

    async def remove(self, user_id: int) -> bool:
        """Whether the person was ignored. Raises RedisAway."""
        notice = IgnoreNotice(user_id=user_id, ignored=False).to_wire()
        removed = await self._link.script(
            UNIGNORE, [keys.COORDINATOR_IGNORED], [user_id, keys.COORDINATOR_IGNORES, notice]
        )
        self._note(user_id, False)
        return bool(removed)

    async def is_lost(self) -> bool:
        return bool(self._users) and not await self._link.call(lambda redis: redis.exists(keys.COORDINATOR_IGNORED))

    def _on_notice(self, raw: str) -> None:
        notice = read(IgnoreNotice, raw)
        if notice is not None:
            self._note(notice.user_id, notice.ignored)

    def _note(self, user_id: int, ignored: bool) -> None:
        self._changed[user_id] = ignored
        change = self._users.add if ignored else self._users.discard
        change(user_id)
