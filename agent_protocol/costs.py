"""What each agent consumed on each day: hashes `agent:{name}:cost:{date}`, kept for 30 days.

Fields in use: total_cost, ai_cost, image_cost (US dollars), input_tokens, cached_tokens, output_tokens,
reasoning_tokens, ai_calls, image_calls, web_search_calls, emoji_reactions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from redis.asyncio import Redis

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink

KEEP_SECONDS = 30 * 86400
Fields = Mapping[str, float | int]


class Costs:
    """Running totals, written by `Ledger.settle`. What was spent while Redis was away is written with the next turn."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._owed: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def owe(self, agent: str, date: str, fields: Fields) -> None:
        """Note what could not be written with its turn; `pay` writes it."""
        if fields:
            _merge(self._owed[agent, date], fields)

    async def pay(self) -> None:
        """Write what is owed, if anything is. Never raises RedisAway."""
        if not self._owed:
            return
        owed, self._owed = self._owed, defaultdict(Counter)
        try:
            await self._link.call(lambda redis: _write(redis, owed))
        except RedisAway as away:
            if not away.maybe_done:  # what may have been written must not be charged twice
                for key, values in owed.items():
                    _merge(self._owed[key], values)

    async def read(self, agent: str, date: str) -> dict[str, float]:
        """The totals of a day, {} when there are none. Raises RedisAway."""
        kept = await self._link.call(lambda redis: redis.hgetall(keys.cost(agent, date)))
        return {str(field): float(value) for field, value in kept.items()}


def _merge(into: Counter[str], fields: Fields) -> None:
    for field, value in fields.items():
        into[field] += value  # type: ignore[assignment]


async def _write(redis: Redis, owed: Mapping[tuple[str, str], Fields]) -> None:
    pipe = redis.pipeline(transaction=True)
    for (agent, date), fields in owed.items():
        key = keys.cost(agent, date)
        for field, value in fields.items():
            if isinstance(value, int):
                pipe.hincrby(key, field, value)
            else:
                pipe.hincrbyfloat(key, field, value)
        pipe.expire(key, KEEP_SECONDS)
    await pipe.execute()
