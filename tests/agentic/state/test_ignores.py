"""Whom no bot hears: known to every process, bounded, and read again after Redis was away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentic.state import silence as module
from agentic.state.silence import Ignores
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisAway, RedisLink
from tests.agentic.conftest import running
from tests.support.redis_server import PATIENT, RedisServer, until

ANN, BOB = 11, 12


@asynccontextmanager
async def a_process(link: RedisLink) -> AsyncIterator[Ignores]:
    bus = Bus(link)
    ignores = Ignores(link, bus, check_every=0.01)
    ignores.start()
    async with running(bus):
        catching_up = asyncio.create_task(ignores.run())
        try:
            yield ignores
        finally:
            catching_up.cancel()
            await asyncio.gather(catching_up, return_exceptions=True)


async def test_every_process_hears_of_it_at_once(link: RedisLink):
    async with a_process(link) as here, a_process(link) as there:
        assert await here.add(ANN) == "added"
        assert ANN in here
        await until(lambda: ANN in there)
        assert await there.add(ANN) == "known"
        assert await there.remove(ANN)
        await until(lambda: ANN not in here)
        assert not await here.remove(ANN)
        assert list(here) == []
        assert len(there) == 0


async def test_the_set_is_bounded(link: RedisLink, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_IGNORED", 1)
    async with a_process(link) as here:
        assert await here.add(ANN) == "added"
        assert await here.add(BOB) == "full"
        assert (ANN in here, BOB in here) == (True, False)
        assert await here.add(ANN) == "known"


async def test_it_is_read_at_the_start_and_what_is_no_id_is_nobody(link: RedisLink):
    await link.commands.sadd(keys.COORDINATOR_IGNORED, str(ANN), "nonsense")
    ignores = Ignores(link, Bus(link))
    await ignores.read()
    assert set(ignores) == {ANN}


async def test_what_was_missed_while_redis_was_away_is_read_when_it_is_back(server: RedisServer):
    async with RedisLink(server.url, command_timeout=PATIENT) as link, a_process(link) as here:
        await here.add(ANN)
        server.kill()
        with pytest.raises(RedisAway):
            await here.add(BOB)
        assert set(here) == {ANN}, "who was ignored still is"
        server.start()
        await asyncio.wait_for(link.present.wait(), 10)
        await link.call(lambda redis: redis.sadd(keys.COORDINATOR_IGNORED, str(BOB)))
        await link.call(lambda redis: redis.client_kill_filter(_type="pubsub"))
        await until(lambda: set(here) == {ANN, BOB})


@pytest.mark.promise(90)
async def test_whom_a_living_process_knows_outlives_a_redis_that_was_emptied(link: RedisLink):
    async with a_process(link) as here:
        await here.add(ANN)
        await here.add(BOB)
        await here.remove(BOB)
        await link.call(lambda redis: redis.flushall())
        async with asyncio.timeout(10):
            while not await link.call(lambda redis: redis.sismember(keys.COORDINATOR_IGNORED, str(ANN))):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert list(here) == [ANN]
    async with a_process(link) as later:
        await later.read()
        assert list(later) == [ANN]


async def test_who_was_heard_again_meanwhile_is_not_ignored_anew(link: RedisLink):
    async with a_process(link) as here:
        await here.add(ANN)
        await link.call(lambda redis: redis.srem(keys.COORDINATOR_IGNORED, str(ANN)))  # and its notice was lost
        await here.read()
        assert list(here) == []
