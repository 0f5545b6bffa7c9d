"""Stop, pause, mute, and ignore, each with its opposite; and reset."""

from __future__ import annotations

from typing import Any

from agentic.actions.base import ActionContext, ActionRefused, ActionRequest, Outcome, done
from agentic.actions.rights import may_moderate, scopes
from agentic.actions.values import Snowflake, Values, option
from agentic.state.silence import MAX_MUTE_SECONDS, MAX_STOP_SECONDS, ChannelRef, Scope
from agentic.text import lasting
from agentic.turn.history import reset_conversation

MAX_STOP_MINUTES, MAX_MUTE_MINUTES = int(MAX_STOP_SECONDS / 60), int(MAX_MUTE_SECONDS / 60)
MUTE_MINUTES = 60  # by default


class ConsoleChannel(Values):
    channel: Snowflake | None = option(
        "Which channel or thread (default: this one)", None, kind="channel", only="console", needed="console"
    )


class Stop(ConsoleChannel):
    minutes: int | None = option("How many minutes (default: a day)", None, ge=1, le=MAX_STOP_MINUTES)


class OfBot(Values):
    agent: str = option("Which bot", name="bot", kind="bot")


class Mute(OfBot):
    minutes: int = option(f"How many minutes (default: {MUTE_MINUTES})", MUTE_MINUTES, ge=1, le=MAX_MUTE_MINUTES)


class OfPerson(Values):
    user: Snowflake = option("Which person", kind="person")


class OfOrder(Values):
    order: str = option("Which order, as listed in the console")


class Reset(Values):
    agent: str | None = option("Which bot (default: all)", None, kind="bot")


async def stop(context: ActionContext, request: ActionRequest, values: Stop) -> Outcome:
    """Stop the bots in a channel; without the right to do so, cancel their answers to the person."""
    silence = context.services.silence
    if not may_moderate(context, request):
        await silence.cancel_replies(request.who.user_id, request.channel_id)
        return Outcome(code="canceled_replies", is_recorded=False)
    place = _place(context, request, values)
    minutes = values.minutes or MAX_STOP_MINUTES
    await silence.stop(Scope.channel(place.channel_id), minutes * 60.0, source=request.source)
    ends = silence.stopped_channels().get(place.channel_id, 0.0)
    shown = {"channel": place.channel_id, "duration": lasting(ends - context.services.clock())}
    return _done(context, "stopped_channel", detail=f"{minutes} min", **shown)


async def resume(context: ActionContext, request: ActionRequest, values: ConsoleChannel) -> Outcome:
    silence, place = context.services.silence, _place(context, request, values)
    if place.parent_id is not None and place.parent_id in silence.stopped_channels():
        raise ActionRefused("parent_stopped", channel=place.parent_id)
    resumed = await silence.resume_channel(place.channel_id, context.place.parent)
    code = "resumed" if resumed else "not_stopped"
    is_paused = silence.check(place) is not None  # a pause is left
    return _done(context, f"{code}_but_paused" if is_paused else code, channel=place.channel_id)


def _place(context: ActionContext, request: ActionRequest, values: ConsoleChannel) -> ChannelRef:
    """Return the requested channel or thread. Raises ActionRefused if the bots don't speak there."""
    if values.channel is None and request.place is not None:
        return request.place
    place = context.ref(values.channel or 0, request)
    if {place.channel_id, place.parent_id}.isdisjoint(context.services.chats.scope.channels):
        raise ActionRefused("unknown_channel", channel=values.channel)
    return place


async def pause(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    scope = (await scopes(context, request, "all"))[0]
    await context.services.silence.stop(scope, source=request.source)
    return _done(context, "paused_all", where=_where(scope))


async def resume_all(context: ActionContext, request: ActionRequest, _: Values) -> Outcome:
    silence = context.services.silence
    resumed = await silence.resume_all(await scopes(context, request, "all"))
    return _done(context, "paused_by_owner" if silence.is_paused else "resumed_all" if resumed else "not_paused")


async def mute(context: ActionContext, request: ActionRequest, values: Mute) -> Outcome:
    silence, (scope, *_) = context.services.silence, await scopes(context, request, "agent", values.agent)
    await silence.stop(scope, values.minutes * 60.0, source=request.source)
    ends = silence.muted_agents(scope.guild).get(values.agent, 0.0)
    shown = {"agent": context.name_of(values.agent), "duration": lasting(ends - context.services.clock())}
    return _done(context, "muted_bot", detail=f"{values.minutes} min", where=_where(scope), **shown)


async def unmute(context: ActionContext, request: ActionRequest, values: OfBot) -> Outcome:
    silence = context.services.silence
    resumed = await silence.resume_all(await scopes(context, request, "agent", values.agent))
    code = "unmuted" if resumed else "not_muted"
    code = "muted_by_owner" if values.agent in silence.muted_agents() else code
    return _done(context, code, agent=context.name_of(values.agent))


async def ignore(context: ActionContext, request: ActionRequest, values: OfPerson) -> Outcome:
    (scope, *_) = await scopes(context, request, "person", values.user)
    outcome = await context.services.silence.stop(scope)
    codes = {"first": "ignored", "known": "already_ignored", "full": "too_many_ignored"}
    return _done(context, codes[outcome], person=values.user, where=_where(scope))


async def unignore(context: ActionContext, request: ActionRequest, values: OfPerson) -> Outcome:
    if values.user in context.services.settings.ignore_user_ids:
        raise ActionRefused("ignored_by_setting", person=values.user)
    silence = context.services.silence
    resumed = await silence.resume_all(await scopes(context, request, "person", values.user))
    code = "unignored" if resumed else "not_ignored"
    return _done(context, "ignored_by_owner" if silence.is_ignored(values.user) else code, person=values.user)


async def end_order(context: ActionContext, _: ActionRequest, values: OfOrder) -> Outcome:
    scope, silence = Scope.parse(values.order), context.services.silence
    if scope is None:
        raise ActionRefused("unknown_order", order=values.order)
    if scope.kind == "channel":
        ended = await silence.resume_channel(int(scope.subject), context.place.parent)
    else:
        ended = await silence.resume(scope)
    detail = "" if scope.kind == "person" else values.order  # the record has no ids of people
    return _done(context, "order_ended" if ended else "no_order", detail=detail)


def _where(scope: Scope) -> str:
    return "in every channel" if scope.guild is None else "in this server"


def _done(context: ActionContext, code: str, detail: str = "", **fields: Any) -> Outcome:
    """Return the outcome of an order. It takes effect here immediately, and in other processes once Redis has it."""
    is_delayed = context.services.silence.is_out_of_sync
    return Outcome(code=code, fields=fields, detail=detail, is_delayed=is_delayed)


async def reset(context: ActionContext, request: ActionRequest, values: Reset) -> Outcome:
    agents = [values.agent] if values.agent else context.services.agents.names
    await reset_conversation(context.services, agents, request.channel_id, request.id)
    if request.guild_id is None:
        return Outcome(code="reset_chat", is_recorded=False)
    return done("reset", agent=context.name_of(values.agent) if values.agent else "Every bot")
