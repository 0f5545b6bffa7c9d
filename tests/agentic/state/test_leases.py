from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from agentic.state.leases import Lease, steady_clock
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.support.doubles import settle
from tests.support.redis_server import RedisServer, empty_redis, until

KEY = keys.owner("claude")


def lease(link: RedisConnection, holder: str, **options) -> Lease:
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


@pytest.mark.promise(97)
async def test_one_of_two_gets_it(link):
    first, second = lease(link, "first"), lease(link, "second")
    assert await first.acquire()
    assert not await second.acquire()
    assert (first.is_held, second.is_held) == (True, False)
    assert await second.current_holder() == "first"


async def test_a_stand_by_takes_over_when_it_is_released(link):
    first, second = lease(link, "first"), lease(link, "second")
    await first.acquire()
    async with kept(first, second):
        await first.release()
        assert not first.is_held
        await asyncio.wait_for(second.taken.wait(), 10)
        assert await first.current_holder() == "second"
        assert not first.is_held


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
        assert first.is_held


@pytest.mark.promise(104)
async def test_a_holder_that_was_not_renewed_in_time_does_not_believe_it_still_holds(link, clock):
    first = lease(link, "first", clock=clock)
    await first.acquire()
    clock.now += 4.9
    assert first.is_held
    clock.now += 0.2
    assert not first.is_held


async def test_the_loss_of_it_is_told(link):
    first = lease(link, "first")
    await first.acquire()
    await link.call(lambda redis: redis.set(KEY, "usurper", px=5000))
    async with kept(first):
        await asyncio.wait_for(first.lost.wait(), 10)
    assert not first.is_held


async def test_while_redis_is_away_the_last_holder_goes_on_and_the_stand_by_keeps_still(server: RedisServer, clock):
    async with RedisConnection(server.url) as one, RedisConnection(server.url) as two:
        first, second = lease(one, "first", clock=clock), lease(two, "second", clock=clock)
        await first.acquire()
        async with kept(first, second):
            server.kill()
            for _ in range(15):  # a minute, as a process lives through it
                clock.now += 4
                await until(lambda: first._sure_at == clock.now)
            assert (first.is_held, second.is_held) == (True, False)
            server.start()
            await asyncio.wait_for(asyncio.gather(one.present.wait(), two.present.wait()), 10)
            async with asyncio.timeout(10):
                while await two.call(lambda redis: redis.get(KEY)) != "first":
                    pass
            assert (first.is_held, second.is_held) == (True, False)


async def test_a_stand_by_leaves_the_holder_time_to_take_up_what_redis_forgot(link, clock):
    second = lease(link, "second", clock=clock, renew_every=1.0)
    for waited, taken in ((0.0, False), (1.4, False), (1.5, True)):
        clock.now = 1_800_000_000.0 + waited
        await second._stand_by()
        assert second.is_held == taken


class Cut(RedisConnection):
    """`cut` says that Redis cannot be reached."""

    cut = False

    async def call(self, command):
        if self.cut:
            raise StateUnavailable("by the test")
        return await super().call(command)


@pytest.fixture
async def cuttable():
    async with Cut(empty_redis()) as link:
        yield link


@pytest.mark.promise(104)
async def test_a_machine_that_slept_and_wakes_without_redis_does_not_believe_it_still_holds(cuttable, clock):
    first = lease(cuttable, "first", clock=clock)
    await first.acquire()
    cuttable.cut = True
    clock.now += 3600
    async with kept(first):
        await settle()
        assert not first.is_held
        cuttable.cut = False
        await until(lambda: first.is_held)


async def test_one_that_slept_while_redis_was_away_does_not_believe_it_either(cuttable, clock):
    first = lease(cuttable, "first", clock=clock)
    await first.acquire()
    cuttable.cut = True
    clock.now += 3
    async with kept(first):
        await until(lambda: first._sure_at == clock.now)
        clock.now += 3600
        assert not first.is_held
        await settle()
        assert not first.is_held


async def test_a_stand_by_that_lost_sight_of_redis_begins_to_wait_anew(cuttable, clock):
    """Else it would come before the last holder, which may renew first after it lost sight of Redis too."""
    second = lease(cuttable, "second", clock=clock, renew_every=1.0)
    await second._stand_by()
    task = asyncio.create_task(second.run())
    cuttable.cut = True
    await settle()
    clock.now += 60
    cuttable.cut = False
    await second._stand_by()
    assert not second.taken.is_set()
    clock.now += 1.5
    await second._stand_by()
    assert second.taken.is_set()
    task.cancel()
    await asyncio.wait((task,))


# -- epochs -----------------------------------------------------------------------------------------------------------


async def test_each_taking_has_a_higher_epoch_and_renewals_keep_it(link):
    first, second = lease(link, "first"), lease(link, "second")
    await first.acquire()
    assert (first.epoch, await first.acquire(), first.epoch) == (1, True, 1)
    await first.release()
    await second.acquire()
    assert second.epoch == 2
    await second.release()
    await first.acquire()
    assert first.epoch == 3


@pytest.mark.promise(105)
async def test_who_was_paused_learns_that_others_held_it_since_also_when_it_is_free_again(link):
    first, second = lease(link, "first"), lease(link, "second")
    await first.acquire()
    await link.call(lambda redis: redis.delete(KEY))
    await second.acquire()
    await second.release()
    async with kept(first):
        await asyncio.wait_for(first.lost.wait(), 10)
        assert not first.is_held
        await asyncio.wait_for(first.taken.wait(), 10)
    assert first.epoch == 3
    assert not first.lost.is_set(), "what begins now is not over at once"


async def test_a_lease_that_only_ran_out_is_taken_again_in_the_same_epoch(link, clock):
    first = lease(link, "first", clock=clock)
    await first.acquire()
    await link.call(lambda redis: redis.delete(KEY))
    clock.now += 60
    assert not first.is_held
    async with kept(first):
        await until(lambda: first.is_held)
    assert (first.epoch, first.lost.is_set()) == (1, False)


async def test_the_epoch_goes_on_after_redis_was_emptied(link):
    first, second = lease(link, "first"), lease(link, "second")
    await second.acquire()
    await second.release()
    await first.acquire()
    await link.call(lambda redis: redis.flushall())
    await first.acquire()
    await first.release()
    await second.acquire()
    assert (first.epoch, second.epoch) == (2, 3)
    assert 0 < await link.commands.ttl(keys.epoch(KEY)) <= 86400


@pytest.mark.promise(90)
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
        assert first.is_held


async def test_acquiring_while_redis_is_away_says_so(tmp_path):
    async with RedisConnection(f"unix://{tmp_path / 'none'}") as link:
        with pytest.raises(StateUnavailable):
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
    assert first.is_held


@pytest.mark.promise(104)
def test_the_steady_clock_goes_on():
    assert steady_clock() <= steady_clock()
