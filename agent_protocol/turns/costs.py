"""Daily totals of each agent's usage and costs: hashes `agent:{name}:cost:{date}`, kept for 30 days.

Fields in use: total_cost, ai_cost, image_cost (US dollars), input_tokens, cached_tokens, output_tokens,
reasoning_tokens, ai_calls, image_calls, web_search_calls, emoji_reactions; replay_cost (US dollars), the part of
total_cost that replays were.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_protocol.connection.link import RedisLink
from agent_protocol.wire import keys

KEEP_SECONDS = 30 * 86400
Fields = Mapping[str, float | int]


class Costs:
    """Running totals, written by `Ledger.settle`."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def read(self, agent: str, date: str) -> dict[str, float]:
        """The totals of a day, {} when there are none. Raises RedisAway."""
        kept = await self._link.call(lambda redis: redis.hgetall(keys.cost(agent, date)))
        return {str(field): float(value) for field, value in kept.items()}
