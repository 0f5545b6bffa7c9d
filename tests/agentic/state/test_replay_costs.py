from __future__ import annotations

import pytest

from agentic.llm.types import Usage
from agentic.record.stream_reader import RecordReader
from agentic.state.budgets import Caps
from agentic.state.shared_state import SharedState
from agentic.wire import keys
from agentic.wire.entries import ReplayNote

USAGE = Usage(calls=2, input_tokens=900, text_cost_usd=0.25)
DAY = "2027-01-15"
NOTE = ReplayNote(id="r1", at=0.0, day=DAY, agent="claude", model="a/b", calls=2, input_tokens=900, cost_usd=0.25)
SPENT = {"total_cost": 0.25, "ai_cost": 0.25, "input_tokens": 900, "ai_calls": 2}


async def budget(link, scope):
    return int(await link.call(lambda redis: redis.hget(keys.budget(DAY), scope)) or 0) / 1e6


async def test_a_replay_reserves_and_books_once_for_the_day_and_the_agent_and_leaves_nothing_else(link, clock):
    state = SharedState(link, clock, caps=Caps(all=1.0))
    assert await state.limits.replay_costs.reserve("claude", "r1", DAY, 0.7, 60) is None
    assert await state.limits.replay_costs.reserve("grok", "r2", DAY, 0.7, 60) == "budget", "0.7 of 1 is reserved"
    for _ in range(2):
        await state.limits.replay_costs.settle("claude", "r1", DAY, USAGE, "a/b")
    assert await state.limits.costs.read("claude", DAY) == {**SPENT, "replay_cost": 0.25}
    assert (await budget(link, "all"), await budget(link, "agent:claude")) == (0.25, 0.25)
    found = sorted(await link.call(lambda redis: redis.keys("*")))
    stream = keys.COORDINATOR_RECORD
    assert found == [keys.cost("claude", DAY), keys.budget(DAY), stream, keys.entries_counted(stream)]
    (received,) = await RecordReader(link, ()).read()
    assert received.entries == (NOTE.model_copy(update={"at": clock.now}),), "for the record"
    assert await state.limits.replay_costs.reserve("grok", "r2", DAY, 0.7, 60) is None


@pytest.mark.promise(144)
@pytest.mark.parametrize(("caps", "refused"), [({"agent": 0.5}, "agent_budget"), ({"all": 0.5}, "budget")])
async def test_a_replay_that_nobody_settles_is_booked_as_spent_and_used_up_money_refuses(link, clock, caps, refused):
    state = SharedState(link, clock, caps=Caps(**caps))
    assert await state.limits.replay_costs.reserve("claude", "r1", DAY, 0.4, 60) is None
    clock.now += 61
    assert await state.limits.replay_costs.reserve("claude", "r2", DAY, 0.4, 60) == refused
    assert (await state.limits.costs.read("claude", DAY))["total_cost"] == 0.4
