"""Daily totals of each agent's usage and costs: hashes `agent:{name}:cost:{date}`, kept for 30 days.

Fields in use: total_cost, ai_cost, image_cost (US dollars), input_tokens, cached_tokens, output_tokens,
reasoning_tokens, ai_calls, image_calls, web_search_calls, emoji_reactions; replay_cost (US dollars), the part of
total_cost that replays were.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisLink

KEEP_SECONDS = 30 * 86400
SCAN_COUNT = 1000
Fields = Mapping[str, float | int]

_KEY = re.compile(keys.cost(r"([^:]{1,100})", r"(\d{4}-\d\d-\d\d)"))


class Costs:
    """Running totals, written by `Ledger.settle`."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def read(self, agent: str, date: str) -> dict[str, float]:
        """The totals of a day, {} when there are none. Raises RedisAway."""
        kept = await self._link.call(lambda redis: redis.hgetall(keys.cost(agent, date)))
        return {str(field): float(value) for field, value in kept.items()}

    async def all_days(self) -> dict[tuple[str, str], dict[str, float]]:
        """The totals of all agents and days that Redis has: (agent, YYYY-MM-DD) → field → amount, also those that the
        public agentic-discord wrote. Raises RedisAway."""
        found, cursor = {}, 0
        while True:
            cursor, page = await self._link.call(partial(_read_page, cursor))
            for key, kept in page:
                if match := _KEY.fullmatch(key):
                    found[match[1], match[2]] = _amounts(kept)
            if not cursor:
                return found


async def _read_page(cursor: int, redis: Redis) -> tuple[int, list[tuple[str, Mapping[Any, Any]]]]:
    cursor, page = await redis.scan(cursor, match=keys.cost("*", "*"), count=SCAN_COUNT, _type="hash")
    return cursor, [(str(key), await redis.hgetall(key)) for key in page]


def _amounts(kept: Mapping[Any, Any]) -> dict[str, float]:
    """Without what is no amount: other programs may write into the same Redis."""
    amounts = {}
    for field, text in kept.items():
        try:
            amount = float(text)
        except ValueError:
            continue
        if math.isfinite(amount) and amount >= 0:
            amounts[str(field)] = amount
    return amounts
