"""Forecast the cost of a day, and check the bots' tools and searches, option files, and MCP servers.

A day costs conversations × rounds × turns × prices, plus the automation turns of the persona files: heartbeats, cron
jobs, and the hooks around them and around the coordinator's turns. Every turn is taken as average; an automation task
costs as much as a turn in a casual channel with search. Mentions can't be predicted and cost extra: the report gives
the price of one with its hooks, and the budgets limit them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from types import MappingProxyType

from agent_config import AgentSettings, Settings
from agent_coordinator.policies.policy import continuation_probability
from agentic.agent.limits import ModelPrices
from agentic.agent.options import OptionFiles
from agentic.agent.roster import agents_outside_rooms
from agentic.agent.side_calls import cheapest, prices_of, usual_call
from agentic.check.odd_settings import options_in
from agentic.context.options import Options
from agentic.findings import Findings
from agentic.llm.provider_table import profile_of
from agentic.personas.files import read_persona
from agentic.personas.prompt import unclosed_comments
from agentic.personas.schedules import AROUND, Job, parse_cron, parse_heartbeat, parse_hooks
from agentic.state.rooms import DEFAULT_TURNS
from agentic.themes import DEFAULT_THEME, Theme, theme_named
from agentic.tools.mcp.config import read_servers
from agentic.tools.mcp.servers import McpServers
from agentic.tools.own_tools import FILE_TOOLS, MEMORY, RECALL
from agentic.tools.tool import WEB_SEARCH, is_allowed
from agentic.tools.toolset import NAMES

INPUT_TOKENS, OUTPUT_TOKENS = 4_000, 300  # of an average turn
SEARCHING = 0.5  # share of the turns that search in a theme with search
DAY = 86_400.0
OFTEN = 24  # runs a day: runs of a job this frequent are counted over one day, of others over MONTH_DAYS
MONTH_DAYS = 28
STARTS = 1.0  # assumed starts a day, and as many stops


@dataclass(frozen=True, slots=True)
class DayForecast:
    """US dollars a day without mentions, automation tasks a day, and a text with both and the price of a mention."""

    dollars: float
    tasks: float
    text: str


def forecast_day(
    settings: Settings, found: Findings, now: float, servers: Mapping[int, int | None] = MappingProxyType({})
) -> DayForecast:
    """Forecast a day of the agents that can start; problems in their files become findings. `now` is in unix seconds;
    `servers` maps channels to their known servers. Agents without a bot aren't part of the conversations."""
    agents = [agent for agent in agents_outside_rooms(settings).values() if agent.usable]
    bots = [agent for agent in agents if agent.token is not None]
    conversations = (settings.schedule_min + settings.schedule_max) / 2 if settings.channels else 0.0
    # Each server has a share by its number of channels.
    themes: dict[int | None, list[Theme]] = {}
    for channel, theme in settings.channels.items():
        themes.setdefault(servers.get(channel), []).append(theme_named(theme))
    dollars = 0.0
    for server, its_own in themes.items():
        share = conversations * len(its_own) / len(settings.channels)
        dollars += forecast([prices_in(server, agent) for agent in bots], its_own, share, settings.max_rounds)
    turns = conversations * expected_rounds(settings.max_rounds) if settings.channels else 0.0
    tasks: list[float] = []
    for agent in agents:
        name, instructions = agent.spec.name, turns if agent.token else 0.0
        folder = settings.persona_folder(name)
        count, problems = automation_turns_a_day(folder, instructions, now, settings.timezone)
        for problem in problems:
            found.warn(f"{name}'s files", problem, "correct this line; until then the bot skips this task")
        if count and count + instructions > settings.daily_unprompted:
            also = f" and {instructions:,.0f} turns in conversations" if instructions else ""
            text = f"{name} would have about {count:,.0f} automation tasks{also} a day, but without a person's request"
            text += f" it takes only {settings.daily_unprompted} turns, so it skips the last ones"
            found.warn("automation", text, "raise AGENT_MAX_DAILY or AGENT_MAX_DAILY_UNASKED")
        tasks.append(count)
    casual = replace(theme_named(DEFAULT_THEME), search=True, always_draw=False)
    dollars += sum(count * turn_cost(prices_in(None, one), casual) for count, one in zip(tasks, agents, strict=True))
    more = f" and {sum(tasks):,.0f} automation tasks" if any(tasks) else ""
    text = f"about ${dollars:.2f} a day for {conversations:g} conversations{more}, and {_mentions(settings, agents)}"
    return DayForecast(dollars, sum(tasks), text)


def check_costs(
    settings: Settings, found: Findings, now: float, servers: Mapping[int, int | None] = MappingProxyType({})
) -> None:
    """Compare the forecast with the daily budget. Arguments as in `forecast_day`."""
    day = forecast_day(settings, found, now, servers)
    budget = settings.budget_daily_usd
    text = day.text if budget is None else f"{day.text}; the budget is ${budget:.2f}"
    if budget is None:
        text = f"{text}; there's no limit on what mentions can cost"
        found.warn("costs", text, "set BUDGET_DAILY_USD, such as 5")
    elif budget == 0:
        found.warn("costs", f"{text}, so only free models answer", "raise BUDGET_DAILY_USD, or set none for no limit")
    elif day.dollars > budget:
        less = "run the automation tasks less often" if day.tasks else "lower COORDINATOR_SCHEDULE_MAX"
        text = f"{text}, so the bots go quiet before the day is over"
        found.warn("costs", text, f"{less}, or raise BUDGET_DAILY_USD")
    else:
        found.ok("costs", text)


def check_cheap(settings: Settings, found: Findings) -> None:
    """Show the cheap model, its price, and the bots that it is asked for first."""
    model = cheapest(settings.cheap_models)
    first = [name for name in settings.agents if settings.asks_cheaply(name)]
    strangers = [name for name in settings.cheap_first if name not in ("all", "none", *settings.agents)]
    if model is None:
        text = "none, so rooms get no summaries and CHEAP_FIRST has no effect"
        found.note("cheap model", text, "set CHEAP_MODEL to provider/model" if first else "")
        return
    prices = prices_of(model)
    price = "free" if prices.free else f"${usual_call(prices):.2g} a question"
    text = f"{model.name}, {price}: summarizes rooms"
    pays = []
    for name in first:
        agent = settings.agents[name]
        share = break_even(prices_in(None, agent), prices) if agent.usable else float("inf")
        saves = f"saves money if it skips {share:.0%} of the turns" if share < 1 else "never saves money"
        pays.append(f"{name} ({saves})")
    found.ok("cheap model", f"{text}, and decides whether to speak for {', '.join(pays)}" if pays else text)
    if strangers:
        text = f"CHEAP_FIRST names {', '.join(strangers)}, not one of your bots; it has no effect unless a persona has"
        found.note("cheap model", f"{text} that name")


def break_even(expensive: ModelPrices, cheap: ModelPrices) -> float:
    """Return the share of an agent's turns (0 to 1) that the cheap model must skip to save money."""
    turn = expensive.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    return usual_call(cheap) / turn if turn else float("inf")


def _mentions(settings: Settings, agents: Sequence[AgentSettings]) -> str:
    """Return the price range of a mention, from the cheapest to the most expensive agent."""
    hooks = [hooks_of_a_mention(settings.persona_folder(agent.spec.name)) for agent in agents]
    searching = [any(searches(agent, settings)) for agent in agents]
    all_prices = [prices_in(None, agent) for agent in agents]
    costs = sorted(mention_cost(*each) for each in zip(all_prices, hooks, searching, strict=True))
    prices = dict.fromkeys(f"${cost:.3g}" for cost in costs[:: max(1, len(costs) - 1)])
    parts = [name for name, some in (("search", any(searching)), ("hooks", any(hooks))) if some]
    more = f", including its {' and '.join(parts)}" if parts else ""
    return f"{' to '.join(prices) or '$0'} for each mention{more}"


def expected_rounds(max_rounds: int) -> float:
    """Return the average number of rounds of a conversation that only chance ends."""
    rounds, reached = 0.0, 1.0
    for number in range(1, max_rounds + 1):
        rounds += reached
        reached *= continuation_probability(number)
    return rounds


def turn_cost(prices: ModelPrices, theme: Theme) -> float:
    """Return the price in US dollars of a turn in a channel with this theme."""
    plain = prices.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)
    search = prices.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, searches=1) - plain
    picture = prices.picture().cost_usd if theme.always_draw and prices.image_model else 0.0
    return plain + picture + (SEARCHING * search if theme.search else 0.0)


def forecast(
    all_prices: Sequence[ModelPrices], themes: Sequence[Theme], conversations: float, max_rounds: int
) -> float:
    """Return US dollars a day for this many conversations, spread evenly over channels with these themes."""
    if not themes:
        return 0.0
    a_round = sum(turn_cost(prices, theme) for prices in all_prices for theme in themes) / len(themes)
    return conversations * expected_rounds(max_rounds) * a_round


def mention_cost(prices: ModelPrices, hooks: int, searches: bool = False) -> float:
    """Return US dollars for a mention in a casual channel, with its hooks. If it `searches` first, a provider with its
    own search does so in the same call; any other model is called twice, once to write the query."""
    plain = turn_cost(prices, theme_named(DEFAULT_THEME))
    if not searches:
        return (1 + hooks) * plain
    by_maker = bool(profile_of(prices.provider, prices.model).search)
    answer = prices.call(INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, searches=1) if by_maker else 2 * plain
    return hooks * plain + answer


def room_cost(all_prices: Sequence[ModelPrices], turns: int = DEFAULT_TURNS) -> float:
    """Return US dollars for a room of this many turns in a casual channel, spread evenly over its members."""
    a_round = sum(turn_cost(prices, theme_named(DEFAULT_THEME)) for prices in all_prices)
    return turns * a_round / len(all_prices)


def prices_in(server: int | None, agent: AgentSettings) -> ModelPrices:
    """Return the prices of an agent's calls in a server (None: an unknown server)."""
    there = agent.elsewhere.get(server or 0, agent)
    return ModelPrices.of(there, free=there.usable[0].is_free)


def automation_turns_a_day(
    folder: Path, instructions: float, now: float, zone: tzinfo
) -> tuple[float, tuple[str, ...]]:
    """Return the turns a day that the folder's files cause, and their problems. `instructions`: the coordinator's."""
    files = read_persona(folder)
    checks, check_problems = parse_heartbeat(files.heartbeat)
    jobs, job_problems = parse_cron(files.agents)
    hooks, hook_problems = parse_hooks(files.agents)
    beats = 0.0
    for check in checks:
        hours = check.active_hours
        active = 1.0 if hours is None else ((hours.end - hours.start) % 1440 or 1440) / 1440
        beats += active * DAY / check.interval_seconds
    runs = sum(_runs_a_day(job, now, zone) for job in jobs)
    events = {"heartbeat": beats, "cron": runs, "instruction": instructions}
    around = [hook for name, hook in hooks.items() if name in AROUND]
    fired = (count for hook in around for kind, count in events.items() if hook.fires_for(kind))
    hook_turns = (len(hooks) - len(around)) * STARTS + sum(fired)
    problems = (*unclosed_comments(files), *check_problems, *job_problems, *hook_problems)
    return beats + runs + hook_turns, tuple(dict.fromkeys(problems))


def hooks_of_a_mention(folder: Path) -> int:
    hooks, _ = parse_hooks(read_persona(folder).agents)
    return sum(hook.fires_for("message") for name, hook in hooks.items() if name in AROUND)


def _runs_a_day(job: Job, now: float, zone: tzinfo) -> float:
    """Return the cron runs a day; for a rare job the average over the next four weeks."""
    in_a_day = sum(1 for _ in _moments(job, now, now + DAY, zone))
    if in_a_day >= OFTEN:
        return in_a_day
    return sum(1 for _ in _moments(job, now, now + MONTH_DAYS * DAY, zone)) / MONTH_DAYS


def _moments(job: Job, now: float, end: float, zone: tzinfo) -> Iterator[float]:
    moment = job.next_time(now, zone)
    while moment is not None and moment <= end:
        yield moment
        moment = job.next_time(moment, zone)


def check_options(settings: Settings, found: Findings) -> None:
    files = OptionFiles(settings.config_files_dir, tuple(settings.agents))
    files.refresh()
    for problem in files.problems():
        found.warn("options", f"skipped: {problem}", "correct it; docs/channel-options.md lists the options")


def everywhere(agent: AgentSettings, settings: Settings) -> list[Options]:
    """Return the agent's options in any other place and in each server of GUILD_IDS."""
    options = options_in(agent.name, settings)
    return [options(server) for server in (None, *settings.guild_ids)]


def searches(agent: AgentSettings, settings: Settings) -> list[bool]:
    """Return, for each place with `always_search`, whether the agent's tools allow a search."""
    wanting = (one for one in everywhere(agent, settings) if one.always_search)
    return [_may(WEB_SEARCH, agent, settings, one) for one in wanting]


def check_always_search(agent: AgentSettings, settings: Settings, found: Findings) -> None:
    """Report whether the agent searches before each answer to a person, and whether its tools allow that."""
    wanting = searches(agent, settings)
    if not wanting:
        return
    if not all(wanting):
        advice = f"add {WEB_SEARCH} to ALLOWED_TOOLS and to the option tools, or set always_search: false"
        found.warn("always_search", f"has no effect: the tool {WEB_SEARCH} isn't allowed everywhere", advice)
    else:
        found.ok("always_search", "the bot searches the web before each answer to a person (price: docs/costs.md)")


def _may(tool: str, agent: AgentSettings, settings: Settings, options: Options) -> bool:
    allowed = settings.allowed_tools if agent.allowed_tools is None else agent.allowed_tools
    return is_allowed(tool, allowed) and is_allowed(tool, options.tools)


async def check_tools(settings: Settings, found: Findings, environment: Mapping[str, str]) -> None:
    """Start the servers of config/mcp.yaml, list their tools, and stop them."""
    built_in = [name for name in (*NAMES, MEMORY, *FILE_TOOLS) if is_allowed(name, settings.allowed_tools)]
    if WEB_SEARCH in built_in and not (settings.web_search or settings.search_keys):
        built_in.remove(WEB_SEARCH)
    agents = agents_outside_rooms(settings).values()
    places = ((agent, one) for agent in agents for one in everywhere(agent, settings))
    if any(one.recall and _may(RECALL, agent, settings, one) for agent, one in places):
        built_in.append(RECALL)
    found.ok("tools", ", ".join(built_in) or "no built-in tools")
    servers, problems = read_servers(settings.config_files_dir / "mcp.yaml", settings.named_texts)
    for problem in problems:
        found.wrong("MCP servers", problem, "correct that line")
    async with McpServers(servers, environment=environment) as running:
        await running.tried()
        states, reasons = running.status(), running.reasons()
        for server in servers:
            if states[server.name] != "running":
                advice = "fix it (LOG_LEVEL=DEBUG shows its output), or set enabled: false"
                reason = f": {reasons[server.name]}" if reasons[server.name] else ""
                found.wrong(f"MCP server {server.name}", f"doesn't start{reason}", advice)
            else:
                tools = {tool.spec.name for agent in settings.agents for tool in running.tools_for(agent)}
                prefix = f"{server.name}__"
                usable = (name for name in tools if is_allowed(name, settings.allowed_tools))
                names = sorted(name.removeprefix(prefix) for name in usable if name.startswith(prefix))
                if names:
                    found.ok(f"MCP server {server.name}", ", ".join(names))
                else:
                    advice = "check ALLOWED_TOOLS, and `tools` and `agents` of the server"
                    found.warn(f"MCP server {server.name}", "starts, but no bot may use its tools", advice)
