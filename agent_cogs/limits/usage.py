"""What a turn costs: gathered while it runs, told by its result, booked when the turn is settled."""

from __future__ import annotations

from agent_llm.types import Usage
from agent_protocol.connection.link import RedisAway
from agent_protocol.turns.costs import Costs
from agent_protocol.wire.messages import Result, TurnUsage


class TurnSpending:
    """The usage of one turn and the day's book of its agent."""

    def __init__(self, costs: Costs, agent: str, date: str) -> None:
        self._costs, self._agent, self._date = costs, agent, date
        self.total = Usage()

    def add(self, usage: Usage) -> None:
        self.total += usage

    async def day_total(self) -> float:
        """US dollars of the agent's day, this turn included; the turn alone while Redis is away."""
        try:
            booked = await self._costs.read(self._agent, self._date)
        except RedisAway:
            booked = {}
        return booked.get("total_cost", 0.0) + self.total.cost_usd


def cost_fields(result: Result) -> dict[str, float | int]:
    """What a turn adds to its agent's day, under the names of agent_protocol.turns.costs."""
    usage = result.usage or TurnUsage()
    return {
        "total_cost": usage.cost_usd,
        "ai_cost": usage.cost_usd - usage.picture_cost_usd,
        "image_cost": usage.picture_cost_usd,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "ai_calls": usage.calls - usage.pictures,
        "image_calls": usage.pictures,
        "web_search_calls": usage.searches,
        "emoji_reactions": 1 if result.emoji_reacted else 0,
    }
