"""What is said once: of all processes and agents, the first that asks may tell a person what is wrong."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable

from cachetools import LRUCache

from agent_protocol.connection.link import RedisAway, RedisLink
from agent_protocol.wire import keys

KEEP_SECONDS = 30 * 86400

REMEMBERED = 1000  # in this process, for as long as Redis is away


log = logging.getLogger(__name__)


class Notices:
    """No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._told: LRUCache[str, None] = LRUCache(REMEMBERED)

    async def first(self, message_id: int, what: str) -> bool:
        """Whether nobody has told `what` of that message yet; from now on somebody has. A message that is wrong in
        another way after an edit may be told of again."""
        key = keys.notice(message_id, hashlib.blake2b(what.encode(), digest_size=6).hexdigest())
        if key in self._told:
            return False
        self._told[key] = None
        try:
            return bool(await self._link.call(lambda redis: redis.set(key, "1", nx=True, ex=KEEP_SECONDS)))
        except RedisAway as away:
            log.debug("a notice is remembered in this process alone: %s", away)
            return True


REMEMBERED_REPLAYS = 10_000  # in this process's memory


class ReplayGuard:
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
        if len(self._seen) > REMEMBERED_REPLAYS:
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
