"""Mutes where the limits are: a muted agent takes nothing, in the same step as it asks."""

from __future__ import annotations

import asyncio

import pytest

from agentic.state.limits import LimitRequest
from agentic.state.shared_state import SharedState
from agentic.state.silence import Scope, Silence
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.support.redis_server import PATIENT, RedisServer

RULES = {"cooldown": 30.0, "daily_max": 3, "date": "2027-01-15"}
MONEY = {"turn_id": "m1", "estimate": 0.01, "until": 1_800_000_100.0, "person_id": 5, "message_id": 1}


def silence_of(link: RedisConnection, clock) -> Silence:
    return Silence(link, Bus(link), clock)


@pytest.mark.parametrize("money", [{}, MONEY], ids=["without money", "with money"])
async def test_a_muted_agent_takes_nothing_until_a_person_unmutes_it_in_any_process(
    link: RedisConnection, clock, money
):
    here, state = silence_of(link, clock), SharedState(link, clock)
    await here.stop(Scope.agent("claude"), 60.0)
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **money, **RULES)) == "muted"
    assert await state.limits.take(LimitRequest(agent="grok", channel_id=1, **money, **RULES)) == "ok"
    await silence_of(link, clock).resume(Scope.agent("claude"))
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **money, **RULES)) == "ok", (
        "the cooldown was not taken before"
    )
    assert await state.limits.count("claude", "2027-01-15") == 1


async def test_a_mute_of_a_guild_counts_for_turns_there(link: RedisConnection, clock):
    state = SharedState(link, clock)
    await silence_of(link, clock).stop(Scope.agent("claude", 70), 60.0)
    asked = {
        guild: LimitRequest(agent="claude", channel_id=guild or 1, guild_id=guild, **RULES) for guild in (70, 71, None)
    }
    assert [await state.limits.take(request) for request in asked.values()] == ["muted", "ok", "ok"]


async def test_a_mute_runs_out_by_itself(link: RedisConnection, clock):
    state = SharedState(link, clock)
    await silence_of(link, clock).stop(Scope.agent("claude"), 60.0)
    clock.now += 61
    assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **RULES)) == "ok"


async def test_a_mute_that_is_known_counts_while_redis_is_away_and_ends_with_its_time(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        await silence_of(link, clock).stop(Scope.agent("claude"), 60.0)
        there = silence_of(link, clock)
        await there.read()
        state = SharedState(link, clock, silence=there)
        server.kill()
        with pytest.raises(StateUnavailable):
            await link.call(lambda redis: redis.ping())
        assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **RULES)) == "muted"
        clock.now += 61
        assert await state.limits.take(LimitRequest(agent="claude", channel_id=1, **RULES)) == "ok"
        server.start()
        await asyncio.wait_for(link.present.wait(), 10)


async def test_a_mute_outlives_a_restart_of_redis(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        await silence_of(link, clock).stop(Scope.agent("claude"), 60.0)
    server.restart()
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        assert (
            await SharedState(link, clock).limits.take(LimitRequest(agent="claude", channel_id=1, **RULES)) == "muted"
        )


async def test_a_mute_that_cannot_be_read_mutes_nobody(link: RedisConnection, clock):
    await link.call(lambda redis: redis.hset(keys.SILENCE, "a:claude", '{"until": "soon"}'))
    assert await SharedState(link, clock).limits.take(LimitRequest(agent="claude", channel_id=1, **RULES)) == "ok"
