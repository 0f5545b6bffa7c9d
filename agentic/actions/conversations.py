"""Conversations: start, next, end; today's schedule and budget; `/ask` and `/arena`.

Everything about conversations and the schedule goes to the coordinator as a Command. The word in its CommandOutcome is
the code of the Outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

from agentic.actions.base import ActionContext, ActionRefused, ActionRequest, Outcome, done
from agentic.actions.silence import OfBot
from agentic.actions.values import Snowflake, Values, option
from agentic.agent.services import today_of
from agentic.chat.formatting import MAX_QUESTION, question_text
from agentic.state.budgets import MAX_RAISE
from agentic.state.rooms import Arena
from agentic.state.silence import Silenced
from agentic.text import unquoted
from agentic.themes import THEMES
from agentic.wire.messages import MAX_TOPIC, Command

MAX_ARENA_MINUTES = 60
USUAL_MINUTES = 5  # of an arena
WANTED = frozenset({"started", "next_started", "started_somewhere", "requested", "ended", "moved", "skipped", "added"})
"""The outcomes of commands that were carried out."""
SPECIAL = {("next", "started"): "next_started", ("move", "no_such_time"): "cannot_move"}
"""Outcomes that mean something else after one command."""


class InChannel(Values):
    channel: Snowflake | None = option("Which channel (default: this one)", None, kind="channel", needed="console")


class Start(InChannel):
    channel: Snowflake | None = option("Which channel (default: this one)", None, kind="channel")
    theme: str | None = option("Which theme (default: the channel's own)", None, choices=tuple(THEMES))
    agent: str | None = option("Which bot begins (default: the next one)", None, name="starter", kind="bot")
    topic: str | None = option("What to talk about (default: the first bot chooses)", None, max_length=MAX_TOPIC)


class Next(OfBot, InChannel):
    pass


class Ask(Values):
    agent: str = option("Which bot", kind="bot")
    prompt: str = option("Your question", max_length=MAX_QUESTION)


class ArenaValues(Values):
    prompt: str = option("Your question", max_length=MAX_QUESTION)
    minutes: int = option(f"Minutes to vote (default: {USUAL_MINUTES})", USUAL_MINUTES, ge=1, le=MAX_ARENA_MINUTES)
    channel: Snowflake | None = option("Which channel", None, kind="channel", only="console", needed="console")


class RaiseBudget(Values):
    scope: str = option("all, agent:NAME, or channel:ID", "all")
    dollars: float = option("How many more US dollars", gt=0, le=MAX_RAISE)


class ScheduledTime(Values):
    at: float = option("A scheduled time, in unix seconds", gt=0, lt=1e11)


class NewTime(Values):
    time: str = option("The time, written as HH:MM", pattern=r"\A([01]\d|2[0-3]):[0-5]\d\z")


class Move(NewTime, ScheduledTime):
    pass


async def start(context: ActionContext, request: ActionRequest, values: Start) -> Outcome:
    topic = unquoted(" ".join((values.topic or "").split())) or None
    channel_id = _channel(request, values)
    command = Command(command="start", channel_id=channel_id, agent_name=values.agent, theme=values.theme, topic=topic)
    return await _order(context, request, command, detail=topic or "")


async def next_speaker(context: ActionContext, request: ActionRequest, values: Next) -> Outcome:
    command = Command(command="next", channel_id=_channel(request, values), agent_name=values.agent)
    return await _order(context, request, command)


async def end(context: ActionContext, request: ActionRequest, values: InChannel) -> Outcome:
    return await _order(context, request, Command(command="end", channel_id=_channel(request, values)))


def _channel(request: ActionRequest, values: InChannel) -> int | None:
    """Return the requested channel; None on the console, where the coordinator picks a free one."""
    if values.channel is not None or request.place is None:
        return values.channel
    return request.place.parent_id or request.place.channel_id


async def _order(context: ActionContext, request: ActionRequest, command: Command, detail: str = "") -> Outcome:
    services, channel_id = context.services, command.channel_id
    agent = context.name_of(command.agent_name or "")
    if channel_id is None:
        return await give(context, command, detail)
    if channel_id not in services.chats.scope.channels or not context.is_here(channel_id, request):
        raise ActionRefused("unknown_channel", channel=channel_id)
    speaker = command.agent_name if command.command == "next" else None
    silenced = services.silence.check(context.ref(channel_id, request), speaker)
    if silenced is not None and command.command != "end":
        raise silenced_refusal(silenced, channel_id, agent)
    return await give(context, command, detail, agent=agent)


def silenced_refusal(silenced: Silenced, channel_id: int, agent: str = "") -> ActionRefused:
    return ActionRefused(silenced.kind, channel=silenced.channel_id or channel_id, agent=agent, until=silenced.until)


async def give(context: ActionContext, command: Command, detail: str = "", **fields: Any) -> Outcome:
    """Give the coordinator a command; its answer is the code. Raises StateUnavailable."""
    outcome = await context.services.bus.orders.give(command)
    code = SPECIAL.get((command.command, outcome), outcome)
    if code == "started" and command.channel_id is None:
        code = "started_somewhere"
    fields = {"channel": command.channel_id, "at": command.at, "to": command.to or command.at, **fields}
    return Outcome(code=code, ok=code in WANTED, fields=fields, detail=detail)


async def move(context: ActionContext, _: ActionRequest, values: Move) -> Outcome:
    to = _next_moment(context, values.time)
    detail = f"{format_time(context, values.at)} to {format_time(context, to)}"
    return await give(context, Command(command="move", at=values.at, to=to), detail)


async def skip(context: ActionContext, _: ActionRequest, values: ScheduledTime) -> Outcome:
    return await give(context, Command(command="skip", at=values.at), format_time(context, values.at))


async def add(context: ActionContext, _: ActionRequest, values: NewTime) -> Outcome:
    at = _next_moment(context, values.time)
    return await give(context, Command(command="add", at=at), format_time(context, at))


def _next_moment(context: ActionContext, written: str) -> float:
    """Return the next moment, in unix seconds, when the owner's clock shows that time."""
    now = datetime.fromtimestamp(context.services.clock(), context.services.settings.timezone)
    moment = datetime.combine(now.date(), time.fromisoformat(written), now.tzinfo)
    return (moment if moment > now else moment + timedelta(days=1)).timestamp()


def format_time(context: ActionContext, at: float) -> str:
    """Format a time by the owner's clock: "13:30", or "Saturday 13:30" if it isn't today."""
    zone = context.services.settings.timezone
    moment, now = datetime.fromtimestamp(at, zone), datetime.fromtimestamp(context.services.clock(), zone)
    return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment:%A %H:%M}"


async def raise_budget(context: ActionContext, request: ActionRequest, values: RaiseBudget) -> Outcome:
    services, scope = context.services, values.scope
    kind, _, of = scope.partition(":")
    known: Mapping[str, set[str]] = {
        "agent": set(services.agents.roster.names),
        "channel": {str(channel) for channel in services.chats.scope.channels},
    }
    if scope != "all" and of not in known.get(kind, ()):
        raise ActionRefused("unknown_scope", scope=scope)
    try:
        limit = await services.state.limits.budgets.raise_cap(scope, values.dollars, today_of(services), request.source)
    except ValueError:
        raise ActionRefused("no_limit") from None
    return done("raised", limit=limit, detail=f"{scope} +${values.dollars:.2f}")


async def ask(context: ActionContext, request: ActionRequest, values: Ask) -> Outcome:
    """Post the question for everyone to see; the bot treats the post as a mention."""
    if not values.prompt.strip():
        raise ActionRefused("empty_question")
    check_may_ask(context, request)
    user_id = context.services.chats.directory.id_of(values.agent)
    if user_id is None:
        raise ActionRefused("offline", agent=context.name_of(values.agent))
    text = question_text(user_id, values.prompt)
    return Outcome(code="report", fields={"text": text}, is_public=True)


async def arena(context: ActionContext, request: ActionRequest, values: ArenaValues) -> Outcome:
    """Let two hidden agents answer, within the limits on their calls and costs. An owner's arena is recorded."""
    if values.channel is not None:  # on the console
        if values.channel not in context.services.chats.scope.channels:
            raise ActionRefused("unknown_channel", channel=values.channel)
        request = replace(request, place=context.ref(values.channel, request))
    try:
        outcome = await _open_arena(context, request, values)
    except ActionRefused as refusal:
        outcome = refusal.outcome
    return replace(outcome, is_recorded=request.surface == "console")


async def _open_arena(context: ActionContext, request: ActionRequest, values: ArenaValues) -> Outcome:
    check_may_ask(context, request)
    question, arenas, place = values.prompt.strip(), context.services.state.coordination.arenas, request.place
    if not question or place is None:
        raise ActionRefused("empty_question")
    if not await arenas.has_host():
        raise ActionRefused("no_arena_host")
    arena = Arena(
        id=request.id,
        channel_id=place.channel_id,
        guild_id=place.guild_id,
        parent_id=place.parent_id,
        question=context.services.chats.redact(question),
        asked_by=request.who.user_id,
        minutes=values.minutes,
        at=context.services.clock(),
    )
    if not await arenas.open(arena):
        raise ActionRefused("arena_runs")
    return done("arena_opened")


def check_may_ask(context: ActionContext, request: ActionRequest) -> None:
    """Raise ActionRefused if nobody, or not this person, may ask the bots here."""
    services, place = context.services, request.place
    silenced = services.silence.check(place) if place is not None else None
    if silenced is not None and place is not None:
        raise silenced_refusal(silenced, place.channel_id)
    if services.agents.ignored.has(request.who.user_id, request.who.roles, request.guild_id):
        raise ActionRefused("you_are_ignored")
