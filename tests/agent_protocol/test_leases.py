from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink
from agent_protocol.leases import Lease, steady_clock
from tests.redis_server import RedisServer, until

KEY = keys.owner("claude")


def lease(link: RedisLink, holder: str, **options) -> Lease:
    return Lease(link, KEY, holder=holder, **{"ttl": 5.0, "renew_every": 0.02, **options})


@asynccontextmanager
async def kept(*leases: Lease):
    tasks = [asyncio.create_task(one.run()) for one in leases]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_one_of_two_gets_it(link):
    first, second = lease(link, "first"), lease(link, "second")
    assert await first.acquire()
    assert not await second.acquire()
    assert (first.held, second.held) == (True, False)
    assert await second.current_holder() == "first"


async def test_a_stand_by_takes_over_when_it_is_released(link):
    first, second = lease(link, "first"), lease(link, "second")
    await first.acquire()
    async with kept(first, second):
        await first.release()
        assert not first.held
        await asyncio.wait_for(second.taken.wait(), 10)
        assert await first.current_holder() == "second"
        assert not first.held


async def test_a_dead_holders_lease_runs_out_and_is_waited_for(link):
    dead, heir = lease(link, "dead", ttl=0.1), lease(link, "heir")
    assert await dead.acquire()
    assert not await heir.acquire()
    assert await heir.acquire(wait=5)


async def test_a_holder_that_runs_keeps_it_past_the_ttl(link):
    first, second = lease(link, "first", ttl=0.2), lease(link, "second")
    await first.acquire()
    async with kept(first):
        assert not await second.acquire(wait=0.5)
        assert first.held


async def test_a_holder_that_was_not_renewed_in_time_does_not_believe_it_still_holds(link, clock):
    first = lease(link, "first", clock=clock)
    await first.acquire()
    clock.now += 4.9
    assert first.held
    clock.now += 0.2
    assert not first.held


async def test_the_loss_of_it_is_told(link):
    first = lease(link, "first")
    await first.acquire()
    await link.call(lambda redis: redis.set(KEY, "usurper", px=5000))
    async with kept(first):
        await asyncio.wait_for(first.lost.wait(), 10)
    assert not first.held


async def test_while_redis_is_away_the_last_holder_goes_on_and_the_stand_by_keeps_still(server: RedisServer, clock):
    async with RedisLink(server.url) as one, RedisLink(server.url) as two:
        first, second = lease(one, "first", clock=clock), lease(two, "second", clock=clock)
        await first.acquire()
        async with kept(first, second):
            server.kill()
            await until(lambda: first._away and second._away)
            clock.now += 60
            assert (first.held, second.held) == (True, False)
            server.start()
            await asyncio.wait_for(asyncio.gather(one.present.wait(), two.present.wait()), 10)
            await until(lambda: not first._away and not second._away)
            assert (first.held, second.held) == (True, False)
            assert await first.current_holder() == "first"


async def test_after_redis_was_emptied_the_last_holder_comes_first(link):
    first, second = lease(link, "first"), lease(link, "second", renew_every=0.2)
    await first.acquire()
    async with kept(first, second):
        await link.call(lambda redis: redis.flushall())
        holders = [await first.current_holder()]
        async with asyncio.timeout(10):
            while holders[-1] is None:
                await asyncio.sleep(0)
                holders.append(await first.current_holder())
        assert holders[-1] == "first"
        assert first.held


async def test_acquiring_while_redis_is_away_says_so(tmp_path):
    async with RedisLink(f"unix://{tmp_path / 'none'}") as link:
        with pytest.raises(RedisAway):
            await lease(link, "first").acquire()


async def test_releasing_does_not_take_it_from_another(link):
    first, second = lease(link, "first"), lease(link, "second")
    await first.acquire()
    await link.call(lambda redis: redis.delete(KEY))
    await second.acquire()
    await first.release()
    assert await second.current_holder() == "second"


async def test_it_can_be_taken_again_after_a_release(link):
    first = lease(link, "first")
    await first.acquire()
    await first.release()
    assert await first.acquire()
    assert first.held


def test_the_steady_clock_goes_on():
    assert steady_clock() <= steady_clock()
