"""Bad days of Redis, Discord and the models, each once: the short version of `make chaos`, in one world a group.

Nothing is posted twice, charged twice or lost, and every conversation ends in order; see tests/chaos.
"""

import pytest

from tests.chaos import gateway_days, model_days, redis_days, tool_days
from tests.chaos.stage import inside

REDIS = (redis_days.killed, redis_days.emptied, redis_days.paused, redis_days.full)
GATEWAY = (  # a new session has its own test in test_return_flow.py: py-cord waits five seconds before it
    gateway_days.dropped,
    gateway_days.reconnect,
    gateway_days.told_twice,
    gateway_days.told_again,
    gateway_days.too_many,
    gateway_days.broken,
    gateway_days.cut,
)
GROUPS = {"redis": REDIS, "gateway": GATEWAY, "models": tuple(model_days.SCENES.values())}


@pytest.mark.promise(68, 89, 94)
@pytest.mark.parametrize("group", GROUPS)
async def test_a_bad_day_costs_no_word_and_no_money_twice(group, tmp_path):
    async with inside(tmp_path, 1, quick=True) as scene:
        for number, play in enumerate(GROUPS[group]):
            scene.reseed(number)
            await scene.begin()
            await play(scene)
            tally = await scene.tally()
            assert tally.faults() == [], (play, tally)
            assert tally.conversations == 1


@pytest.mark.promise(91)
async def test_a_slow_redis_costs_no_word_and_no_money_twice(tmp_path):
    async with inside(tmp_path, 3, quick=True, slow=True) as scene:
        await redis_days.slow(scene)
        tally = await scene.tally()
        assert (tally.faults(), tally.conversations) == ([], 1)


@pytest.mark.promise(532)
async def test_a_tool_server_that_is_killed_and_restarted_costs_no_turn_and_no_call_twice(tmp_path):
    async with tool_days.with_tools(tmp_path, 2, quick=True) as (scene, server):
        await tool_days.killed(scene, server)
        tally = await scene.tally()
        assert (tally.faults(), tally.conversations) == ([], 1)


@pytest.mark.promise(80)
async def test_redis_whose_replies_are_lost_costs_no_word_and_no_money_twice(tmp_path):
    async with inside(tmp_path, 1, quick=True, slow=True) as scene:
        await redis_days.cut(scene)
        tally = await scene.tally()
        assert (tally.faults(), tally.conversations) == ([], 1)
