"""The costs of a turn: added up while it runs, reported in its result, booked when the turn is settled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentic.agent.cost_estimate import under_way
from agentic.llm.types import Usage
from agentic.state.costs import Costs
from agentic.wire.link import RedisAway
from agentic.wire.messages import Result, TurnUsage


class TurnSpending:
    """The usage of one turn: `total` by now, earlier runs of the program included, `estimate` of one call and
    `foreseen` by the turn's record, both in US dollars. `keep` writes into that record."""

    def __init__(self, keep: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.total = Usage()
        self.estimate = self.foreseen = 0.0
        self._keep = keep

    def add(self, usage: Usage) -> None:
        self.total += usage

    async def foresee(self, usage: Usage) -> None:
        """Keep what the turn will come to by a call that is about to be made: a process that continues the turn after a
        crash charges it. Raises CannotPost for a turn that another process has taken over."""
        self.foreseen = usage.cost_usd
        if self._keep is not None:
            await self._keep(under_way(usage))


async def day_total(costs: Costs, agent: str, date: str, usage: Usage) -> float:
    """US dollars of the agent's day with those of the turn that runs; these alone while Redis is away."""
    try:
        booked = await costs.read(agent, date)
    except RedisAway:
        booked = {}
    return booked.get("total_cost", 0.0) + usage.cost_usd


def on_the_wire(usage: Usage) -> TurnUsage:
    return TurnUsage(
        model=usage.model,
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        searches=usage.searches,
        pictures=usage.pictures,
        cost_usd=round(usage.cost_usd, 8),
        picture_cost_usd=round(usage.picture_cost_usd, 8),
    )


def cost_fields(result: Result) -> dict[str, float | int]:
    """The turn's share of its agent's costs of the day, under the names of agentic.state.costs."""
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
