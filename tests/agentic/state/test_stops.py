"""Stops and kept conversations, on both kinds of Redis; Redis going away needs the real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentic.state.conversations import ConversationStore
from agentic.state.leases import Lease
from agentic.state.schedule import ScheduleStore
from agentic.state.silence import EVERYWHERE, MAX_STOP_SECONDS, Stops
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisAway, RedisLink
from agentic.wire.messages import StopNotice
from tests.agentic.conftest import Clock, running
from tests.support.redis_server import PATIENT, until

CHANNEL, OTHER = 7, 8


class Process:
    """One process's stops."""

    def __init__(self, link: RedisLink, clock: Clock) -> None:
        self.bus = Bus(link)
        self.stops = Stops(link, self.bus, clock, check_every=0.01)
        self.heard: list[int] = []
        self.stops.on_stop(self.heard.append)
        self.stops.start()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(self.bus):
            catching_up = asyncio.create_task(self.stops.run())
            try:
                yield
            finally:
                catching_up.cancel()
                await asyncio.gather(catching_up, return_exceptions=True)


async def test_a_stop_holds_in_its_channel_until_it_is_lifted(link: RedisLink, clock: Clock):
    here = Process(link, clock)
    assert await here.stops.stop(CHANNEL, "m1")
    assert (here.stops.holds(CHANNEL), here.stops.holds(OTHER)) == (True, False)
    assert await here.stops.lift(CHANNEL)
    assert not here.stops.holds(CHANNEL)
    assert not await here.stops.lift(CHANNEL), "it was lifted already"


async def test_a_stop_ends_with_its_time(link: RedisLink, clock: Clock):
    here = Process(link, clock)
    await here.stops.stop(CHANNEL, "m1", 60.0)
    assert 59_000 < await link.commands.pttl(keys.stop(CHANNEL)) <= 60_000
    clock.now += 61
    assert not here.stops.holds(CHANNEL)


@pytest.mark.parametrize("seconds", [None, 10 * MAX_STOP_SECONDS, 0.0])
async def test_a_stop_lasts_a_day_at_most(link: RedisLink, clock: Clock, seconds: float | None):
    await Process(link, clock).stops.stop(CHANNEL, "m1", seconds)
    assert 0 < await link.commands.pttl(keys.stop(CHANNEL)) <= MAX_STOP_SECONDS * 1000


@pytest.mark.promise(107)
async def test_a_stop_survives_a_restart(link: RedisLink, clock: Clock):
    await Process(link, clock).stops.stop(CHANNEL, "m1")
    later = Process(link, clock)
    assert not later.stops.holds(CHANNEL)
    await later.stops.read()
    assert later.stops.holds(CHANNEL)


async def test_every_process_hears_of_a_stop_and_of_its_end_at_once(address, clock: Clock):
    async with RedisLink(address) as one, RedisLink(address) as two:
        here, there = Process(one, clock), Process(two, clock)
        async with there.running():
            await here.stops.stop(CHANNEL, "m1", 60.0)
            await until(lambda: there.stops.holds(CHANNEL))
            await until(lambda: there.heard)
            assert there.heard == [CHANNEL]
            await here.stops.lift(CHANNEL)
            await until(lambda: not there.stops.holds(CHANNEL))


async def test_of_several_bots_that_hear_the_same_message_one_is_the_first(address, clock: Clock):
    async with RedisLink(address) as one, RedisLink(address) as two:
        here, there = Process(one, clock), Process(two, clock)
        orders = [here.stops.stop(CHANNEL, "m1"), here.stops.stop(CHANNEL, "m1"), there.stops.stop(CHANNEL, "m1")]
        assert sorted(await asyncio.gather(*orders)) == [False, False, True]
        assert await there.stops.stop(CHANNEL, "m2"), "another message"


async def test_a_bot_that_only_heard_of_it_takes_the_first_place_from_nobody(link: RedisLink, clock: Clock):
    here = Process(link, clock)
    there = Process(link, clock)
    assert await here.stops.stop(CHANNEL, "")
    assert await here.stops.stop(CHANNEL, "m1", 60.0)
    assert not await there.stops.stop(CHANNEL, "")
    assert await link.commands.pttl(keys.stop(CHANNEL)) <= 60_000
    assert not await there.stops.stop(CHANNEL, "m1")


async def test_of_those_who_only_heard_and_those_who_are_meant_the_meant_one_is_first_however_they_meet(
    link: RedisLink, clock: Clock
):
    here = Process(link, clock)
    orders = [here.stops.stop(CHANNEL, source) for source in ("", "m1", "", "m1")]
    assert (await asyncio.gather(*orders))[1] is True
    assert (await link.commands.get(keys.stop(CHANNEL))).startswith("m1 ")


async def test_what_changes_while_the_stops_are_read_is_newer_than_what_is_read(link: RedisLink, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    await here.stops.stop(OTHER, "m1")
    read_all = here.stops._read_orders

    async def read_slowly(known):
        found = await read_all(known)
        await here.stops.lift(OTHER)
        await here.stops._on_notice(StopNotice(channel_id=CHANNEL, until=clock.now + 60).to_wire())
        return found

    here.stops._read_orders = read_slowly
    await here.stops.read()
    assert (here.stops.holds(CHANNEL), here.stops.holds(OTHER)) == (True, False)
    await there.stops.read()
    assert not there.stops.holds(OTHER)


async def test_what_does_not_end_in_order_keeps_nobody_from_ending(link: RedisLink, clock: Clock, caplog):
    here = Process(link, clock)

    def fails(_: int) -> None:
        raise RuntimeError("by the test")

    here.stops.on_stop(fails)
    here.stops.on_stop(here.heard.append)
    assert await here.stops.stop(CHANNEL, "m1")
    assert here.heard == [CHANNEL, CHANNEL]
    assert "a callback failed" in caplog.text


async def test_nonsense_on_the_wire_and_under_a_key_stops_nothing(link: RedisLink, clock: Clock, caplog):
    here = Process(link, clock)
    await link.commands.set("coordinator:stop:lounge", "m1 1e12")
    await link.commands.set(keys.stop(OTHER), "m1 soon")
    async with here.running():
        for raw in ("stop!", '{"until": 1}', '{"channel_id": 7, "until": "soon"}'):
            await link.commands.publish(keys.COORDINATOR_STOPS, raw)
        await here.stops.read()
        await until(lambda: caplog.text.count("stop notice dropped") == 3)
    assert not here.stops.holds(CHANNEL)
    assert not here.stops.holds(OTHER)


async def test_a_notice_cannot_stop_a_channel_for_ever(link: RedisLink, clock: Clock):
    here = Process(link, clock)
    async with running(here.bus):
        await link.commands.publish(keys.COORDINATOR_STOPS, '{"channel_id": 7, "until": 9e15}')
        await until(lambda: here.stops.holds(CHANNEL))
    clock.now += MAX_STOP_SECONDS + 1
    assert not here.stops.holds(CHANNEL)


@pytest.mark.promise(107)
async def test_a_stop_counts_while_redis_is_away_and_is_written_when_it_is_back(server, clock: Clock):
    async with RedisLink(server.url) as link:
        here = Process(link, clock)
        async with here.running():
            server.kill()
            assert await here.stops.stop(CHANNEL, "m1")
            assert here.stops.holds(CHANNEL)
            server.start()
            async with RedisLink(server.url) as other:
                there = Process(other, clock)
                async with there.running():
                    await until(lambda: there.stops.holds(CHANNEL))
            assert here.stops.holds(CHANNEL)


async def test_a_stop_that_was_lifted_while_redis_was_away_does_not_come_back(server, clock: Clock):
    async with RedisLink(server.url) as link:
        here = Process(link, clock)
        async with here.running():
            await here.stops.stop(CHANNEL, "m1")
            server.kill()
            await until(lambda: not here.bus.ready.is_set())
            assert await here.stops.lift(CHANNEL)
            server.start()
            async with RedisLink(server.url) as other:
                async with asyncio.timeout(10):
                    while await other.call(lambda redis: redis.exists(keys.stop(CHANNEL))):
                        pass
            assert not here.stops.holds(CHANNEL)


async def test_a_conversation_is_kept_by_who_holds_its_channel(link: RedisLink):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    assert not await conversations.keep(CHANNEL, "c1", "{}"), "nobody holds the channel"
    await agenda.hold_channel(CHANNEL, "c1", 60.0)
    assert await conversations.keep(CHANNEL, "c1", "one")
    assert not await conversations.keep(CHANNEL, "c2", "two")
    assert await conversations.kept() == ["one"]
    assert 0 < await link.commands.ttl(keys.conversation_state(CHANNEL)) <= 3600


# -- a Redis that forgot -----------------------------------------------------------------------------------------------


@pytest.mark.promise(90)
async def test_a_stop_outlives_a_redis_that_comes_back_empty(server, clock: Clock):
    async with RedisLink(server.url) as link:
        here = Process(link, clock)
        async with here.running():
            await here.stops.stop(CHANNEL, "m1", 60.0)
            server.kill()
            await until(lambda: not here.bus.ready.is_set())
            server.empty()
            server.start()
            async with RedisLink(server.url, command_timeout=PATIENT) as other:
                there = Process(other, clock)
                async with there.running():
                    await until(lambda: there.stops.holds(CHANNEL))
                assert 0 < await other.commands.pttl(keys.stop(CHANNEL)) <= 60_000
            assert here.stops.holds(CHANNEL)


@pytest.mark.promise(90)
async def test_a_stop_outlives_a_redis_that_is_emptied_behind_an_unbroken_connection(link: RedisLink, clock: Clock):
    here, later = Process(link, clock), Process(link, clock)
    async with here.running():
        await here.stops.stop(CHANNEL, "m1", 60.0)
        await link.call(lambda redis: redis.flushall())
        async with asyncio.timeout(10):
            while not await link.call(lambda redis: redis.exists(keys.stop(CHANNEL))):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert here.stops.holds(CHANNEL)
    await later.stops.read()
    assert later.stops.held() == {CHANNEL: clock.now + 60}


async def test_what_another_process_lifted_meanwhile_is_not_written_again(link: RedisLink, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    await here.stops.stop(CHANNEL, "m1")
    await there.stops.read()
    clock.now += 1
    assert await there.stops.lift(CHANNEL)
    await here.stops.read()  # it did not hear of it
    assert not here.stops.holds(CHANNEL)
    assert not await link.call(lambda redis: redis.exists(keys.stop(CHANNEL)))


@pytest.mark.parametrize("late", [False, True])
async def test_a_resume_counts_here_before_redis_hears_of_it_unless_a_newer_order_may_be_known_there(
    link: RedisLink, clock: Clock, late: bool
):
    here = Process(link, clock)
    await here.stops.stop(CHANNEL, "m1")
    clock.now += 1
    write, began, go_on = here.stops._write, asyncio.Event(), asyncio.Event()

    async def write_slowly(channel_id, order, **how):
        began.set()
        await go_on.wait()
        return await write(channel_id, order, **how)

    here.stops._write = write_slowly
    lifting = asyncio.create_task(here.stops.lift(CHANNEL, at=clock.now, late=late))
    await began.wait()
    assert here.stops.holds(CHANNEL) is late
    go_on.set()
    assert await lifting
    assert not here.stops.holds(CHANNEL)


async def test_an_order_that_is_given_while_an_earlier_one_is_being_written_is_the_one_that_stays(
    link: RedisLink, clock: Clock
):
    here, there = Process(link, clock), Process(link, clock)
    write, began, go_on = here.stops._write, asyncio.Event(), asyncio.Event()

    async def write_slowly(channel_id, order, **how):
        if order.until and not began.is_set():
            began.set()
            await go_on.wait()
        return await write(channel_id, order, **how)

    here.stops._write = write_slowly
    stopping = asyncio.create_task(here.stops.stop(CHANNEL, "m1"))
    await began.wait()
    clock.now += 1
    here.stops._write = unreachable  # Redis goes away
    await here.stops.lift(CHANNEL)
    here.stops._write = write
    go_on.set()
    await stopping
    await here.stops.read()
    await there.stops.read()
    assert (here.stops.holds(CHANNEL), there.stops.holds(CHANNEL)) == (False, False)


async def test_an_order_that_one_failed_command_kept_from_redis_is_written_although_the_connection_never_broke(
    link: RedisLink, clock: Clock
):
    here, there = Process(link, clock), Process(link, clock)
    await here.stops.stop(CHANNEL, "m1")
    clock.now += 1
    read, was_read = here.stops.read, asyncio.Event()

    async def read_and_tell() -> None:
        await read()
        was_read.set()

    here.stops.read = read_and_tell
    async with here.running():
        await asyncio.wait_for(was_read.wait(), 10)  # as after each new connection
        write, here.stops._write = here.stops._write, unreachable
        assert await here.stops.lift(CHANNEL)
        here.stops._write = write
        async with asyncio.timeout(10):
            while await link.call(lambda redis: redis.exists(keys.stop(CHANNEL))):  # noqa: ASYNC110
                await asyncio.sleep(0)
    await there.stops.read()
    assert (here.stops.holds(CHANNEL), there.stops.holds(CHANNEL)) == (False, False)


async def unreachable(*_: object, **__: object) -> int:
    raise RedisAway("by the test")


# -- orders that are found late ----------------------------------------------------------------------------------------


async def test_a_stop_that_is_found_late_holds_from_when_it_was_said(link: RedisLink, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    said = clock.now - 40
    assert await here.stops.stop(CHANNEL, "m1", 60.0, at=said, late=True)
    assert not await there.stops.stop(CHANNEL, "m1", 60.0, at=said, late=True), "another process found it first"
    assert (here.stops.held(), there.stops.held()) == ({CHANNEL: said + 60}, {CHANNEL: said + 60})
    assert (here.heard, there.heard) == ([CHANNEL], [CHANNEL])
    assert not await here.stops.stop(OTHER, "m2", 60.0, at=clock.now - 61, late=True)
    assert not here.stops.holds(OTHER), "it has run out"


@pytest.mark.promise(108)
@pytest.mark.parametrize("same_process", [True, False])
async def test_a_stop_that_is_found_late_does_not_undo_a_resume_that_was_said_after_it(
    link: RedisLink, clock: Clock, same_process: bool
):
    here = Process(link, clock)
    there = here if same_process else Process(link, clock)
    said = clock.now
    clock.now += 5
    await here.stops.lift(CHANNEL)
    clock.now += 5
    assert not await there.stops.stop(CHANNEL, "m1", at=said, late=True)
    assert not there.stops.holds(CHANNEL)
    assert there.heard == []


async def test_while_redis_is_away_too_a_stop_that_is_found_late_does_not_undo_a_later_resume(
    link: RedisLink, clock: Clock
):
    here = Process(link, clock)
    here.stops._write = unreachable
    said = clock.now
    clock.now += 5
    await here.stops.lift(CHANNEL)
    assert not await here.stops.stop(CHANNEL, "m1", at=said, late=True)
    assert not here.stops.holds(CHANNEL)
    assert here.heard == []


@pytest.mark.parametrize("same_process", [True, False])
async def test_a_resume_that_is_found_late_lifts_what_was_said_before_it_and_nothing_later(
    link: RedisLink, clock: Clock, same_process: bool
):
    here = Process(link, clock)
    there = here if same_process else Process(link, clock)
    await here.stops.stop(CHANNEL, "m1")
    await here.stops.stop(OTHER, "m1", at=clock.now + 20)
    said = clock.now + 10
    clock.now += 30
    assert await there.stops.lift(CHANNEL, at=said, late=True)
    assert not await there.stops.lift(OTHER, at=said, late=True)
    assert (there.stops.holds(CHANNEL), there.stops.holds(OTHER)) == (False, True)


async def test_a_short_stop_that_has_run_out_took_the_place_of_a_longer_one_before_it(link: RedisLink, clock: Clock):
    here = Process(link, clock)
    await here.stops.stop(CHANNEL, "m1", at=clock.now - 600, late=True)
    await here.stops.stop(CHANNEL, "m2", 60.0, at=clock.now - 300, late=True)
    assert not here.stops.holds(CHANNEL)


async def test_what_is_heard_as_it_is_said_counts_whatever_the_clocks_say(link: RedisLink, clock: Clock):
    """Discord's clock and this machine's are not the same."""
    here = Process(link, clock)
    await here.stops.stop(CHANNEL, "sign")
    await here.stops.lift(CHANNEL, at=clock.now - 60)
    assert not here.stops.holds(CHANNEL)
    assert await here.stops.stop(CHANNEL, "m2", at=clock.now - 90)
    assert here.stops.holds(CHANNEL)


async def leads(link: RedisLink, holder: str) -> int:
    """Somebody takes the coordinator's lease, whose last holder is paused; its epoch."""
    await link.call(lambda redis: redis.delete(keys.COORDINATOR_OWNER))
    lease = Lease(link, keys.COORDINATOR_OWNER, holder=holder)
    assert await lease.acquire()
    return lease.epoch


@pytest.mark.promise(105)
async def test_a_leader_that_was_paused_can_neither_renew_nor_keep_nor_end_what_its_successor_goes_on_with(
    link: RedisLink,
):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    old = await leads(link, "old")
    assert await agenda.hold_channel(CHANNEL, "c1", 60.0, old)
    assert await conversations.keep(CHANNEL, "c1", "one", old)
    new = await leads(link, "new")
    assert not await agenda.hold_channel(CHANNEL, "c1", 60.0, old), "it may not even renew what nobody took yet"
    assert not await conversations.keep(CHANNEL, "c1", "old two", old)
    await agenda.release_all_channels()
    assert not await agenda.hold_channel(CHANNEL, "c1", 60.0, old)
    assert await agenda.hold_channel(CHANNEL, "c1", 60.0, new)
    assert await conversations.keep(CHANNEL, "c1", "two", new)
    await agenda.release_channel(CHANNEL, "c1", old)
    await conversations.drop(CHANNEL, "c1", old)
    assert await conversations.kept() == ["two"]
    assert not await agenda.hold_channel(CHANNEL, "c2", 60.0, new), "still held"
    await conversations.drop(CHANNEL, "c1", new)
    assert await conversations.kept() == []


async def test_a_hold_of_another_epoch_is_anothers_also_where_redis_forgot_who_leads(link: RedisLink):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    assert await agenda.hold_channel(CHANNEL, "c1", 60.0, 5)
    assert not await agenda.hold_channel(CHANNEL, "c1", 60.0, 4)
    assert not await conversations.keep(CHANNEL, "c1", "old", 4)


async def test_freeing_all_channels_leaves_what_was_kept(link: RedisLink):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    for channel in (CHANNEL, OTHER):
        await agenda.hold_channel(channel, f"c{channel}", 60.0)
        await conversations.keep(channel, f"c{channel}", str(channel))
    await agenda.release_all_channels()
    assert sorted(await conversations.kept()) == ["7", "8"]


async def test_only_its_own_conversation_is_dropped(link: RedisLink):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    await agenda.hold_channel(CHANNEL, "c1", 60.0)
    await conversations.keep(CHANNEL, "c1", "one")
    await conversations.drop(CHANNEL, "c0")
    assert await conversations.kept() == ["one"]
    await conversations.drop(CHANNEL, "c1")
    assert await conversations.kept() == []


async def test_a_person_who_wants_no_answer_is_heard_in_every_process(link: RedisLink, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    hushed: list[tuple[str, int, int]] = []

    def hears(where: str):
        async def hush(channel_id: int, user_id: int) -> None:
            hushed.append((where, channel_id, user_id))

        return hush

    here.stops.on_hush(hears("here"))
    there.stops.on_hush(hears("there"))
    async with here.running(), there.running():
        await here.stops.hush(CHANNEL, 42)
        assert hushed == [("here", CHANNEL, 42)], "here it is done at once"
        await until(lambda: ("there", CHANNEL, 42) in hushed)
    assert not here.stops.holds(CHANNEL)


async def test_what_is_held_is_listed_with_its_end(link: RedisLink, clock: Clock):
    stops = Process(link, clock).stops
    await stops.stop(CHANNEL, "m1", 60.0)
    await stops.stop(OTHER, "m2", 10.0)
    clock.now += 30
    assert stops.held() == {CHANNEL: clock.now + 30}


async def test_a_stop_without_a_source_leaves_the_one_that_holds_as_it_is(link: RedisLink, clock: Clock):
    here = Process(link, clock)
    await here.stops.stop(CHANNEL, "m1", 60.0)
    assert not await here.stops.stop(CHANNEL, "", 600.0)
    assert here.stops.held() == {CHANNEL: clock() + 60.0}


async def test_a_stop_that_another_process_prolongs_is_prolonged_here(link: RedisLink, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    async with here.running(), there.running():
        await here.stops.stop(CHANNEL, "m1", 60.0)
        await until(lambda: there.stops.held() == {CHANNEL: clock() + 60.0})
        await here.stops.stop(CHANNEL, "m2", 600.0)
        await until(lambda: there.stops.held() == {CHANNEL: clock() + 600.0})


@pytest.mark.promise(123)
async def test_a_pause_holds_in_every_channel_for_as_long_as_wanted_and_after_a_restart(link: RedisLink, clock: Clock):
    here = Process(link, clock)
    await here.stops.stop(CHANNEL, "m1", 60.0)
    assert await here.stops.stop(EVERYWHERE, "console")
    assert here.heard == [CHANNEL, EVERYWHERE]
    clock.now += 30 * 86400
    later = Process(link, clock)
    await later.stops.read()
    assert later.stops.paused
    assert all(later.stops.holds(channel) for channel in (CHANNEL, OTHER, EVERYWHERE))
    assert later.stops.held() == {}, "what is stopped itself"
    assert later.stops.silent_until(OTHER) > clock.now
    assert await later.stops.lift(EVERYWHERE)
    assert not later.stops.holds(OTHER)
    assert later.stops.silent_until(OTHER) == clock.now, "what was said meanwhile is not answered"


async def test_a_pause_lasts_and_leaves_the_stops_of_channels_as_they_were(link: RedisLink, clock: Clock):
    here = Process(link, clock)
    await here.stops.stop(CHANNEL, "m1")
    await here.stops.stop(EVERYWHERE, "c1")
    await here.stops.lift(EVERYWHERE)
    assert (here.stops.holds(CHANNEL), here.stops.holds(OTHER)) == (True, False)
    await here.stops.stop(EVERYWHERE, "c2")
    await here.stops.lift(CHANNEL)
    assert here.stops.holds(CHANNEL), "one channel's resume does not end a pause of all"


@pytest.mark.promise(123)
async def test_a_pause_reaches_other_processes_at_once_and_outlives_a_redis_that_was_emptied(
    link: RedisLink, clock: Clock
):
    here, there = Process(link, clock), Process(link, clock)
    async with here.running(), there.running():
        await here.stops.stop(EVERYWHERE, "c1")
        await until(lambda: there.heard == [EVERYWHERE])
        await link.commands.delete(keys.stop(EVERYWHERE), keys.ordered(EVERYWHERE))
        while not await link.commands.exists(keys.stop(EVERYWHERE)):  # noqa: ASYNC110  (Redis has no event for it)
            await asyncio.sleep(0)
        assert await link.commands.pttl(keys.stop(EVERYWHERE)) > MAX_STOP_SECONDS * 1000
