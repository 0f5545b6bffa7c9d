"""What an outage means for a store's methods: something else is returned, or they write later, or callers wait."""

from __future__ import annotations

import logging

import pytest

from agentic.state.limits import LimitRequest
from agentic.state.schedule import ScheduleStore
from agentic.state.shared_state import SharedState
from agentic.wire import connection, keys
from agentic.wire.connection import RedisConnection, StateUnavailable, Store, or_default, wait_for_redis, when_back
from tests.support.redis_server import PATIENT, RedisServer, until

LIST = "list"


class Names(Store):
    """A list of names."""

    @or_default((), "names are not known")
    async def read(self) -> list[str]:
        return [str(name) for name in await self._link.call(lambda redis: redis.lrange(LIST, 0, -1))]

    @or_default(0, "names are not known")
    async def count(self) -> int:
        return int(await self._link.call(lambda redis: redis.llen(LIST)))

    @when_back("names", limit=3)
    async def add(self, name: str) -> None:
        await self._link.call(lambda redis: redis.rpush(LIST, name))

    @when_back("the end of names")
    async def end(self, name: str) -> None:
        await self._link.call(lambda redis: redis.rpush(LIST, f"end of {name}"))

    @when_back("names of another type")
    async def spoil(self) -> None:
        await self._link.call(lambda redis: redis.sadd(LIST, "no list"))


async def go_away(link: RedisConnection, server: RedisServer) -> None:
    server.kill()
    with pytest.raises(StateUnavailable):
        await link.call(lambda redis: redis.ping())


async def come_back(link: RedisConnection, server: RedisServer) -> None:
    server.start()
    await until(lambda: not link.away and not link.has_queued)


@pytest.fixture
def names(link: RedisConnection) -> Names:
    return Names(link)


@pytest.mark.promise(573)
async def test_writes_of_an_outage_are_done_in_their_order_when_redis_is_back(link, server, names):
    await names.add("before")
    await go_away(link, server)
    await names.add("a")
    await names.end("a")
    await names.add("b")
    assert await names.read() == ()
    await come_back(link, server)
    assert await names.read() == ["before", "a", "end of a", "b"]
    await names.add("after")
    assert await names.read() == ["before", "a", "end of a", "b", "after"]


async def test_a_write_does_not_overtake_those_that_wait(link, names):
    link.present.clear()
    await names.add("a")
    link.present.set()  # without a probe, so nothing has written yet
    await names.add("b")
    assert await names.read() == ["a", "b"]


async def test_writes_of_another_store_of_the_connection_keep_their_place(link, names):
    link.present.clear()
    await names.add("a")
    await Names(link).add("b")
    await names.end("a")
    link.present.set()
    assert await link.write_queued()
    assert await names.read() == ["a", "b", "end of a"]


async def test_the_oldest_writes_of_a_method_are_lost_in_a_long_outage(link, names, caplog):
    link.present.clear()
    await names.end("first")
    for name in "abcde":
        await names.add(name)
    link.present.set()
    await link.write_queued()
    assert await names.read() == ["end of first", "c", "d", "e"]
    lost = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lost) == 1


async def test_a_write_that_cannot_be_done_holds_up_no_other(link, names, caplog):
    await names.add("a")
    link.present.clear()
    await names.spoil()
    await names.end("a")
    link.present.set()
    assert await link.write_queued()
    assert await names.read() == ["a", "end of a"]
    assert "names of another type" in caplog.text


@pytest.mark.promise(573)
async def test_what_waits_is_written_at_the_end_of_the_process(server: RedisServer, monkeypatch):
    monkeypatch.setattr(connection, "LAST_WAIT", 30.0)
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        await go_away(link, server)
        await Names(link).add("a")
        server.start()
    async with RedisConnection(server.url, command_timeout=PATIENT) as later:
        assert await Names(later).read() == ["a"]


async def test_what_is_lost_at_the_end_of_the_process_is_logged(server: RedisServer, monkeypatch, caplog):
    monkeypatch.setattr(connection, "LAST_WAIT", 0.01)
    async with RedisConnection(server.url) as link:
        await go_away(link, server)
        await Names(link).add("a")
    assert "lost with this process" in caplog.text


@pytest.mark.promise(79, 573)
async def test_what_waits_is_written_before_the_next_turn_begins(link, clock):
    state = SharedState(link, clock, holder="here")
    link.present.clear()
    await state.turns.close("claude", {"joined": '{"text": ""}'})
    link.present.set()
    request = LimitRequest(agent="claude", channel_id=1, cooldown=0.0, daily_max=3, date="2027-01-15")
    claim, _ = await state.turns.begin("claude", "joined", clock() + 90, "event", request)
    assert claim.state == "done"


async def test_a_write_that_waited_is_refused_once_another_coordinator_leads(link):
    schedule = ScheduleStore(link)
    await schedule.hold_channel(5, "talk", 60, epoch=1)
    link.present.clear()
    await schedule.release_channel(5, "talk", epoch=1)
    link.present.set()
    await link.commands.set(keys.epoch(keys.COORDINATOR_OWNER), "2")
    assert await schedule.hold_channel(5, "talk", 60, epoch=2) is False  # until the first hold has expired
    await link.commands.delete(keys.conversation(5))
    assert await schedule.hold_channel(5, "talk", 60, epoch=2)
    await link.write_queued()
    assert not await schedule.hold_channel(5, "another", 60, epoch=2)


async def test_an_outage_is_logged_once_for_all_methods_that_mean_the_same(link, server, names, caplog):
    caplog.set_level(logging.INFO)
    for outages in (1, 2):
        await go_away(link, server)
        for _ in range(3):
            assert (await names.read(), await names.count()) == ((), 0)
            await names.add("a")
        said = [record.getMessage() for record in caplog.records if record.name == "agentic.wire.connection"]
        assert [sum(text.startswith(what) for text in said) for what in ("names are not known", "names:")] == [
            outages
        ] * 2
        await come_back(link, server)


async def test_a_call_waits_until_redis_answers(link, server, names):
    await go_away(link, server)
    pauses = []

    async def start(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            await come_back(link, server)

    assert await wait_for_redis(lambda: link.call(lambda redis: redis.llen(LIST)), start) == 0
    assert pauses == [connection.REDIS_RETRY_SECONDS] * 2


async def test_a_call_that_waited_for_too_long_raises(link, server):
    await go_away(link, server)
    with pytest.raises(StateUnavailable):
        await wait_for_redis(lambda: link.call(lambda redis: redis.ping()), every=0.0, seconds=0.0)
