"""`/bots status`: the state of all bots, in every process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from agentic.actions.base import ActionContext, ActionRequest, Outcome, report
from agentic.actions.rights import scopes
from agentic.actions.values import Values
from agentic.background_tasks import BACKGROUND_TASKS, PROACTIVE
from agentic.state.conversations import Running
from agentic.state.idle import IdleState, TaskState, task_key
from agentic.state.silence import ChannelRef
from agentic.text import counted, dollars, lasting, listed

MAX_STOPS, MAX_IGNORED = 10, 20  # channels, and people, that are named
OWN_SILENCE: Mapping[str, str] = {
    "paused": "All agents are paused by their owner.",
    "stopped": "I am stopped here. Write RESUME to let me speak again.",
    "muted": "My owner has muted me for now.",
}
WAIT = "wait: "  # before the reason of a task that was due and did not run


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """An agent today. `muted`, `muted_here` (in this server) and `backoff`: seconds left, or 0."""

    name: str
    online: bool
    turns: int = 0
    cost: float = 0.0
    muted: float = 0.0
    muted_here: float = 0.0
    backoff: float = 0.0

    @property
    def label(self) -> str:
        """ "Claude", "Grok (muted for 5 minutes)" """
        notes = [f"muted for {lasting(self.muted)}"] if self.muted > 0 else []
        if self.muted_here > self.muted:
            notes = [f"muted in this server for {lasting(self.muted_here)}"]
        notes += [f"paused for {lasting(self.backoff)}: its provider refuses it"] if self.backoff > 0 else []
        return f"{self.name} ({', '.join(notes)})" if notes else self.name


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The state of all bots. `budget` in US dollars a day, None for no limit; `stops`: channel → seconds left.
    `paused`: where all bots are, such as "everywhere"; `ignored`: people whom the person who asks may unignore;
    `disclosures`: lines that the owner wants shown, such as that the bots are AIs."""

    agents: tuple[AgentStatus, ...]
    budget: float | None
    conversation: Running | None
    stops: Mapping[int, float] = field(default_factory=dict)
    disclosures: tuple[str, ...] = ()
    paused: str = ""
    ignored: tuple[int, ...] = ()
    raised: float = 0.0  # of `budget`, added for today
    idle: tuple[str, ...] = ()  # `idle_lines`
    log: str = ""  # of messages, where it is on here

    def text(self, channel_id: int, names: Mapping[str, str]) -> str:
        online = listed([agent.label for agent in self.agents if agent.online])
        lines = [f"**All bots are paused {self.paused}**, until /bots resume."] if self.paused else []
        lines.append(f"**Online**: {online}")
        if offline := [agent.label for agent in self.agents if not agent.online]:
            lines.append(f"**Offline**: {listed(offline)}")
        each = [f"{agent.name} {counted(agent.turns, 'turn')}, {dollars(agent.cost)}" for agent in self.agents]
        today = f"{'; '.join(each)}; total {dollars(sum(agent.cost for agent in self.agents))}"
        if self.budget is not None:
            raised = f" ({dollars(self.raised)} added today)" if self.raised else ""
            today += f" of {dollars(self.budget)}{raised}"
        lines.append(f"**Today**: {today}")
        lines.append(f"**Here**: {self._here(channel_id, names)}")
        if self.log:
            lines.append(f"**Message log**: {self.log}; `/privacy` says more")
        others = [channel for channel in self.stops if channel != channel_id]
        if others:
            shown = [f"<#{channel}> for {lasting(self.stops[channel])}" for channel in others[:MAX_STOPS]]
            more = len(others) - MAX_STOPS
            lines.append(f"**Stopped elsewhere**: {listed([*shown, f'{more} more'] if more > 0 else shown)}")
        if self.ignored:
            people = [f"<@{person}>" for person in self.ignored[:MAX_IGNORED]]
            more = len(self.ignored) - MAX_IGNORED
            lines.append(f"**Ignored**: {listed([*people, f'{more} more'] if more > 0 else people)}")
        if self.idle:
            lines.append("\n".join(("**While nobody writes**:", *(f"- {line}" for line in self.idle))))
        lines += [f"-# {disclosure}" for disclosure in self.disclosures]
        return "\n".join(lines)

    def _here(self, channel_id: int, names: Mapping[str, str]) -> str:
        if self.paused:
            return "paused"
        if channel_id in self.stops:
            return f"stopped for {lasting(self.stops[channel_id])} more; /resume ends that"
        running = self.conversation
        if running is None:
            return "no conversation is running"
        if running.single:
            return f"{names.get(running.speaker or '', 'a bot')} has a turn on request"
        theme = f", theme {running.theme}" if running.theme else ""
        speaker = f", {names.get(running.speaker, running.speaker)}'s turn" if running.speaker else ""
        return f"a conversation is running{theme}, round {running.round_number}{speaker}"


async def status(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    """Show the state of all bots, with stopped channels as far as the people here may know of them."""
    place, services = request.place, context.services
    assert place is not None
    status = await read_status(context, request, place)
    may_see = (lambda _: True) if request.who.manages_guild else context.place.may_see(place.channel_id)
    here = {
        channel: left
        for channel, left in status.stops.items()
        if context.is_here(channel, request) and may_see(channel)
    }
    return report(replace(status, stops=here).text(place.channel_id, services.agents.names))


async def own_status(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    """Say how an agent's day is, in its own words."""
    services, state, agent = context.services, context.services.state, request.agent
    now, silence, place = services.clock(), services.silence, request.place
    date = f"{datetime.fromtimestamp(now, services.settings.timezone):%Y-%m-%d}"
    turns, cost = await state.limits.all(agent, date), await state.limits.costs.read(agent, date)
    lines = [f"Today: {counted(turns, 'turn')}, {dollars(cost.get('total_cost', 0.0))}."]
    silenced = silence.check(place, agent) if place is not None else None
    if silenced is not None:
        lines.append(OWN_SILENCE[silenced.kind])
    idle = await state.coordination.idle.read()
    if idle is not None and (waits := proactive_waits(idle, agent, now)):
        lines.append(f"My unprompted messages: {listed(waits)}.")
    return report("\n".join(lines))


async def read_status(context: ActionContext, request: ActionRequest, place: ChannelRef) -> ServerStatus:
    """Read the status of the server and the channel where it is asked for. Raises StateUnavailable."""
    services = context.services
    state, silence, now = services.state, services.silence, services.clock()
    channel_id, parent_id, guild_id = place.channel_id, place.parent_id, place.guild_id
    date = f"{datetime.fromtimestamp(now, services.settings.timezone):%Y-%m-%d}"
    online, backoffs, conversation, uses, idle = await asyncio.gather(
        state.coordination.presence.online(services.agents.names),
        state.coordination.backoffs.read(services.agents.names),
        state.coordination.conversations.running(channel_id),
        state.limits.budgets.uses(date, ["all"]),
        state.coordination.idle.read(),
    )
    muted, muted_here = silence.muted_agents(), silence.muted_agents(guild_id)
    turns = await asyncio.gather(*(state.limits.all(agent, date) for agent in services.agents.names))
    costs = await asyncio.gather(*(state.limits.costs.read(agent, date) for agent in services.agents.names))
    agents = tuple(
        AgentStatus(
            name=shown,
            online=agent in online,
            turns=turns[number],
            cost=costs[number].get("total_cost", 0.0),
            muted=max(0.0, muted.get(agent, 0.0) - now),
            muted_here=max(0.0, muted_here.get(agent, 0.0) - now),
            backoff=max(0.0, backoffs.get(agent, 0.0) - now),
        )
        for number, (agent, shown) in enumerate(services.agents.names.items())
    )
    stops = {channel: until - now for channel, until in silence.stopped_channels().items()}
    if parent_id in stops:  # a stop of a channel covers its threads
        stops[channel_id] = max(stops[parent_id], stops.get(channel_id, 0.0))
    disclosures = (agent.front.disclosure for agent in services.settings.agents.values())
    raised, silenced = uses["all"].raised, silence.check(place)
    own = [scope.guild for scope in await scopes(context, request, "person")] if request.who.manages_guild else []
    ignored = [order.scope for order in silence.active() if order.scope.kind == "person" and order.scope.guild in own]
    paused = ""
    if silenced is not None and silenced.kind == "paused":
        paused = "everywhere" if silenced.scope.guild is None else "in this server"
    return ServerStatus(
        agents,
        None if services.settings.budget_daily_usd is None else services.settings.budget_daily_usd + raised,
        conversation,
        stops,
        tuple(filter(None, disclosures)),
        paused=paused,
        ignored=tuple(dict.fromkeys(int(scope.subject) for scope in ignored)),
        raised=raised,
        idle=idle_lines(idle, services.agents.roster.names, now) if idle is not None else (),
        log=services.record.privacy.log_line(channel_id),
    )


def idle_lines(state: IdleState, names: Mapping[str, str], now: float) -> tuple[str, ...]:
    """A line for each agent with tasks while nobody writes, such as "Claude: follow-ups in 40 minutes at the earliest".
    `names` maps agents' keys to shown names."""
    found: dict[str, list[str]] = {}
    for name, task in BACKGROUND_TASKS.items():
        for key, its in state.tasks.items():
            if key.startswith(f"{name}:"):
                line = f"{task.label} {_when(state, key, its, now)}"
                found.setdefault(key.removeprefix(f"{name}:"), []).append(line)
    return tuple(f"{names.get(agent, agent)}: {'; '.join(tasks)}" for agent, tasks in found.items())


def proactive_waits(state: IdleState, agent: str, now: float) -> tuple[str, ...]:
    """The agent's tasks that post unasked, and what each waits for, such as "follow-ups (these are quiet hours)"."""
    keys = {task.label: task_key(name, agent) for name, task in BACKGROUND_TASKS.items() if name in PROACTIVE}
    whens = {label: _when(state, key, state.tasks[key], now) for label, key in keys.items() if key in state.tasks}
    return tuple(f"{label} ({when.removeprefix(WAIT)})" for label, when in whens.items())


def _when(state: IdleState, key: str, task: TaskState, now: float) -> str:
    if state.asking is not None and task_key(state.asking.task, state.asking.agent) == key:
        return "under way"
    if task.why:
        return f"{WAIT}{task.why}"
    return f"in {lasting(task.due - now)} at the earliest" if task.due > now else "as soon as nobody writes"
