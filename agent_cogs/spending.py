"""What a turn costs: gathered while it runs, booked once at its end."""

from __future__ import annotations

import logging

from agent_llm.types import Usage
from agent_protocol.connection import RedisAway
from agent_protocol.costs import Costs

log = logging.getLogger(__name__)


class Spending:
    """The usage of one turn and the day's book of its agent."""

    def __init__(self, costs: Costs, agent: str, date: str) -> None:
        self._costs, self._agent, self._date = costs, agent, date
        self.total = Usage()
        self.emoji_reactions = 0

    def add(self, usage: Usage) -> None:
        self.total += usage

    async def day_total(self) -> float:
        """US dollars of the agent's day, this turn included; the turn alone while Redis is away."""
        try:
            booked = await self._costs.read(self._agent, self._date)
        except RedisAway:
            booked = {}
        return booked.get("total_cost", 0.0) + self.total.cost_usd

    async def book(self) -> None:
        """Adds the turn to the agent's day."""
        total = self.total
        fields = {
            "total_cost": total.cost_usd,
            "ai_cost": total.text_cost_usd,
            "image_cost": total.picture_cost_usd,
            "input_tokens": total.input_tokens,
            "cached_tokens": total.cached_tokens,
            "output_tokens": total.output_tokens,
            "reasoning_tokens": total.reasoning_tokens,
            "ai_calls": total.calls - total.pictures,
            "image_calls": total.pictures,
            "web_search_calls": total.searches,
            "emoji_reactions": self.emoji_reactions,
        }
        spent = {name: amount for name, amount in fields.items() if amount}
        if not spent:
            return
        try:
            await self._costs.add(self._agent, self._date, spent)
        except RedisAway:
            log.warning("%s: a turn's cost of $%.4f could not be booked: Redis is away", self._agent, total.cost_usd)
