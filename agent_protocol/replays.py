"""Signed requests that were taken, for as long as their signatures are good: none is taken twice, by no process."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink

REMEMBERED = 10_000  # in this process's memory

log = logging.getLogger(__name__)


class Replays:
    """`clock` gives unix seconds. No method raises RedisAway: while Redis is away each process knows its own."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock
        self._seen: OrderedDict[str, float] = OrderedDict()

    async def first(self, digest: str, seconds: float) -> bool:
        """Whether nobody has taken the request yet; it is kept for so many seconds."""
        now = self._clock()
        if self._seen.get(digest, 0.0) > now:
            return False
        self._seen[digest] = now + seconds
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        try:
            taken = await self._link.call(
                lambda redis: redis.set(keys.event(digest), "1", nx=True, px=round(seconds * 1000))
            )
        except RedisAway as away:
            log.debug("a signed request is kept in memory only: %s", away)
            return True
        return bool(taken)

    async def forget(self, digest: str) -> None:
        """It was not taken after all, and may be sent again."""
        self._seen.pop(digest, None)
        try:
            await self._link.call(lambda redis: redis.delete(keys.event(digest)))
        except RedisAway as away:
            log.debug("a signed request that was refused stays refused: %s", away)
