"""What is likely to be spent in a day: conversations × rounds × turns × prices, and what the agents do by themselves.

Averages of ordinary turns; errands (heartbeats, cron jobs, hooks) count as turns in a casual channel that may search.
What people bring about comes on top, by the price of a mention with the hooks around it, and is held by the budgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from agent_check.automation import automation_turns_a_day, hooks_of_a_mention
from agent_check.findings import Findings
from agent_cogs.limits.cost_estimate import Tariff
from agent_cogs.limits.model_access import is_free
from agent_config import AgentSettings, Settings
from agent_coordinator.policies.rounds import continuation_probability
from agent_themes import DEFAULT_THEME, Theme, theme_named

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
    picture = tariff.picture().cost_usd if theme.always_draw and tariff.image_model else 0.0
    return plain + picture + (SEARCHING * search if theme.search else 0.0)


def forecast(tariffs: Sequence[Tariff], themes: Sequence[Theme], conversations: float, max_rounds: int) -> float:
    """US dollars a day for so many conversations, spread evenly over channels of these themes."""
    if not themes:
        return 0.0
    a_round = sum(turn_cost(tariff, theme) for tariff in tariffs for theme in themes) / len(themes)
    return conversations * expected_rounds(max_rounds) * a_round


def errand_cost(tariff: Tariff) -> float:
    """US dollars for one heartbeat, job or hook."""
    theme = theme_named(DEFAULT_THEME)
    return turn_cost(tariff, replace(theme, search=True, always_draw=False))


def mention_cost(tariff: Tariff, hooks: int) -> float:
    """US dollars for one mention in a casual channel, with the hooks around it."""
    return (1 + hooks) * turn_cost(tariff, theme_named(DEFAULT_THEME))


def tariff_in(server: int | None, agent: AgentSettings) -> Tariff:
    """What an agent's calls cost in a server; None: in one that is not known."""
    there = agent.elsewhere.get(server or 0, agent)
    return Tariff.of(there, free=is_free(there.usable[0]))


def check_costs(
    settings: Settings, found: Findings, now: float, servers: Mapping[int, int | None] = MappingProxyType({})
) -> None:
    """The forecast, beside the day's budget; `now` in unix seconds, `servers` by channel, as far as they are known."""
    agents = [agent for agent in settings.agents.values() if agent.token is not None and agent.usable]
    conversations = (settings.schedule_min + settings.schedule_max) / 2
    dollars = _conversations(agents, settings, conversations, servers)
    turns = conversations * expected_rounds(settings.max_rounds) if settings.channels else 0.0
    errands = [_errands(settings, agent.spec.name, turns, now, found) for agent in agents]
    dollars += sum(count * errand_cost(tariff_in(None, agent)) for count, agent in zip(errands, agents, strict=True))
    budget = settings.budget_daily_usd
    held = "no limit for all bots together" if budget is None else f"the budget is ${budget:.2f}"
    more = f" and {sum(errands):,.0f} errands of the bots' own files" if any(errands) else ""
    each = _mentions(settings, agents)
    told = f"about ${dollars:.2f} a day for {conversations:g} conversations{more}, and {each}; {held}"
    if budget is not None and dollars > budget:
        advice = "lower COORDINATOR_SCHEDULE_MAX, or raise BUDGET_DAILY_USD"
        found.warn("costs", told, "give the errands more time, or raise BUDGET_DAILY_USD" if any(errands) else advice)
    elif budget is None:
        found.warn("costs", told, "set BUDGET_DAILY_USD, or what people bring about may cost any sum")
    else:
        found.ok("costs", told)


def _mentions(settings: Settings, agents: Sequence[AgentSettings]) -> str:
    """What a mention costs, by the cheapest and the dearest bot."""
    hooks = [hooks_of_a_mention(settings.personas_dir / agent.spec.name) for agent in agents]
    costs = [mention_cost(tariff_in(None, agent), count) for agent, count in zip(agents, hooks, strict=True)]
    prices = dict.fromkeys(f"${cost:.3g}" for cost in sorted(costs)[:: max(1, len(costs) - 1)])
    return f"{' to '.join(prices) or '$0'} for each mention{', its hooks included' if any(hooks) else ''}"


def _conversations(
    agents: Sequence[AgentSettings], settings: Settings, conversations: float, servers: Mapping[int, int | None]
) -> float:
    """US dollars a day; each server has its share of them, by its channels."""
    themes: dict[int | None, list[Theme]] = {}
    for channel, theme in settings.channels.items():
        themes.setdefault(servers.get(channel), []).append(theme_named(theme))
    dollars = 0.0
    for server, its_own in themes.items():
        share = conversations * len(its_own) / len(settings.channels)
        dollars += forecast([tariff_in(server, agent) for agent in agents], its_own, share, settings.max_rounds)
    return dollars


def _errands(settings: Settings, agent: str, instructions: float, now: float, found: Findings) -> float:
    """Errands a day of an agent, and what is wrong with them."""
    count, wrong = automation_turns_a_day(settings.personas_dir / agent, instructions, now, settings.timezone)
    for problem in wrong:
        found.warn(f"{agent}'s files", problem, "mend this line: what it belongs to is passed over")
    if count and count + instructions > settings.daily_unasked:
        told = f"{agent} has about {count:,.0f} errands a day, and {settings.daily_unasked} turns that nobody asked for"
        found.warn("errands", told, "raise AGENT_MAX_DAILY or AGENT_MAX_DAILY_UNASKED, or the last ones are left out")
    return count
