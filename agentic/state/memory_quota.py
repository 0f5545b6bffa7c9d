"""Limits an agent's memory changes a day and person, so that nobody floods its memory.

A hash a day: user id ("0" for the bots among themselves) → changes. While Redis is away each process counts alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

KEEP_SECONDS = 48 * 3600
NOBODY = 0

log = logging.getLogger(__name__)


class MemoryQuota:
    """Never raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._here: Counter[tuple[str, str, int]] = Counter()

    async def take(self, agent: str, date: str, person: int | None, most: int) -> bool:
        """Count a change that the person caused; whether it is within `most`.

        The higher of the two counts holds, so that changes while Redis was away count too.
        """
        who = (agent, date, person or NOBODY)
        if self._here[who] >= most:
            return False
        if any(date != day for _, day, _ in self._here):
            self._here = Counter({key: count for key, count in self._here.items() if key[1] == date})
        self._here[who] += 1
        try:
            return await self._count(agent, date, who[2]) <= most
        except RedisAway as away:
            log.info("a change of %s's memory is counted in this process only: %s", agent, away)
            return True

    async def _count(self, agent: str, date: str, person: int) -> int:
        key = keys.memory_writes(agent, date)

        async def count(redis: Redis) -> list[Any]:
            pipe = redis.pipeline(transaction=True)
            pipe.hincrby(key, str(person), 1)
            pipe.expire(key, KEEP_SECONDS)
            return await pipe.execute()

        return int((await self._link.call(count))[0])
