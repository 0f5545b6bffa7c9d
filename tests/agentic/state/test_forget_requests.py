"""Orders to forget a person: durable, in an order of time that only grows, bounded, and told to every process."""

from __future__ import annotations

import asyncio

import pytest

from agentic.state import forget_requests as module
from agentic.state.forget_requests import ForgetRequests
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.agentic.conftest import running
from tests.support.redis_server import PATIENT, RedisServer, until

ANN, BOB, CY = 11, 12, 13
MONTH_MS = 30 * 86_400_000


def people(orders: list[tuple[int, int]]) -> list[int]:
    return [user_id for _, user_id in orders]


async def test_orders_come_one_after_the_other_and_a_second_one_of_a_person_is_a_new_one(link: RedisConnection):
    forgets = ForgetRequests(link)
    for person in (ANN, BOB, CY):
        await forgets.order(person)
    first = await forgets.after(0)
    assert people(first) == [ANN, BOB, CY]
    times = [at for at, _ in first]
    assert times == sorted(set(times))
    assert await forgets.after(times[-1]) == []
    await forgets.order(ANN)
    assert people(await forgets.after(times[-1])) == [ANN]
    assert people(await forgets.after(0)) == [BOB, CY, ANN]
    assert MONTH_MS - 60_000 < await link.commands.pttl(keys.COORDINATOR_FORGOTTEN) <= MONTH_MS


async def test_an_order_is_passed_by_by_no_clock_that_goes_back(link: RedisConnection):
    future = 4_000_000_000_000
    await link.commands.zadd(keys.COORDINATOR_FORGOTTEN, {str(ANN): future})
    forgets = ForgetRequests(link)
    await forgets.order(BOB)
    assert await forgets.after(future) == [(future + 1, BOB)]


async def test_a_new_redis_whose_clock_is_behind_loses_no_order(link: RedisConnection):
    here, last = ForgetRequests(link), 4_000_000_000_000
    await link.commands.zadd(keys.COORDINATOR_FORGOTTEN, {str(ANN): 5})
    assert await here.after(last) == [(5, ANN)]
    assert await here.order(BOB, after=last) == last + 1
    assert people(await here.after(last)) == [BOB]


async def test_the_orders_are_bounded_by_number_and_age(link: RedisConnection, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_REQUESTS", 2)
    forgets = ForgetRequests(link)
    await link.commands.zadd(keys.COORDINATOR_FORGOTTEN, {str(ANN): 1})
    await forgets.order(BOB)
    assert people(await forgets.after(0)) == [BOB], "a month is over"
    await forgets.order(ANN)
    await forgets.order(CY)
    assert people(await forgets.after(0)) == [ANN, CY]


async def test_what_is_no_persons_id_is_nobody(link: RedisConnection):
    await link.commands.zadd(keys.COORDINATOR_FORGOTTEN, {"0": 1, "-7": 2, "nonsense": 3, "9" * 30: 4, "²": 5, "7": 6})
    assert await ForgetRequests(link).after(0) == [(6, 7)]


async def test_every_process_hears_of_it_and_who_was_away_when_it_is_back(server: RedisServer):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        bus = Bus(link)
        here = ForgetRequests(link)
        here.start(bus)
        async with running(bus):
            await until(here.news.is_set)
            here.news.clear()
            await ForgetRequests(link).tell()
            await until(here.news.is_set)
            server.kill()
            with pytest.raises(StateUnavailable):
                await here.order(ANN)
            here.news.clear()
            server.start()
            await asyncio.wait_for(link.present.wait(), 10)
            await until(here.news.is_set)
