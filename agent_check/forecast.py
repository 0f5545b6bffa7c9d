"""What the schedule is likely to cost in a day: conversations × rounds × turns × prices. Pure.

Averages of ordinary turns. What people bring about comes on top, and is held by the budgets.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_check.findings import Findings
from agent_cogs.money import Tariff
from agent_cogs.reach import is_free
from agent_config import Settings
from agent_coordinator.policy import continuation_probability
from agent_themes import Theme, theme_named

INPUT_TOKENS, OUTPUT_TOKENS = 4_000, 300  # of a turn
SEARCHING = 0.5  # of the turns that may search


def expected_rounds(max_rounds: int) -> float:
    """Of a conversation that only chance ends."""
    rounds, reached = 0.0, 1.0
    for number in range(1, max_rounds + 1):
        rounds += reached
        reached *= continuation_probability(number)
    return rounds


def turn_cost(tariff: Tariff, theme: Theme) -> float:
    """US dollars for one turn in a channel of the theme."""
    plain = tariff.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    search = tariff.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, searches=1) - plain
    picture = tariff.picture() if theme.always_draw and tariff.image_model else 0.0
    return plain + picture + (SEARCHING * search if theme.search else 0.0)


def forecast(tariffs: Sequence[Tariff], themes: Sequence[Theme], conversations: float, max_rounds: int) -> float:
    """US dollars a day for so many conversations, spread evenly over channels of these themes."""
    if not themes:
        return 0.0
    a_round = sum(turn_cost(tariff, theme) for tariff in tariffs for theme in themes) / len(themes)
    return conversations * expected_rounds(max_rounds) * a_round


def check_costs(settings: Settings, found: Findings) -> None:
    """The forecast, beside the day's budget."""
    agents = [agent for agent in settings.agents.values() if agent.token is not None and agent.usable]
    tariffs = [Tariff.of(agent, free=is_free(agent.usable[0])) for agent in agents]
    themes = [theme_named(theme) for theme in settings.channels.values()]
    conversations = (settings.schedule_min + settings.schedule_max) / 2
    dollars = forecast(tariffs, themes, conversations, settings.max_rounds)
    budget = settings.daily_budget
    held = "no budget for all bots" if budget is None else f"the budget is ${budget:.2f}"
    told = f"about ${dollars:.2f} a day for {conversations:g} conversations, without mentions; {held}"
    if budget is not None and dollars > budget:
        found.warn("costs", told, "lower COORDINATOR_SCHEDULE_MAX, or raise BUDGET_DAILY_USD")
    else:
        found.ok("costs", told)
