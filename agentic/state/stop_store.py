"""Stops in Redis: two keys a channel, the stop and the time of the last order, stop or resume.

An order that is written late (it was given while nobody listened) does nothing where a newer one is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisLink
from agentic.wire.messages import StopNotice

EVERYWHERE = 0  # the channel id of a pause of all bots, in every channel and in direct messages
LONGEST = 86400.0  # seconds; a stop that nobody lifts ends by itself
LONGEST_PAUSE = 366 * 86400.0  # seconds; a pause of all bots is for as long as an owner wants it
OUTDATED = -1
SCAN_COUNT = 1000

# KEYS: the stop, the time of the last order. ARGV: the source, until when, ms, the channel for the notice, the notice,
# the time of the order, "1" where it is late, ms to keep that time. Returns OUTDATED where a newer order is known.
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
# KEYS: as above. ARGV: the channel for the notice, the notice, the time of the order, "1" where it is late, ms.
LIFT = """
local known, at = tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[3])
if known > at and ARGV[4] == '1' then return -1 end
redis.call('SET', KEYS[2], string.format('%.3f', math.max(known, at)), 'PX', ARGV[5])
local was = redis.call('DEL', KEYS[1])
if was == 1 then redis.call('PUBLISH', ARGV[1], ARGV[2]) end
return was
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """The last order of a channel, in unix seconds. A resume has `until` 0."""

    at: float
    until: float
    source: str = ""


def longest(channel_id: int) -> float:
    """How long a stop may last, in seconds."""
    return LONGEST_PAUSE if channel_id == EVERYWHERE else LONGEST


class StopStore:
    """All methods raise RedisAway. `clock` gives unix seconds."""

    def __init__(self, link: RedisLink, clock: Callable[[], float]) -> None:
        self._link, self._clock = link, clock

    async def write(self, channel_id: int, order: Order, *, late: bool = False) -> int:
        """Store the order and publish it: 1 where Redis did not know it, 0 where it did, OUTDATED."""
        places, left = [keys.stop(channel_id), keys.ordered(channel_id)], round((order.until - self._clock()) * 1000)
        notice = StopNotice(channel_id=channel_id, until=order.until or None, at=order.at).to_wire()
        kept = round(max(LONGEST * 1000, left))
        args: list[str | int | float] = [keys.COORDINATOR_STOPS, notice, order.at, int(late), kept]
        if left <= 0:  # a stop that has expired by now still replaces an earlier one
            return int(await self._link.script(LIFT, places, args))
        return int(await self._link.script(STOP, places, [order.source, order.until, left, *args]))

    async def lacks_any(self, channels: Collection[int]) -> bool:
        """Whether Redis does not know a stop of these channels: it was emptied without a loss of the connection."""
        names = [keys.stop(channel) for channel in channels]
        return bool(names) and None in await self._link.call(lambda redis: redis.mget(names))

    async def read_all(self, known: Collection[int]) -> dict[int, Order]:
        """The last order of each channel that is stopped, and of the `known` ones."""
        cursor, channels = 0, set(known)
        while True:
            cursor, found = await self._link.call(partial(_read_page, cursor))
            for key in found:
                try:
                    channels.add(int(key.rpartition(":")[2]))
                except ValueError:
                    log.warning("a stop cannot be read and is ignored: %.80r", key)
            if not cursor:
                return await self.read(sorted(channels))

    async def read(self, channels: Sequence[int]) -> dict[int, Order]:
        """The last order of each of these channels that has one."""
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


async def _read_page(cursor: int, redis: Redis) -> tuple[int, list[str]]:
    cursor, found = await redis.scan(cursor, match=keys.stop("*"), count=SCAN_COUNT, _type="string")
    return cursor, [str(key) for key in found]
