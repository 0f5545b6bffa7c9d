"""Mutes: they hold for every process, end by themselves, and are looked at where the limits are."""

from __future__ import annotations

import asyncio

import pytest

from agentic.state.budgets import BudgetRequest
from agentic.state.limits import TurnRequest
from agentic.state.shared_state import Ledger
from agentic.state.silence import MAX_MUTE_SECONDS, Mutes
from agentic.wire import keys
from agentic.wire.connection import RedisAway, RedisLink
from tests.support.redis_server import PATIENT, RedisServer

RULES = {"cooldown": 30.0, "daily_max": 3, "date": "2027-01-15"}
WISH = BudgetRequest(kind="mention", turn_id="m1", estimate=0.01, until=1_800_000_100.0, person_id=5, message_id=1)


@pytest.mark.parametrize("wish", [None, WISH], ids=["without money", "with money"])
async def test_a_muted_agent_takes_nothing_until_it_is_lifted_in_any_process(link: RedisLink, clock, wish):
    here, there = Ledger(link, clock), Ledger(link, clock)
    await here.mutes.mute("claude", 60.0)
    assert await there.limits.take(TurnRequest(agent="claude", channel_id=1, budget=wish, **RULES)) == "muted"
    assert await there.limits.take(TurnRequest(agent="grok", channel_id=1, budget=wish, **RULES)) == "ok"
    assert await there.mutes.lift("claude")
    assert not await there.mutes.lift("claude"), "it is lifted already"
    assert await here.limits.take(TurnRequest(agent="claude", channel_id=1, budget=wish, **RULES)) == "ok", (
        "the cooldown was not taken before"
    )
    assert await here.limits.count("claude", "2027-01-15") == 1


async def test_a_mute_runs_out_by_itself_and_is_no_longer_than_a_week(link: RedisLink, clock):
    mutes = Mutes(link, clock)
    await mutes.mute("claude", 60.0)
    assert 59_000 < await link.commands.pttl(keys.muted("claude")) <= 60_000
    assert await mutes.mute("claude", 1e9) == clock() + MAX_MUTE_SECONDS


async def test_everyone_who_reads_learns_who_is_muted_and_until_when(link: RedisLink, clock):
    here, there = Mutes(link, clock), Mutes(link, clock)
    until = await here.mute("grok", 60.0)
    assert await there.read(["claude", "grok"]) == {"grok": until}
    assert (there.holds("grok"), there.holds("claude")) == (True, False)
    await here.lift("grok")
    assert await there.read(["claude", "grok"]) == {}
    assert not there.holds("grok")
    assert await there.read([]) == {}


async def test_a_mute_that_was_seen_holds_while_redis_is_away_and_ends_with_its_time(server: RedisServer, clock):
    async with RedisLink(server.url, command_timeout=PATIENT) as link:
        here, there = Ledger(link, clock), Ledger(link, clock)
        await here.mutes.mute("claude", 60.0)
        await there.limits.take(TurnRequest(agent="claude", channel_id=1, **RULES))
        server.kill()
        with pytest.raises(RedisAway):
            await link.call(lambda redis: redis.ping())
        for ledger in (here, there):
            assert await ledger.limits.take(TurnRequest(agent="claude", channel_id=1, **RULES)) == "muted"
        clock.now += 61
        assert await here.limits.take(TurnRequest(agent="claude", channel_id=1, **RULES)) == "ok"
        with pytest.raises(RedisAway):
            await here.mutes.mute("claude", 60.0)
        server.start()
        await asyncio.wait_for(link.present.wait(), 10)


async def test_a_mute_outlives_a_restart_of_redis(server: RedisServer, clock):
    async with RedisLink(server.url, command_timeout=PATIENT) as link:
        await Mutes(link, clock).mute("claude", 60.0)
    server.restart()
    async with RedisLink(server.url, command_timeout=PATIENT) as link:
        assert await Ledger(link, clock).limits.take(TurnRequest(agent="claude", channel_id=1, **RULES)) == "muted"


@pytest.mark.promise(90)
async def test_a_mute_outlives_a_redis_that_was_emptied_where_a_process_has_seen_it(link: RedisLink, clock):
    here, there, later = Ledger(link, clock), Ledger(link, clock), Ledger(link, clock)
    until = await here.mutes.mute("claude", 60.0)
    await there.mutes.read(["claude"])
    await link.call(lambda redis: redis.flushall())
    await there.limits.take(
        TurnRequest(agent="claude", channel_id=1, **RULES)
    )  # what it saw before is not forgotten by it
    looking = asyncio.create_task(there.mutes.run(["claude", "grok"], every=0.01))
    async with asyncio.timeout(10):
        asked = TurnRequest(agent="claude", channel_id=2, **RULES)
        while await later.limits.take(asked) != "muted":  # noqa: ASYNC110
            await asyncio.sleep(0)
    assert await later.mutes.read(["claude", "grok"]) == {"claude": until}
    assert 59_000 < await link.commands.pttl(keys.muted("claude")) <= 60_000
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


async def test_a_mute_that_was_lifted_is_not_written_again_by_who_did_not_hear_of_it(link: RedisLink, clock):
    here, there = Mutes(link, clock), Mutes(link, clock)
    await here.mute("claude", 60.0)
    await there.read(["claude"])
    assert await here.lift("claude")
    assert await there.read(["claude"]) == {}
    assert await Ledger(link, clock).limits.take(TurnRequest(agent="claude", channel_id=1, **RULES)) == "ok"


async def test_a_mute_that_cannot_be_read_mutes_nobody_and_is_named(link: RedisLink, clock, caplog):
    await link.call(lambda redis: redis.set(keys.muted("claude"), "soon"))
    assert await Mutes(link, clock).read(["claude"]) == {}
    assert "cannot be read" in caplog.text
