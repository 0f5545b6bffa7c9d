"""LastRuns and signed requests over the processes of one Redis."""

from __future__ import annotations

import time

import pytest

from agentic.state.posts import ReplayGuard
from agentic.state.shared_state import SharedState
from agentic.state.turns import Turns
from agentic.state.waiting_turns import MAX_FIELDS, LastRuns
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import RedisServer


@pytest.mark.promise(110)
async def test_of_two_processes_that_find_a_tick_due_one_runs_it(link: RedisConnection) -> None:
    one, other = LastRuns(link), LastRuns(link)
    assert await one.run("claude", "heartbeat:a", 100.0)
    assert await other.load("claude") == {"heartbeat:a": 100.0}
    assert await one.run("claude", "heartbeat:a", 160.0)
    assert not await other.run("claude", "heartbeat:a", 160.5)
    assert other.last("claude", "heartbeat:a") == 160.0, "it learns of the other's run"
    assert await other.run("claude", "heartbeat:a", 220.0)
    assert not await one.run("claude", "heartbeat:a", 220.0), "nor the same moment twice"


def turns_of(link: RedisConnection, holder: str = "") -> Turns:
    return SharedState(link, holder=holder).turns


async def test_a_restart_finds_when_things_ran_last(link: RedisConnection) -> None:
    await LastRuns(link).run("claude", "cron:a", 100.0)
    after = LastRuns(link)
    assert await after.load("claude") == {"cron:a": 100.0}
    assert (after.last("claude", "cron:a"), after.last("grok", "cron:a")) == (100.0, None)


async def test_a_time_of_a_clock_that_was_wrong_does_not_stand_in_the_way(link: RedisConnection) -> None:
    ticks = LastRuns(link)
    await ticks.run("claude", "cron:a", 9e9)
    assert await ticks.run("claude", "cron:a", 100.0)
    assert await LastRuns(link).load("claude") == {"cron:a": 100.0}


async def test_what_cannot_be_read_is_as_if_it_had_never_run(link: RedisConnection) -> None:
    await link.call(lambda redis: redis.hset(keys.ticks("claude"), mapping={"a": "soon", "b": "nan", "c": "5"}))
    assert await LastRuns(link).load("claude") == {"c": 5.0}


@pytest.mark.promise(111)
async def test_a_tick_keeps_its_turn_which_is_new_to_whoever_claims_it(link: RedisConnection) -> None:
    now = time.time()
    turns, later = turns_of(link, "one"), turns_of(link, "two")
    assert await turns.last_runs.run("claude", "cron:a", 100.0, "cron:a:100", "the event")
    assert not await later.last_runs.run("claude", "cron:a", 100.0, "cron:a:100", "another")
    assert await later.open_ids("claude") == ["cron:a:100"]
    assert await later.left("claude", "cron:a:100") == "the event"
    assert (await later.claim("claude", "cron:a:100", now + 90, "as it began")).state == "new"
    assert await turns.left("claude", "cron:a:100") == "as it began"
    assert (await turns.claim("claude", "cron:a:100", now + 90)).state == "left", "it was begun"
    assert await link.call(lambda redis: redis.pttl(keys.turn("claude", "cron:a:100"))) < 2_000_000


async def test_a_tick_that_another_process_took_keeps_no_turn(link: RedisConnection) -> None:
    await LastRuns(link).run("claude", "cron:a", 100.0)
    assert not await LastRuns(link).run("claude", "cron:a", 160.0, "cron:a:160", "the event")
    assert await turns_of(link).open_ids("claude") == []


async def test_what_was_begun_is_not_kept_as_if_it_waited(link: RedisConnection) -> None:
    turns, later = turns_of(link, "one"), turns_of(link, "two")
    await turns.claim("claude", "m1", time.time() + 90, "as it began")
    await turns.keep("claude", "m1", "as it waited", 600)
    assert await later.left("claude", "m1") == "as it began"
    assert (await later.claim("claude", "m1", time.time() + 90)).state == "left"


async def test_what_waits_has_an_end(link: RedisConnection) -> None:
    turns = turns_of(link)
    await turns.keep("claude", "m1", "as it waited", 600)
    for key in (keys.turn("claude", "m1"), keys.open_turns("claude")):
        assert await link.call(lambda redis, key=key: redis.pttl(key)) > 0
    assert await link.call(lambda redis: redis.pttl(keys.turn("claude", "m1"))) <= 600_000


async def test_the_times_have_an_end(link: RedisConnection) -> None:
    await LastRuns(link).run("claude", "a", 1.0)
    assert await link.call(lambda redis: redis.ttl(keys.ticks("claude"))) > 0


async def test_fields_that_nobody_knows_go_when_there_are_too_many(link: RedisConnection) -> None:
    many = {f"heartbeat:{n}": "1.0" for n in range(MAX_FIELDS + 1)}
    await link.call(lambda redis: redis.hset(keys.ticks("claude"), mapping=dict(many)))
    ticks = LastRuns(link)
    await ticks.load("claude")
    await ticks.prune("claude", {"heartbeat:3"})
    assert await ticks.load("claude") == {"heartbeat:3": 1.0}


async def test_while_redis_is_away_the_holder_goes_on_and_nothing_is_repeated_after_it(server: RedisServer) -> None:
    async with RedisConnection(server.url, probe_every=0.001) as link:
        ticks = LastRuns(link)
        await ticks.run("claude", "a", 100.0)
        server.kill()
        assert await ticks.run("claude", "a", 160.0)
        assert await ticks.run("claude", "a", 220.0)
        assert ticks.last("claude", "a") == 220.0
        server.start()
        await link.present.wait()
        assert await ticks.run("claude", "a", 280.0)
        assert await LastRuns(link).load("claude") == {"a": 280.0}


@pytest.mark.promise(36)
async def test_a_signed_request_is_taken_once_by_whichever_process(link: RedisConnection) -> None:
    one, other = ReplayGuard(link), ReplayGuard(link)
    assert await one.first("d1", 600)
    assert not await one.first("d1", 600)
    assert not await other.first("d1", 600)
    assert await other.first("d2", 600)
    assert await link.call(lambda redis: redis.pttl(keys.event("d1"))) > 500_000


async def test_a_request_that_was_not_taken_after_all_may_come_again(link: RedisConnection) -> None:
    replays = ReplayGuard(link)
    await replays.first("d1", 600)
    await replays.forget("d1")
    assert await ReplayGuard(link).first("d1", 600)
