"""`/debate`: what is proposed, and why not."""

from __future__ import annotations

from typing import Any

import pytest

from agentic.state.silence import Scope
from agentic.wire import keys
from tests.support.slash_scene import BOB, ELSEWHERE, LOUNGE, MANAGER, MEMBER, SECRET, THREAD, Place, a_place


async def propose(place: Place, **values: Any) -> str:
    await place.link.call(lambda redis: redis.set(keys.PERSONAS_OWNER, "here"))
    return str(await place.use("debate", MEMBER, **{"topic": "Is tea better?", **values}))


async def test_it_is_proposed_in_the_channel_even_from_a_thread():
    async with a_place() as place:
        place.parents[THREAD] = LOUNGE
        told = await propose(
            place, topic=f'"Is {SECRET} better?"', personas="grok, Claude", channel=THREAD, parent=LOUNGE
        )
        assert told.startswith(f"Your proposal appears in <#{LOUNGE}> in a moment.")
        assert "3 people or a moderator react with 🎤" in told
        (proposal,) = await place.state.coordination.proposals.all()
        assert (proposal.channel_id, proposal.proposed_by, proposal.agents) == (LOUNGE, BOB, ("grok", "claude"))
        assert proposal.topic.startswith("Is ")
        assert SECRET not in proposal.topic
        assert "already proposed a debate" in await propose(place)
        await place.state.coordination.proposals.end(proposal)
        assert "Try again in an hour." in await propose(place)


@pytest.mark.parametrize(
    ("env", "values", "told"),
    [
        ({}, {"topic": " "}, "The topic is empty."),
        ({}, {"personas": "Grok"}, "You named Grok."),
        ({}, {"personas": "Grok, Gork, Bach"}, "Bach"),
        ({}, {"channel": ELSEWHERE}, "own channels"),
        ({"IGNORE_USER_IDS": str(BOB)}, {}, "ignore you"),
        ({"BUDGET_ROOMS_DAILY_USD": "0"}, {}, "Members can't propose debates here."),
    ],
)
async def test_what_cannot_be_proposed_is_refused(env: dict[str, str], values: dict[str, Any], told: str):
    async with a_place(**env) as place:
        assert told in await propose(place, **values)
        assert await place.state.coordination.proposals.all() == []


async def test_two_people_do_not_propose_the_same_debate():
    async with a_place() as place:
        assert "appears in" in await propose(place)
        assert "already proposed in this channel" in await place.use("debate", MANAGER, topic='"is TEA better?"')
        assert len(await place.state.coordination.proposals.all()) == 1


async def test_nothing_is_proposed_that_nobody_could_open():
    async with a_place() as place:
        assert "run_all.py" in await place.use("debate", MEMBER, topic="Is tea better?")
        await place.silence.stop(Scope.channel(LOUNGE), source="m1")
        assert "The bots are stopped" in await propose(place)
        await place.silence.resume_channel(LOUNGE, lambda _: None, at=place.now, late=False)
        place.channel.problem = "the bot lacks Create Public Threads there"
        assert "the bot lacks Create Public Threads there" in await propose(place)
        assert await place.state.coordination.proposals.all() == []
