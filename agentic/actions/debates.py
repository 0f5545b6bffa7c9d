"""`/debate`: members propose a debate, which begins when enough people or a moderator agree."""

from __future__ import annotations

from collections.abc import Mapping

from agentic.actions.base import ActionContext, ActionRefused, ActionRequest, Outcome, done
from agentic.actions.conversations import check_may_ask
from agentic.actions.room_create import MAX_NAMES, name_mentions
from agentic.actions.values import Values, option
from agentic.agent.roster import members_of
from agentic.agent.services import today_of
from agentic.rooms.opening import topic_of
from agentic.state.budgets import MEMBERS_SCOPE
from agentic.state.proposals import PROPOSAL_SIGN, Proposal
from agentic.state.rooms import MAX_MEMBERS, MIN_MEMBERS
from agentic.text import listed
from agentic.wire.messages import MAX_TOPIC

REFUSALS: Mapping[str, str] = {
    "known": "debate_known",
    "has_one": "debate_has_one",
    "too_soon": "debate_too_soon",
    "too_many": "debate_too_many",
    "away": "redis_unavailable",
}
"""The codes of outcomes, by the store's answer."""


class Debate(Values):
    topic: str = option("A question that people could disagree about", max_length=MAX_TOPIC)
    personas: str = option(
        "Who debates, separated by commas (default: chosen by chance)", "", kind="agent", max_length=MAX_NAMES
    )


async def propose(context: ActionContext, request: ActionRequest, values: Debate) -> Outcome:
    services, place = context.services, request.place
    check_may_ask(context, request)
    channel_id = (place.parent_id or place.channel_id) if place is not None else 0
    named = await name_mentions(context, request, channel_id, values.topic)
    topic = services.chats.redact(topic_of(named))[:MAX_TOPIC]
    if not topic:
        raise ActionRefused("no_topic")
    if channel_id not in services.chats.scope.channels:
        raise ActionRefused("unknown_channel", channel=channel_id)
    found, problems = members_of(tuple(services.agents.roster), context.without_mentions(values.personas))
    if problems:
        raise ActionRefused("no_such_agent", why=" ".join(problems))
    if found and len(found) < MIN_MEMBERS:
        raise ActionRefused("too_few_named", names=listed([entry.shown for entry in found]))
    if len(found) > MAX_MEMBERS:
        raise ActionRefused("too_many_named", number=len(found))
    for entry in found:
        if entry.why_not is not None:
            raise ActionRefused("cannot_take_part", agent=entry.shown, reason=entry.why_not)
    if not found and sum(entry.why_not is None for entry in services.agents.roster) < MIN_MEMBERS:
        raise ActionRefused("too_few_agents")
    if (problem := context.place.room_problem(channel_id, webhooks=False)) is not None:
        raise ActionRefused("no_room_there", channel=channel_id, problem=problem)
    if services.settings.budget_rooms_usd == 0:
        raise ActionRefused("no_proposals")
    uses = await services.state.limits.budgets.uses(today_of(services), [MEMBERS_SCOPE])
    if uses[MEMBERS_SCOPE].is_nearly_used_up:
        raise ActionRefused("budget_used_up", whose="proposed debates")
    if any(
        (each.channel_id, each.topic.casefold()) == (channel_id, topic.casefold())
        for each in await services.state.coordination.proposals.all()
        if each.proposed_by != request.who.user_id
    ):
        raise ActionRefused("debate_proposed_by_other", sign=PROPOSAL_SIGN)
    if not await services.state.coordination.arenas.has_host():
        raise ActionRefused("no_arena_host")
    proposal = Proposal(
        id=request.id,
        channel_id=channel_id,
        guild_id=request.guild_id,
        topic=topic,
        proposed_by=request.who.user_id,
        name=request.who.name,
        at=services.clock(),
        agents=tuple(entry.key for entry in found),
    )
    added = await services.state.coordination.proposals.add(proposal)
    if added != "proposed":
        raise ActionRefused(REFUSALS[added])
    number, sign = services.settings.debate_supporters, PROPOSAL_SIGN
    people = f"{number} people" if number > 1 else "a person"
    return done("debate_proposed", channel=channel_id, sign=sign, people=people)
