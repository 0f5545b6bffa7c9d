"""Forecast the cost of a day: conversations × rounds × turns × prices, plus automation tasks.

Turns are ordinary ones on average; an automation task (heartbeat, cron job, hook) counts as a turn in a casual channel
that may search. Mentions come on top; the report gives the price of one, with its hooks, and the budgets limit them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from agent_config import AgentSettings, Settings
from agent_coordinator.policies.policy import continuation_probability
from agentic.agent.limits import Tariff, is_free
from agentic.agent.roster import answering
from agentic.agent.side_calls import cheapest, tariff_of, usual_call
from agentic.check.automation import automation_turns_a_day, hooks_of_a_mention
from agentic.check.findings import Findings
from agentic.check.tools import searches_always
from agentic.llm.profiles import profile_of
from agentic.state.rooms import DEFAULT_TURNS
from agentic.themes import DEFAULT_THEME, Theme, theme_named

INPUT_TOKENS, OUTPUT_TOKENS = 4_000, 300  # of an average turn
SEARCHING = 0.5  # share of the turns that search, where they may


def expected_rounds(max_rounds: int) -> float:
    """The average rounds of a conversation that only chance ends."""
    rounds, reached = 0.0, 1.0
    for number in range(1, max_rounds + 1):
        rounds += reached
        reached *= continuation_probability(number)
    return rounds


def turn_cost(tariff: Tariff, theme: Theme) -> float:
    """US dollars for a turn in a channel of the theme."""
    plain = tariff.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    search = tariff.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, searches=1) - plain
    picture = tariff.picture().cost_usd if theme.always_draw and tariff.image_model else 0.0
    return plain + picture + (SEARCHING * search if theme.search else 0.0)


def forecast(tariffs: Sequence[Tariff], themes: Sequence[Theme], conversations: float, max_rounds: int) -> float:
    """US dollars a day for this many conversations, spread evenly over channels of these themes."""
    if not themes:
        return 0.0
    a_round = sum(turn_cost(tariff, theme) for tariff in tariffs for theme in themes) / len(themes)
    return conversations * expected_rounds(max_rounds) * a_round


def automation_cost(tariff: Tariff) -> float:
    """US dollars for a heartbeat, cron job or hook."""
    theme = theme_named(DEFAULT_THEME)
    return turn_cost(tariff, replace(theme, search=True, always_draw=False))


def mention_cost(tariff: Tariff, hooks: int, *, searches: bool = False) -> float:
    """US dollars for a mention in a casual channel, with its hooks. `searches`: it searches before the answer, which
    its model's maker does in the same call; any other model is called twice, once for its query."""
    plain = turn_cost(tariff, theme_named(DEFAULT_THEME))
    if not searches:
        return (1 + hooks) * plain
    by_maker = bool(profile_of(tariff.provider, tariff.model).search)
    return hooks * plain + (
        tariff.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, searches=1) if by_maker else 2 * plain
    )


def room_cost(tariffs: Sequence[Tariff], turns: int = DEFAULT_TURNS) -> float:
    """US dollars for a room of that many turns in a casual channel, spread evenly over its members."""
    a_round = sum(turn_cost(tariff, theme_named(DEFAULT_THEME)) for tariff in tariffs)
    return turns * a_round / len(tariffs)


def tariff_in(server: int | None, agent: AgentSettings) -> Tariff:
    """The prices of an agent's calls in a server; None: an unknown server."""
    there = agent.elsewhere.get(server or 0, agent)
    return Tariff.of(there, free=is_free(there.usable[0]))


@dataclass(frozen=True, slots=True)
class DayForecast:
    """US dollars a day without mentions, automation tasks a day, and both in words, with the price of a mention."""

    dollars: float
    tasks: float
    text: str


def forecast_day(
    settings: Settings, found: Findings, now: float, servers: Mapping[int, int | None] = MappingProxyType({})
) -> DayForecast:
    """Forecast a day of the agents that can start; problems in their files become findings. `now` in unix seconds;
    `servers`: known servers by channel. One on Signal alone takes no part in conversations."""
    agents = [agent for agent in answering(settings).values() if agent.usable]
    bots = [agent for agent in agents if agent.token is not None]
    conversations = (settings.schedule_min + settings.schedule_max) / 2 if settings.channels else 0.0
    dollars = _conversations(bots, settings, conversations, servers)
    turns = conversations * expected_rounds(settings.max_rounds) if settings.channels else 0.0
    tasks = [_automation(settings, agent.spec.name, turns if agent.token else 0.0, now, found) for agent in agents]
    dollars += sum(count * automation_cost(tariff_in(None, agent)) for count, agent in zip(tasks, agents, strict=True))
    more = f" and {sum(tasks):,.0f} automation tasks" if any(tasks) else ""
    each = _mentions(settings, agents)
    return DayForecast(
        dollars, sum(tasks), f"about ${dollars:.2f} a day for {conversations:g} conversations{more}, and {each}"
    )


def check_costs(
    settings: Settings, found: Findings, now: float, servers: Mapping[int, int | None] = MappingProxyType({})
) -> None:
    """Compare the forecast with the day's budget. Arguments as in `forecast_day`."""
    day = forecast_day(settings, found, now, servers)
    budget = settings.budget_daily_usd
    limit = "no limit for all bots together" if budget is None else f"the budget is ${budget:.2f}"
    text = f"{day.text}; {limit}"
    if budget is not None and day.dollars > budget:
        advice = "lower COORDINATOR_SCHEDULE_MAX, or raise BUDGET_DAILY_USD"
        found.warn(
            "costs", text, "run the automation tasks less often, or raise BUDGET_DAILY_USD" if day.tasks else advice
        )
    elif budget is None:
        found.warn("costs", text, "set BUDGET_DAILY_USD; without it, mentions may cost any sum")
    elif budget == 0:
        found.warn("costs", text, "raise BUDGET_DAILY_USD, or write none for no limit: only free models answer now")
    else:
        found.ok("costs", text)


def check_cheap(settings: Settings, found: Findings) -> None:
    """Say which cheap model is used, what it costs, and for which bots it is asked first."""
    model = cheapest(settings.cheap_models)
    first = [name for name in settings.agents if settings.asks_cheaply(name)]
    strangers = [name for name in settings.cheap_first if name not in ("all", "none", *settings.agents)]
    if model is None:
        text = "none: rooms have no summaries, and no bot asks it first"
        found.note("cheap model", text, "set CHEAP_MODEL to provider/model" if first else "")
        return
    tariff = tariff_of(model)
    price = "free" if tariff.free else f"${usual_call(tariff):.2g} a question"
    text = f"{model.name}, {price}: summaries of rooms"
    pays = [f"{name} ({_from(settings.agents[name], tariff)})" for name in first]
    found.ok("cheap model", f"{text}, and asked first for {', '.join(pays)}" if pays else text)
    if strangers:
        found.note("cheap model", f"CHEAP_FIRST also names {', '.join(strangers)}: only personas may go by that", "")


def break_even(dear: Tariff, cheap: Tariff) -> float:
    """The share of an agent's turns (1 is all) that the cheap model must skip, so that asking it first costs
    nothing."""
    turn = dear.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    return usual_call(cheap) / turn if turn else float("inf")


def _from(agent: AgentSettings, cheap: Tariff) -> str:
    share = break_even(tariff_in(None, agent), cheap) if agent.usable else float("inf")
    return f"pays from {share:.0%} of turns skipped" if share < 1 else "never pays"


def _mentions(settings: Settings, agents: Sequence[AgentSettings]) -> str:
    """The price range of a mention, from the cheapest to the dearest agent."""
    hooks = [hooks_of_a_mention(settings.persona_folder(agent.spec.name)) for agent in agents]
    searching = [searches_always(agent, settings) for agent in agents]
    costs = [
        mention_cost(tariff_in(None, agent), count, searches=searches)
        for agent, count, searches in zip(agents, hooks, searching, strict=True)
    ]
    prices = dict.fromkeys(f"${cost:.3g}" for cost in sorted(costs)[:: max(1, len(costs) - 1)])
    parts = [name for name, some in (("search", any(searching)), ("hooks", any(hooks))) if some]
    more = f", including its {' and '.join(parts)}" if parts else ""
    return f"{' to '.join(prices) or '$0'} for each mention{more}"


def _conversations(
    agents: Sequence[AgentSettings], settings: Settings, conversations: float, servers: Mapping[int, int | None]
) -> float:
    """US dollars a day; each server has a share by its number of channels."""
    themes: dict[int | None, list[Theme]] = {}
    for channel, theme in settings.channels.items():
        themes.setdefault(servers.get(channel), []).append(theme_named(theme))
    dollars = 0.0
    for server, its_own in themes.items():
        share = conversations * len(its_own) / len(settings.channels)
        dollars += forecast([tariff_in(server, agent) for agent in agents], its_own, share, settings.max_rounds)
    return dollars


def _automation(settings: Settings, agent: str, instructions: float, now: float, found: Findings) -> float:
    """Count an agent's automation tasks a day, and report problems in its files."""
    count, problems = automation_turns_a_day(settings.persona_folder(agent), instructions, now, settings.timezone)
    for problem in problems:
        found.warn(f"{agent}'s files", problem, "correct this line; until then its task is skipped")
    if count and count + instructions > settings.daily_unasked:
        text = f"{agent} has about {count:,.0f} automation tasks a day, but {settings.daily_unasked} turns for them"
        found.warn(
            "automation", text, "raise AGENT_MAX_DAILY or AGENT_MAX_DAILY_UNASKED; without that the last are skipped"
        )
    return count
