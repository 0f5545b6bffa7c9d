"""Which agents have streams for the record besides the bots, which every process knows by its settings: personas, known
where their folders are alone. The recorder may be another process."""

from __future__ import annotations

from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisLink

KEEP_SECONDS = 30 * 86400  # after the last one was added; the streams are kept for 7 days


class RecordedAgents:
    """Both methods raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def add(self, agent: str) -> None:
        """Before its first turn."""

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=False)
            pipe.sadd(keys.RECORDED_AGENTS, agent)
            pipe.expire(keys.RECORDED_AGENTS, KEEP_SECONDS)
            await pipe.execute()

        await self._link.call(write)

    async def read(self) -> frozenset[str]:
        return frozenset(map(str, await self._link.call(lambda redis: redis.smembers(keys.RECORDED_AGENTS))))
