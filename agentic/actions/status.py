"""`/bots status`: the state of all bots, in every process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from agentic.actions.base import ActionContext, ActionRequest, Outcome, report
from agentic.actions.rights import scopes
from agentic.actions.values import Values
from agentic.agent.services import Services, today_of
from agentic.background_tasks import BACKGROUND_TASKS, PROACTIVE
from agentic.personas.memory import everywhere
from agentic.state.conversation_state import ConversationState
from agentic.state.idle import IdleState, TaskState, task_key
from agentic.state.silence import ChannelRef
from agentic.text import counted, dollars, lasting, listed

MAX_STOPS, MAX_IGNORED = 10, 20  # channels, and people, that are named
OWN_SILENCE: Mapping[str, str] = {
    "paused": "All bots are paused by their owner.",
    "stopped": "I'm stopped here. Write RESUME to let me speak again.",
    "muted": "My owner has muted me.",
}


async def status(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    """Show the state of all bots. Only people who manage the server see stopped channels that not everyone can see."""
    services, place = context.services, request.place
    assert place is not None
    silence, coordination, now = services.silence, services.state.coordination, services.clock()
    silenced, idle = silence.check(place), await coordination.idle.read()
    lines, here = list[str](), ""
    if silenced is not None and silenced.kind == "paused":
        where, here = "everywhere" if silenced.scope.guild is None else "in this server", "paused"
        lines.append(f"**All bots are paused {where}.** A server manager can use /bots resume.")
    elif silenced is not None:
        here = f"stopped ({lasting(silenced.until - now)} left; /resume ends that)"
    lines += await _bots_today(context, place)
    here = here or _describe_conversation(await coordination.conversations.read(place.channel_id), services)
    lines.append(f"**Here**: {here}")
    if log := services.record.privacy.log_line(place.channel_id):
        lines.append(f"**Message log**: {log} (see `/privacy`)")
    may_see = everywhere if request.who.manages_guild else context.place.may_see(place.channel_id)
    stops = [
        f"<#{channel}> for {lasting(until - now)}"
        for channel, until in silence.stopped_channels().items()
        if channel != place.channel_id and context.is_here(channel, request) and may_see(channel)
    ]
    if stops:
        lines.append(f"**Stopped elsewhere**: {_shortened(stops, MAX_STOPS)}")
    own = [scope.guild for scope in await scopes(context, request, "person")] if request.who.manages_guild else []
    people = [one.scope for one in silence.active() if one.scope.kind == "person" and one.scope.guild in own]
    if ignored := [f"<@{person}>" for person in dict.fromkeys(scope.subject for scope in people)]:
        lines.append(f"**Ignored**: {_shortened(ignored, MAX_IGNORED)}")
    if idle is not None and (tasks := idle_lines(idle, services.agents.roster.names, now)):
        lines += ["**Background tasks**:", *(f"- {line}" for line in tasks)]
    disclosures = (agent.front.disclosure for agent in services.settings.agents.values())
    lines += [f"-# {disclosure}" for disclosure in disclosures if disclosure]
    return report("\n".join(lines))


async def _bots_today(context: ActionContext, place: ChannelRef) -> list[str]:
    services, now = context.services, context.services.clock()
    state, silence, names = services.state, services.silence, services.agents.names
    date = today_of(services)
    online, backoffs, uses, turns, costs = await asyncio.gather(
        state.coordination.presence.online(names),
        state.coordination.backoffs.read(names),
        state.limits.budgets.uses(date, ["all"]),
        asyncio.gather(*(state.limits.all(agent, date) for agent in names)),
        asyncio.gather(*(state.limits.costs.read(agent, date) for agent in names)),
    )
    muted, muted_here = silence.muted_agents(), silence.muted_agents(place.guild_id)

    def label(agent: str) -> str:
        """Return "Claude" or "Grok (muted for 5 minutes)"."""
        notes, until, until_here = list[str](), muted.get(agent, now), muted_here.get(agent, now)
        if until_here > now:
            notes.append(f"muted{' in this server' if until_here > until else ''} for {lasting(until_here - now)}")
        if (left := backoffs.get(agent, now) - now) > 0:
            notes.append(f"on a break for {lasting(left)}: its AI provider is rejecting its requests")
        return f"{names[agent]} ({', '.join(notes)})" if notes else names[agent]

    lines = [f"**Online**: {listed([label(agent) for agent in names if agent in online])}"]
    if offline := [label(agent) for agent in names if agent not in online]:
        lines.append(f"**Offline**: {listed(offline)}")
    spent = [cost.get("total_cost", 0.0) for cost in costs]
    each = zip(names.values(), turns, spent, strict=True)
    today = "; ".join(f"{shown} {counted(number, 'turn')}, {dollars(cost)}" for shown, number, cost in each)
    today += f"; total {dollars(sum(spent))}"
    if (budget := services.settings.budget_daily_usd) is not None:
        raised = uses["all"].raised
        today += f" of {dollars(budget + raised)}{f' ({dollars(raised)} added today)' if raised else ''}"
    return [*lines, f"**Today**: {today}"]


def _describe_conversation(running: ConversationState | None, services: Services) -> str:
    if running is None:
        return "no conversation is running"
    speaker = services.agents.names.get(running.queue.speaker or "", running.queue.speaker or "")
    if running.queue.single:
        return f"{speaker or 'a bot'} is taking a requested turn"
    theme, turn = f", theme {running.theme}" if running.theme else "", f", {speaker}'s turn" if speaker else ""
    return f"a conversation is running{theme}, round {running.counts.round}{turn}"


def _shortened(shown: Sequence[str], most: int) -> str:
    more = [f"{len(shown) - most} more"] if len(shown) > most else []
    return listed([*shown[:most], *more])


async def own_status(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    services, state, agent = context.services, context.services.state, request.agent
    now, silence, place = services.clock(), services.silence, request.place
    date = today_of(services)
    turns, cost = await state.limits.all(agent, date), await state.limits.costs.read(agent, date)
    lines = [f"Today: {counted(turns, 'turn')}, {dollars(cost.get('total_cost', 0.0))}."]
    silenced = silence.check(place, agent) if place is not None else None
    if silenced is not None:
        lines.append(OWN_SILENCE[silenced.kind])
    idle = await state.coordination.idle.read()
    if idle is not None and (waits := proactive_waits(idle, agent, now)):
        lines.append(f"My unprompted messages have to wait: {listed(waits)}.")
    return report("\n".join(lines))


def idle_lines(state: IdleState, names: Mapping[str, str], now: float) -> tuple[str, ...]:
    """Return a line for each agent with background tasks: "Claude: follow-ups (in 40 minutes at the earliest)". `names`
    maps agents' keys to shown names."""
    found: dict[str, list[str]] = {}
    for name, task in BACKGROUND_TASKS.items():
        for key, its in state.tasks.items():
            if key.startswith(f"{name}:"):
                line = f"{task.label} ({_when(state, key, its, now)})"
                found.setdefault(key.removeprefix(f"{name}:"), []).append(line)
    return tuple(f"{names.get(agent, agent)}: {listed(tasks)}" for agent, tasks in found.items())


def proactive_waits(state: IdleState, agent: str, now: float) -> tuple[str, ...]:
    """Return the agent's tasks that post unprompted, with when or why not: "follow-ups (as soon as it's quiet)"."""
    keys = {task.label: task_key(name, agent) for name, task in BACKGROUND_TASKS.items() if name in PROACTIVE}
    return tuple(
        f"{label} ({_when(state, key, state.tasks[key], now)})" for label, key in keys.items() if key in state.tasks
    )


def _when(state: IdleState, key: str, task: TaskState, now: float) -> str:
    if state.asking is not None and task_key(state.asking.task, state.asking.agent) == key:
        return "running now"
    if task.why:
        return task.why
    return f"in {lasting(task.due - now)} at the earliest" if task.due > now else "as soon as it's quiet"
