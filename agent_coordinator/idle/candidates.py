"""Candidates for a task: asked of the record, and chosen by pure rules.

A follow-up is about a random one of the conversations that were left hanging, a discovery is for a random person with a
profile, of those whose gates are open. Summaries and profiles have one candidate, and post nothing, so only the channel
of a summary matters.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from agent_coordinator.config import IdleConfig
from agent_coordinator.idle.gates import (
    HOUR,
    Closed,
    channel_open,
    channel_rested,
    done_already,
    novel,
    novel_topics,
    opted_in,
    person_rested,
)
from agent_coordinator.ports import IdleStore
from agentic.state.idle import UNASKED, Candidate, Sent
from agentic.state.idle_state import Asking
from agentic.wire.messages import Instruction, Reflection

LOOKED_AT = 20  # candidates for an unasked message
SENT_DAYS = 90.0  # of unasked messages that gates look at
AVOIDED = 20  # unasked messages that are not to be repeated
MOST_TOPICS = 5  # of the person's, for one discovery
NOTHING: Mapping[str, str] = {
    "summarise": "there is nothing to summarise",
    "profile": "nobody has written anything new for a profile",
    "follow_up": "no conversation was left hanging",
    "discover": "nobody has a profile",
}
DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """All that the choice depends on. `sent`: unasked messages, the oldest first; `did`: what the task's last run was
    about. `stopped` and `busy` are channels."""

    now: float
    timezone: tzinfo = UTC
    unasked: str = "opt_in"
    consents: Mapping[int, bool] = field(default_factory=dict)
    sent: Sequence[Sent] = ()
    stopped: Collection[int] = ()
    busy: Collection[int] = ()
    did: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A turn to ask for. `topics`: those of the person's that are to be used; `avoid`: what was sent before."""

    task: str
    agent: str
    about: Candidate
    topics: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    cause: str = ""


async def look(
    store: IdleStore, task: str, agent: str, *, now: float, before: float, failed: Collection[int] = ()
) -> Sequence[Candidate]:
    """The candidates of the record; `before`: what is left hanging since then. `failed` are the newest messages of what
    a run has failed at, which comes after everything else."""
    if task == "follow_up":
        return await store.hanging(agent, before, LOOKED_AT)
    if task == "discover":
        return await store.people(agent, LOOKED_AT)
    for skip in (failed, ()) if failed else ((),):
        found = await (store.to_summarise(agent, now, skip) if task == "summarise" else store.to_profile(agent, skip))
        if found is not None:
            return (found,)
    return ()


def choose(
    task: str, agent: str, candidates: Sequence[Candidate], given: Circumstances, config: IdleConfig, rng: random.Random
) -> Plan | Closed:
    """One of the candidates whose gates are open, at random; else why the first one's are not."""
    judged = [_judge(task, agent, each, given, config, rng) for each in candidates]
    plans = [each for each in judged if isinstance(each, Plan)]
    if plans:
        return rng.choice(plans)
    closed = [each for each in judged if isinstance(each, Closed)]
    if not closed:
        return Closed(NOTHING[task])
    opening = [each.until for each in closed if each.until is not None]
    return Closed(closed[0].why, min(opening) if len(opening) == len(closed) else None)


def about_of(candidate: Candidate) -> str:
    """A candidate in one word, by which a later run knows it; another one where words of it were deleted or edited."""
    words = zlib.crc32(candidate.material.encode())
    return f"{candidate.person_id or ''}:{candidate.channel_id}:{candidate.message_id}:{candidate.upto}:{words:x}"


def instruction_for(plan: Plan, instruction_id: str, deadline: float, theme: str) -> Instruction:
    about = plan.about
    return Instruction(
        instruction_id=instruction_id,
        action="reflect",
        channel_id=about.channel_id,
        channel_theme=theme,
        deadline=deadline,
        reflection=Reflection(
            task=plan.task,
            person_id=about.person_id,
            person_name=about.person_name,
            message_id=about.message_id,
            material=about.material,
            topics=plan.topics,
            origins=about.origins,
            avoid=plan.avoid,
            message_ids=about.message_ids,
            people=about.people,
            cause=plan.cause,
        ),
    )


def asking_for(plan: Plan, instruction_id: str, deadline: float, read_at: float) -> Asking:
    about = plan.about
    return Asking(
        instruction_id=instruction_id,
        agent=plan.agent,
        task=plan.task,
        deadline=deadline,
        read_at=read_at,
        channel_id=about.channel_id,
        message_id=about.message_id,
        upto=about.upto,
        person_id=about.person_id,
        person_name=about.person_name,
        message_ids=about.message_ids,
        people=about.people,
        cause=plan.cause,
    )


def _judge(
    task: str, agent: str, each: Candidate, given: Circumstances, config: IdleConfig, rng: random.Random
) -> Plan | Closed:
    if task not in UNASKED:
        running = channel_open(each.channel_id, False, given.busy) if task == "summarise" else None
        closed = running or done_already(about_of(each), given.did)
        return closed or Plan(task, agent, each, topics=each.topics)
    to_them = [one for one in given.sent if one.person_id == each.person_id or one.channel_id == each.channel_id]
    closed = (
        channel_open(each.channel_id, each.channel_id in given.stopped, given.busy)
        or opted_in(each.person_id, given.consents, given.unasked)
        or person_rested(each.person_id, given.sent, given.now, config.person_hours)
        or channel_rested(each.channel_id, given.sent, given.now, config.channel_hours)
        or (novel(each.material, to_them) if task == "follow_up" else None)
    )
    if closed is not None:
        return closed
    avoid = tuple(one.text for one in to_them if one.text)[-AVOIDED:]
    if task == "follow_up":
        when = datetime.fromtimestamp(each.at, given.timezone)
        return Plan(task, agent, each, each.topics, avoid, f"a talk of {when.day} {when:%B} was left without an answer")
    since = given.now - config.again_hours * HOUR if config.again_hours else 0.0
    topics = novel_topics(each.topics, [one for one in to_them if one.at > since])
    if not topics:
        return Closed("there was an unasked message on each of the person's topics")
    chosen = tuple(rng.sample(topics, min(len(topics), MOST_TOPICS)))
    return Plan(task, agent, each, chosen, avoid, "it looks for news on what the person likes to talk about")
