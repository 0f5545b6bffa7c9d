"""Silence: stops, pauses, mutes, and ignored people, on a real Redis that goes away, is emptied, and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentic.state import silence as module
from agentic.state.silence import (
    DAY,
    EVERYTHING,
    MARKER,
    MAX_MUTE_SECONDS,
    MAX_STOP_SECONDS,
    ChannelRef,
    Scope,
    Silence,
    SilenceChange,
    Silenced,
    SilenceOrder,
)
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.messages import SilenceNotice
from tests.agentic.conftest import Clock, running
from tests.support.redis_server import PATIENT, RedisServer, until

CHANNEL, OTHER, THREAD, GUILD = 7, 8, 9, 70
ANN, BOB = 11, 12


class Process:
    """One process's view of who is silenced."""

    def __init__(self, link: RedisConnection, clock: Clock) -> None:
        self.bus = Bus(link)
        self.silence = Silence(link, self.bus, clock, check_every=0.01)
        self.heard: list[Scope] = []
        self.canceled: list[SilenceChange] = []
        self.silence.on_change(self._hear)
        self.silence.start()

    async def _hear(self, change: SilenceChange) -> None:
        if change.person_id is None:
            self.heard.append(change.scope)
        else:
            self.canceled.append(change)

    def is_stopped(self, channel_id: int) -> bool:
        return self.silence.check(ChannelRef(channel_id)) is not None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with running(self.bus):
            catching_up = asyncio.create_task(self.silence.run())
            try:
                yield
            finally:
                catching_up.cancel()
                await asyncio.gather(catching_up, return_exceptions=True)


async def order_of(link: RedisConnection, scope: Scope) -> dict[str, object]:
    """What Redis has for the scope; empty if nothing."""
    text = await link.call(lambda redis: redis.hget(keys.SILENCE, str(scope)))
    return {} if text is None else dict(json.loads(text))


async def test_a_stop_holds_in_its_channel_until_it_is_lifted(link: RedisConnection, clock: Clock):
    here = Process(link, clock)
    assert await here.silence.stop(Scope.channel(CHANNEL), source="m1") == "first"
    assert (here.is_stopped(CHANNEL), here.is_stopped(OTHER)) == (True, False)
    assert await here.silence.resume(Scope.channel(CHANNEL))
    assert not here.is_stopped(CHANNEL)
    assert not await here.silence.resume(Scope.channel(CHANNEL)), "it was lifted already"


async def test_a_stop_ends_with_its_time(link: RedisConnection, clock: Clock):
    here = Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1")
    assert (await order_of(link, Scope.channel(CHANNEL)))["until"] == clock.now + 60
    clock.now += 61
    assert not here.is_stopped(CHANNEL)


@pytest.mark.parametrize("seconds", [None, 10 * MAX_STOP_SECONDS, 0.0])
async def test_a_stop_lasts_a_day_at_most(link: RedisConnection, clock: Clock, seconds: float | None):
    await Process(link, clock).silence.stop(Scope.channel(CHANNEL), seconds, source="m1")
    assert (await order_of(link, Scope.channel(CHANNEL)))["until"] <= clock.now + MAX_STOP_SECONDS


@pytest.mark.promise(107)
async def test_a_stop_survives_a_restart(link: RedisConnection, clock: Clock):
    await Process(link, clock).silence.stop(Scope.channel(CHANNEL), source="m1")
    later = Process(link, clock)
    assert not later.is_stopped(CHANNEL)
    await later.silence.read()
    assert later.is_stopped(CHANNEL)


async def test_every_process_hears_of_a_stop_and_of_its_end_at_once(address, clock: Clock):
    async with RedisConnection(address) as one, RedisConnection(address) as two:
        here, there = Process(one, clock), Process(two, clock)
        async with there.running():
            await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1")
            await until(lambda: there.is_stopped(CHANNEL))
            await until(lambda: there.heard)
            assert there.heard == [Scope.channel(CHANNEL)]
            await here.silence.resume(Scope.channel(CHANNEL))
            await until(lambda: not there.is_stopped(CHANNEL))


async def test_of_several_bots_that_hear_the_same_message_one_is_the_first(address, clock: Clock):
    async with RedisConnection(address) as one, RedisConnection(address) as two:
        here, there = Process(one, clock), Process(two, clock)
        orders = [
            here.silence.stop(Scope.channel(CHANNEL), source="m1"),
            here.silence.stop(Scope.channel(CHANNEL), source="m1"),
            there.silence.stop(Scope.channel(CHANNEL), source="m1"),
        ]
        assert sorted(await asyncio.gather(*orders)) == ["first", "known", "known"]
        assert await there.silence.stop(Scope.channel(CHANNEL), source="m2") == "first", "another message"


async def test_a_bot_that_only_heard_of_it_takes_the_first_place_from_nobody(link: RedisConnection, clock: Clock):
    here = Process(link, clock)
    there = Process(link, clock)
    assert await here.silence.stop(Scope.channel(CHANNEL)) == "first"
    assert await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1") == "first"
    assert await there.silence.stop(Scope.channel(CHANNEL)) != "first"
    assert (await order_of(link, Scope.channel(CHANNEL)))["until"] == clock.now + 60
    assert await there.silence.stop(Scope.channel(CHANNEL), source="m1") != "first"


async def test_of_those_who_only_heard_and_those_who_are_meant_the_meant_one_is_first_however_they_meet(
    link: RedisConnection, clock: Clock
):
    here = Process(link, clock)
    orders = [here.silence.stop(Scope.channel(CHANNEL), source=source) for source in ("", "m1", "", "m1")]
    assert (await asyncio.gather(*orders))[1] == "first"
    assert (await order_of(link, Scope.channel(CHANNEL)))["source"] == "m1"


async def test_what_changes_while_the_orders_are_read_is_newer_than_what_is_read(link: RedisConnection, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    await here.silence.stop(Scope.channel(OTHER), source="m1")
    parse = here.silence._parse

    def parse_after_a_change(texts):
        found = list(parse(texts))
        clock.now += 1
        here.silence._orders[Scope.channel(OTHER)] = SilenceOrder(Scope.channel(OTHER), 0.0, clock.now)
        here.silence._orders[Scope.channel(CHANNEL)] = SilenceOrder(Scope.channel(CHANNEL), clock.now + 60, clock.now)
        return found

    here.silence._parse = parse_after_a_change
    await here.silence.read()
    assert (here.is_stopped(CHANNEL), here.is_stopped(OTHER)) == (True, False)
    await there.silence.read()
    assert (there.is_stopped(CHANNEL), there.is_stopped(OTHER)) == (True, False)


async def test_a_callback_that_fails_keeps_no_other_from_its_work(link: RedisConnection, clock: Clock, caplog):
    here = Process(link, clock)
    heard: list[Scope] = []

    async def fail(_: SilenceChange) -> None:
        raise RuntimeError("by the test")

    async def hear(change: SilenceChange) -> None:
        heard.append(change.scope)

    here.silence.on_change(fail)
    unsubscribe = here.silence.on_change(hear)
    assert await here.silence.stop(Scope.channel(CHANNEL), source="m1") == "first"
    assert heard == here.heard == [Scope.channel(CHANNEL)]
    assert "a callback failed" in caplog.text
    unsubscribe()
    await here.silence.stop(Scope.channel(OTHER), source="m2")
    assert len(heard) == 1


async def test_nonsense_on_the_wire_and_in_redis_silences_nobody(link: RedisConnection, clock: Clock, caplog):
    here = Process(link, clock)
    nonsense = {
        "c:lounge": "{}",
        f"c:{OTHER}": '{"until": "soon", "at": 1}',
        "*": "[]",
        "a:claude": '{"until": NaN, "at": 1}',
    }
    await link.commands.hset(keys.SILENCE, mapping=nonsense)
    async with here.running():
        for raw in (
            "stop!",
            '{"until": 1}',
            '{"scope": "c:7", "until": "soon"}',
            '{"scope": "c:seven", "until": 9e9, "at": 1}',
        ):
            await link.commands.publish(keys.SILENCE_NOTICES, raw)
        await here.silence.read()
        await until(lambda: caplog.text.count("silence notice dropped") == 3)
        assert caplog.text.count("can't read") >= len(nonsense)
        assert here.silence.active() == []
        await here.silence.stop(Scope.channel(CHANNEL))
    assert set(await link.commands.hgetall(keys.SILENCE)) == {MARKER, f"c:{CHANNEL}"}, "an order clears away nonsense"


async def test_a_notice_cannot_stop_a_channel_for_ever(link: RedisConnection, clock: Clock):
    here = Process(link, clock)
    async with running(here.bus):
        notice = SilenceNotice(scope=f"c:{CHANNEL}", until=9e15, at=clock.now)
        await link.commands.publish(keys.SILENCE_NOTICES, notice.to_wire())
        await until(lambda: here.is_stopped(CHANNEL))
    clock.now += MAX_STOP_SECONDS + 1
    assert not here.is_stopped(CHANNEL)


@pytest.mark.promise(107)
async def test_a_stop_counts_while_redis_is_away_and_is_written_when_it_is_back(server, clock: Clock):
    async with RedisConnection(server.url) as link:
        here = Process(link, clock)
        async with here.running():
            server.kill()
            assert await here.silence.stop(Scope.channel(CHANNEL), source="m1") == "first"
            assert here.is_stopped(CHANNEL)
            server.start()
            async with RedisConnection(server.url) as other:
                there = Process(other, clock)
                async with there.running():
                    await until(lambda: there.is_stopped(CHANNEL))
            assert here.is_stopped(CHANNEL)


async def test_a_stop_that_was_lifted_while_redis_was_away_does_not_come_back(server, clock: Clock):
    async with RedisConnection(server.url) as link:
        here = Process(link, clock)
        async with here.running():
            await here.silence.stop(Scope.channel(CHANNEL), source="m1")
            server.kill()
            await until(lambda: not here.bus.ready.is_set())
            assert await here.silence.resume(Scope.channel(CHANNEL))
            server.start()
            async with RedisConnection(server.url) as other:
                async with asyncio.timeout(10):
                    while (await order_of(other, Scope.channel(CHANNEL)))["until"]:
                        pass
            assert not here.is_stopped(CHANNEL)


# -- a Redis that forgot -----------------------------------------------------------------------------------------------


@pytest.mark.promise(90)
async def test_a_stop_outlives_a_redis_that_comes_back_empty(server, clock: Clock):
    async with RedisConnection(server.url) as link:
        here = Process(link, clock)
        async with here.running():
            await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1")
            server.kill()
            await until(lambda: not here.bus.ready.is_set())
            server.empty()
            server.start()
            async with RedisConnection(server.url, command_timeout=PATIENT) as other:
                there = Process(other, clock)
                async with there.running():
                    await until(lambda: there.is_stopped(CHANNEL))
                assert (await order_of(other, Scope.channel(CHANNEL)))["until"] == clock.now + 60
            assert here.is_stopped(CHANNEL)


@pytest.mark.promise(90)
async def test_a_stop_outlives_a_redis_that_is_emptied_behind_an_unbroken_connection(
    link: RedisConnection, clock: Clock
):
    here, later = Process(link, clock), Process(link, clock)
    async with here.running():
        await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1")
        await link.call(lambda redis: redis.flushall())
        async with asyncio.timeout(10):
            while not await order_of(link, Scope.channel(CHANNEL)):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert here.is_stopped(CHANNEL)
    await later.silence.read()
    assert later.silence.stopped_channels() == {CHANNEL: clock.now + 60}


@pytest.mark.promise(90)
async def test_each_process_writes_what_it_knows_into_a_redis_that_was_emptied_however_late_it_notices(
    link: RedisConnection, clock: Clock
):
    here, there, later = (Process(link, clock) for _ in range(3))
    for process in (here, there):
        await process.silence.read()
    await here.silence.stop(Scope.channel(CHANNEL), source="m1")  # nobody else has heard of it
    await link.call(lambda redis: redis.flushall())
    await there.silence.read()
    assert await here.silence.is_lost()
    await here.silence.read()
    await later.silence.read()
    assert later.is_stopped(CHANNEL)
    assert not await here.silence.is_lost()


async def test_what_another_process_lifted_meanwhile_is_not_written_again(link: RedisConnection, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), source="m1")
    await there.silence.read()
    clock.now += 1
    assert await there.silence.resume(Scope.channel(CHANNEL))
    await here.silence.read()  # it did not hear of it
    assert not here.is_stopped(CHANNEL)
    assert (await order_of(link, Scope.channel(CHANNEL)))["until"] == 0


@pytest.mark.parametrize("late", [False, True])
async def test_a_resume_counts_here_before_redis_hears_of_it_unless_a_newer_order_may_be_known_there(
    link: RedisConnection, clock: Clock, late: bool
):
    here = Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), source="m1")
    clock.now += 1
    write, began, go_on = here.silence._write, asyncio.Event(), asyncio.Event()

    async def write_slowly(order, how):
        began.set()
        await go_on.wait()
        return await write(order, how)

    here.silence._write = write_slowly
    lifting = asyncio.create_task(here.silence.resume(Scope.channel(CHANNEL), at=clock.now, late=late))
    await began.wait()
    assert here.is_stopped(CHANNEL) is late
    go_on.set()
    assert await lifting
    assert not here.is_stopped(CHANNEL)


async def test_an_order_that_is_given_while_an_earlier_one_is_being_written_is_the_one_that_stays(
    link: RedisConnection, clock: Clock
):
    here, there = Process(link, clock), Process(link, clock)
    write, began, go_on = here.silence._write, asyncio.Event(), asyncio.Event()

    async def write_slowly(order, how):
        if order.until and not began.is_set():
            began.set()
            await go_on.wait()
        return await write(order, how)

    here.silence._write = write_slowly
    stopping = asyncio.create_task(here.silence.stop(Scope.channel(CHANNEL), source="m1"))
    await began.wait()
    clock.now += 1
    here.silence._write = unreachable  # Redis goes away
    await here.silence.resume(Scope.channel(CHANNEL))
    here.silence._write = write
    go_on.set()
    await stopping
    await here.silence.read()
    await there.silence.read()
    assert (here.is_stopped(CHANNEL), there.is_stopped(CHANNEL)) == (False, False)


async def test_an_order_that_one_failed_command_kept_from_redis_is_written_although_the_connection_never_broke(
    link: RedisConnection, clock: Clock
):
    here, there = Process(link, clock), Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), source="m1")
    clock.now += 1
    read, was_read = here.silence.read, asyncio.Event()

    async def read_and_tell() -> None:
        await read()
        was_read.set()

    here.silence.read = read_and_tell
    async with here.running():
        await asyncio.wait_for(was_read.wait(), 10)  # as after each new connection
        write, here.silence._write = here.silence._write, unreachable
        assert await here.silence.resume(Scope.channel(CHANNEL))
        here.silence._write = write
        async with asyncio.timeout(10):
            while (await order_of(link, Scope.channel(CHANNEL)))["until"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
    await there.silence.read()
    assert (here.is_stopped(CHANNEL), there.is_stopped(CHANNEL)) == (False, False)


async def unreachable(*_: object, **__: object) -> int:
    raise StateUnavailable("by the test")


# -- orders that are found late ----------------------------------------------------------------------------------------


async def test_a_stop_that_is_found_late_holds_from_when_it_was_said(
    link: RedisConnection, clock: Clock, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    here, there = Process(link, clock), Process(link, clock)
    said = clock.now - 40
    assert await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1", at=said, late=True) == "first"
    assert await there.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1", at=said, late=True) != "first", (
        "another process found it first"
    )
    assert (here.silence.stopped_channels(), there.silence.stopped_channels()) == (
        {CHANNEL: said + 60},
        {CHANNEL: said + 60},
    )
    assert (here.heard, there.heard) == ([Scope.channel(CHANNEL)], [Scope.channel(CHANNEL)])
    assert await here.silence.stop(Scope.channel(OTHER), 60.0, source="m2", at=clock.now - 61, late=True) != "first"
    assert not here.is_stopped(OTHER), "it has run out"
    silenced = [message for message in caplog.messages if "silenced" in message]
    assert silenced == [f"a person silenced channel {CHANNEL} for 0 minutes"]


@pytest.mark.promise(108)
@pytest.mark.parametrize("same_process", [True, False])
async def test_a_stop_that_is_found_late_does_not_undo_a_resume_that_was_said_after_it(
    link: RedisConnection, clock: Clock, same_process: bool
):
    here = Process(link, clock)
    there = here if same_process else Process(link, clock)
    said = clock.now
    clock.now += 5
    await here.silence.resume(Scope.channel(CHANNEL))
    clock.now += 5
    assert await there.silence.stop(Scope.channel(CHANNEL), source="m1", at=said, late=True) != "first"
    assert not there.is_stopped(CHANNEL)
    assert there.heard == []


async def test_while_redis_is_away_too_a_stop_that_is_found_late_does_not_undo_a_later_resume(
    link: RedisConnection, clock: Clock
):
    here = Process(link, clock)
    here.silence._write = unreachable
    said = clock.now
    clock.now += 5
    await here.silence.resume(Scope.channel(CHANNEL))
    assert await here.silence.stop(Scope.channel(CHANNEL), source="m1", at=said, late=True) != "first"
    assert not here.is_stopped(CHANNEL)
    assert here.heard == []


@pytest.mark.parametrize("same_process", [True, False])
async def test_a_resume_that_is_found_late_lifts_what_was_said_before_it_and_nothing_later(
    link: RedisConnection, clock: Clock, same_process: bool
):
    here = Process(link, clock)
    there = here if same_process else Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), source="m1")
    await here.silence.stop(Scope.channel(OTHER), source="m1", at=clock.now + 20)
    said = clock.now + 10
    clock.now += 30
    assert await there.silence.resume(Scope.channel(CHANNEL), at=said, late=True)
    assert not await there.silence.resume(Scope.channel(OTHER), at=said, late=True)
    assert (there.is_stopped(CHANNEL), there.is_stopped(OTHER)) == (False, True)


async def test_a_short_stop_that_has_run_out_took_the_place_of_a_longer_one_before_it(
    link: RedisConnection, clock: Clock
):
    here = Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), source="m1", at=clock.now - 600, late=True)
    await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m2", at=clock.now - 300, late=True)
    assert not here.is_stopped(CHANNEL)


async def test_what_is_heard_as_it_is_said_counts_whatever_the_clocks_say(link: RedisConnection, clock: Clock):
    """Discord's clock and this machine's are not the same."""
    here = Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), source="sign")
    await here.silence.resume(Scope.channel(CHANNEL), at=clock.now - 60)
    assert not here.is_stopped(CHANNEL)
    assert await here.silence.stop(Scope.channel(CHANNEL), source="m2", at=clock.now - 90) == "first"
    assert here.is_stopped(CHANNEL)


async def test_canceled_replies_are_canceled_in_every_process(link: RedisConnection, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    async with here.running(), there.running():
        await here.silence.cancel_replies(ANN, CHANNEL)
        assert here.canceled == [SilenceChange(Scope.channel(CHANNEL), ANN)], "here it is done at once"
        await until(lambda: there.canceled)
        assert there.canceled == here.canceled[:1]
    assert not here.is_stopped(CHANNEL)
    assert here.heard == there.heard == []


async def test_what_is_held_is_listed_with_its_end(link: RedisConnection, clock: Clock):
    silence = Process(link, clock).silence
    await silence.stop(Scope.channel(CHANNEL), 60.0)
    await silence.stop(Scope.channel(OTHER), 10.0)
    await silence.stop(Scope.agent("claude"), 60.0)
    clock.now += 30
    assert silence.stopped_channels() == {CHANNEL: clock.now + 30}
    assert {order.scope for order in silence.active()} == {Scope.channel(CHANNEL), Scope.agent("claude")}


async def test_a_stop_without_a_source_leaves_the_one_that_holds_as_it_is(link: RedisConnection, clock: Clock):
    here = Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1")
    assert await here.silence.stop(Scope.channel(CHANNEL), 600.0) != "first"
    assert here.silence.stopped_channels() == {CHANNEL: clock() + 60.0}


async def test_a_stop_that_another_process_prolongs_is_prolonged_here(link: RedisConnection, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    async with here.running(), there.running():
        await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1")
        await until(lambda: there.silence.stopped_channels() == {CHANNEL: clock() + 60.0})
        await here.silence.stop(Scope.channel(CHANNEL), 600.0, source="m2")
        await until(lambda: there.silence.stopped_channels() == {CHANNEL: clock() + 600.0})


@pytest.mark.promise(123)
async def test_a_pause_holds_in_every_channel_for_as_long_as_wanted_and_after_a_restart(
    link: RedisConnection, clock: Clock
):
    here = Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), 60.0, source="m1")
    assert await here.silence.stop(EVERYTHING, source="console") == "first"
    assert here.heard == [Scope.channel(CHANNEL), EVERYTHING]
    clock.now += 30 * 86400
    later = Process(link, clock)
    await later.silence.read()
    assert later.silence.is_paused
    assert all(later.is_stopped(channel) for channel in (CHANNEL, OTHER))
    assert later.silence.stopped_channels() == {}, "what is stopped itself"
    assert later.silence.answered_until(ChannelRef(OTHER)) > clock.now
    assert await later.silence.resume(EVERYTHING)
    assert not later.is_stopped(OTHER)
    assert later.silence.answered_until(ChannelRef(OTHER)) == clock.now, "what was said meanwhile is not answered"


async def test_a_pause_lasts_and_leaves_the_stops_of_channels_as_they_were(link: RedisConnection, clock: Clock):
    here = Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), source="m1")
    await here.silence.stop(EVERYTHING, source="c1")
    await here.silence.resume(EVERYTHING)
    assert (here.is_stopped(CHANNEL), here.is_stopped(OTHER)) == (True, False)
    await here.silence.stop(EVERYTHING, source="c2")
    await here.silence.resume(Scope.channel(CHANNEL))
    assert here.is_stopped(CHANNEL), "one channel's resume does not end a pause of all"


@pytest.mark.promise(123)
async def test_a_pause_reaches_other_processes_at_once_and_outlives_a_redis_that_was_emptied(
    link: RedisConnection, clock: Clock
):
    here, there = Process(link, clock), Process(link, clock)
    async with here.running(), there.running():
        await here.silence.stop(EVERYTHING, source="c1")
        await until(lambda: there.heard == [EVERYTHING])
        await link.commands.delete(keys.SILENCE)
        while not await order_of(link, EVERYTHING):  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert (await order_of(link, EVERYTHING))["until"] > clock.now + MAX_STOP_SECONDS


async def test_a_stop_is_not_refused_by_a_process_whose_clock_is_behind(link: RedisConnection, clock: Clock):
    here, there = Process(link, clock), Process(link, Clock(clock.now - 90))
    await here.silence.resume(Scope.channel(CHANNEL))
    assert await there.silence.stop(Scope.channel(CHANNEL), source="m1") == "first", "it has not heard of the resume"
    await here.silence.read()
    assert (here.is_stopped(CHANNEL), there.is_stopped(CHANNEL)) == (True, True)


# -- scopes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scope",
    [
        EVERYTHING,
        Scope("all", guild=GUILD),
        Scope.channel(CHANNEL),
        Scope.agent("o:1", GUILD),
        Scope.person(ANN, GUILD),
    ],
    ids=str,
)
def test_a_scope_is_read_as_it_was_written(scope: Scope):
    assert Scope.parse(str(scope)) == scope


@pytest.mark.parametrize("text", ["", "-", "c:", "c:x", "x:1", "g:/*", "g:7/", "c:1 ", "c:\u0663", "**"])
def test_what_is_no_scope_is_none(text: str):
    assert Scope.parse(text) is None


async def test_an_agent_may_not_speak_where_it_is_paused_stopped_or_muted(link: RedisConnection, clock: Clock):
    silence = Process(link, clock).silence
    thread, private = ChannelRef(THREAD, CHANNEL, GUILD), ChannelRef(99)
    assert silence.check(thread, "claude") is None
    await silence.stop(Scope.agent("claude"), 30.0)
    assert silence.check(thread, "claude") == Silenced("muted", Scope.agent("claude"), clock.now + 30)
    assert silence.check(thread, "grok") is silence.check(thread) is None
    await silence.stop(Scope.channel(CHANNEL), 60.0)
    assert silence.check(thread, "claude") == Silenced("stopped", Scope.channel(CHANNEL), clock.now + 60)
    assert silence.check(private) is None
    await silence.stop(EVERYTHING, 90.0)
    assert silence.check(private) == Silenced("paused", EVERYTHING, clock.now + 90)


async def test_an_order_for_a_guild_acts_there_alone(link: RedisConnection, clock: Clock):
    silence = Process(link, clock).silence
    here, elsewhere, private = ChannelRef(CHANNEL, guild_id=GUILD), ChannelRef(OTHER, guild_id=71), ChannelRef(99)
    for scope in (Scope.agent("claude", GUILD), Scope.person(ANN, GUILD)):
        await silence.stop(scope)
    assert [bool(silence.check(place, "claude")) for place in (here, elsewhere, private)] == [True, False, False]
    assert (silence.muted_agents().keys(), silence.muted_agents(GUILD).keys()) == (set(), {"claude"})
    assert (silence.is_ignored(ANN), silence.is_ignored(ANN, GUILD)) == (False, True)
    assert silence.ignored_people() == frozenset()
    await silence.stop(Scope("all", guild=GUILD))
    assert [bool(silence.check(place)) for place in (here, elsewhere, private)] == [True, False, False]
    assert not silence.is_paused
    await silence.resume(EVERYTHING)
    assert silence.check(here), "the order of the guild is another one"
    clock.now += 1
    await silence.resume(Scope("all", guild=GUILD))
    assert silence.check(here) is None
    assert silence.answered_until(here) == clock.now > silence.answered_until(elsewhere) > 0


async def test_resuming_a_channel_resumes_its_threads(link: RedisConnection, clock: Clock):
    here = Process(link, clock)
    said = clock.now
    await here.silence.stop(Scope.channel(THREAD))
    await here.silence.stop(Scope.channel(OTHER))
    clock.now += 5
    assert await here.silence.resume_channel(CHANNEL, {THREAD: CHANNEL}.get)
    assert (here.is_stopped(THREAD), here.is_stopped(OTHER)) == (False, True)
    assert not await here.silence.resume_channel(CHANNEL, {THREAD: CHANNEL}.get)
    late = await here.silence.stop(Scope.channel(5), at=said, late=True, parent_id=CHANNEL)
    assert (late, here.is_stopped(5)) == ("outdated", False), "another thread's stop from before is found now"


@pytest.mark.promise(572)
async def test_a_bot_that_hears_a_stop_after_its_resume_does_not_stop_again(link: RedisConnection, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    await here.silence.stop(Scope.channel(CHANNEL), source="m1", at=clock.now)
    said = clock.now
    clock.now += 1
    await here.silence.resume(Scope.channel(CHANNEL))
    assert await there.silence.stop(Scope.channel(CHANNEL), source="m1", at=said) == "known"
    assert (here.is_stopped(CHANNEL), there.is_stopped(CHANNEL)) == (False, False)
    clock.now += 1
    assert await there.silence.stop(Scope.channel(CHANNEL), source="m1") == "first", "the same sign, given again"


async def test_what_ended_a_day_ago_is_forgotten_and_an_old_process_does_not_bring_it_back(
    link: RedisConnection, clock: Clock
):
    here, stale = Process(link, clock), Process(link, clock)
    await here.silence.read()
    await here.silence.stop(EVERYTHING, source="c1")
    await stale.silence.read()
    await here.silence.resume(EVERYTHING)
    clock.now += DAY + 1
    await here.silence.stop(Scope.channel(CHANNEL))
    assert set(await link.commands.hgetall(keys.SILENCE)) == {MARKER, f"c:{CHANNEL}"}
    assert stale.silence.is_paused, "it did not hear of the resume"
    await stale.silence.read()
    assert not stale.silence.is_paused


# -- muted agents and ignored people -----------------------------------------------------------------------------------


async def test_a_mute_is_no_longer_than_a_week_and_a_newer_one_replaces_it(link: RedisConnection, clock: Clock):
    silence = Process(link, clock).silence
    await silence.stop(Scope.agent("claude"), 1e9, source="c1")
    assert silence.muted_agents() == {"claude": clock.now + MAX_MUTE_SECONDS}
    await silence.stop(Scope.agent("claude"), 60.0, source="c2")
    assert silence.muted_agents() == {"claude": clock.now + 60}
    assert await silence.resume(Scope.agent("claude"))
    assert silence.muted_agents() == {}
    assert not await silence.resume(Scope.agent("claude"))


async def test_every_process_hears_at_once_whom_the_bots_ignore(link: RedisConnection, clock: Clock):
    here, there = Process(link, clock), Process(link, clock)
    async with here.running(), there.running():
        assert await here.silence.stop(Scope.person(ANN)) == "first"
        assert here.silence.is_ignored(ANN)
        await until(lambda: there.silence.is_ignored(ANN))
        assert await there.silence.stop(Scope.person(ANN)) == "known"
        clock.now += 50 * 365 * DAY
        assert here.silence.ignored_people() == {ANN}
        assert await there.silence.resume(Scope.person(ANN))
        await until(lambda: not here.silence.is_ignored(ANN))
        assert not await here.silence.resume(Scope.person(ANN))


async def test_ignored_people_are_bounded_in_each_guild_and_stops_are_not(
    link: RedisConnection, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_IGNORED", 1)
    silence = Process(link, clock).silence
    assert await silence.stop(Scope.person(ANN)) == "first"
    assert await silence.stop(Scope.person(BOB)) == "full"
    assert (silence.is_ignored(ANN), silence.is_ignored(BOB)) == (True, False)
    assert await silence.stop(Scope.person(ANN)) == "known"
    assert await silence.stop(Scope.person(BOB, GUILD)) == "first"
    assert await silence.stop(Scope.person(ANN, GUILD)) == "full"
    assert await silence.resume(Scope.person(BOB, GUILD))
    assert await silence.stop(Scope.person(ANN, GUILD)) == "first"
    assert await silence.stop(Scope.channel(CHANNEL)) == await silence.stop(Scope.channel(OTHER)) == "first"


async def test_people_who_were_ignored_in_an_outage_are_bounded_when_redis_is_back(
    link: RedisConnection, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog
):
    monkeypatch.setattr(module, "MAX_IGNORED", 1)
    here, there = Process(link, clock), Process(link, clock)
    await there.silence.stop(Scope.person(ANN, GUILD))
    write, here.silence._write = here.silence._write, unreachable
    assert await here.silence.stop(Scope.person(BOB, GUILD)) == "first"
    assert here.silence.is_ignored(BOB, GUILD), "it counts here at once"
    here.silence._write = write
    await here.silence.read()
    assert here.silence.ignored_people(GUILD) == {ANN}
    assert "too many people" in caplog.text


@pytest.mark.promise(90)
async def test_mutes_and_ignored_people_outlive_a_redis_that_was_emptied(link: RedisConnection, clock: Clock):
    here, later = Process(link, clock), Process(link, clock)
    async with here.running():
        agents = Scope.agent("claude"), Scope.agent("grok"), Scope.agent("gemini", GUILD), Scope("all", guild=GUILD)
        for scope in (*agents, Scope.person(ANN), Scope.person(BOB), Scope.person(BOB, GUILD)):
            await here.silence.stop(scope, 60.0)
        await here.silence.resume(Scope.agent("grok"))
        await here.silence.resume(Scope.person(BOB))
        await link.call(lambda redis: redis.flushall())
        while await here.silence.is_lost():  # noqa: ASYNC110
            await asyncio.sleep(0)
    await later.silence.read()
    assert (set(later.silence.muted_agents()), later.silence.ignored_people()) == ({"claude"}, {ANN})
    assert set(later.silence.muted_agents(GUILD)) == {"claude", "gemini"}
    assert later.silence.ignored_people(GUILD) == {ANN, BOB}
    assert [bool(later.silence.check(ChannelRef(5, guild_id=guild))) for guild in (GUILD, 71, None)] == [
        True,
        False,
        False,
    ]


async def test_whom_an_owner_ignores_while_redis_is_away_is_ignored_here_and_later_everywhere(
    server: RedisServer, clock: Clock
):
    async with RedisConnection(server.url) as link:
        here = Process(link, clock)
        async with here.running():
            server.kill()
            assert await here.silence.stop(Scope.person(ANN)) == "first"
            assert await here.silence.stop(Scope.agent("claude"), 60.0) == "first"
            assert (here.silence.is_ignored(ANN), set(here.silence.muted_agents())) == (True, {"claude"})
            assert here.silence.is_out_of_sync
            server.start()
            async with RedisConnection(server.url, command_timeout=PATIENT) as other:
                there = Process(other, clock)
                async with there.running():
                    await until(lambda: there.silence.is_ignored(ANN))
                    await until(there.silence.muted_agents)
            await until(lambda: not here.silence.is_out_of_sync)


# -- keys of earlier versions ------------------------------------------------------------------------------------------


@pytest.mark.promise(107, 571)
async def test_the_first_start_imports_what_an_earlier_version_stored(link: RedisConnection, clock: Clock, caplog):
    now, redis = clock.now, link.commands
    former = {
        "coordinator:stop:0": f"c1 {now + 30 * DAY}",
        "coordinator:ordered:0": f"{now - 60:.3f}",
        f"coordinator:stop:{CHANNEL}": f"m1 {now + 600}",
        f"coordinator:ordered:{OTHER}": f"{now - 30:.3f}",
        "coordinator:stop:99": "m1 soon",
        "agent:claude:muted": str(now + 900),
        "agent:grok:muted": "0",
        "agent:gemini:muted": "soon",
        "agent:claude:turn:muted": "no mute",
    }
    await redis.mset(former)
    await redis.sadd("coordinator:ignored", "-", str(ANN), "nonsense")
    one, two = Process(link, clock), Process(link, clock)
    await asyncio.gather(one.silence.read(), two.silence.read())
    later = Process(link, clock)
    await later.silence.read()
    for silence in (one.silence, two.silence, later.silence):
        assert silence.check(ChannelRef(1)) == Silenced("paused", EVERYTHING, now + 30 * DAY)
        assert silence.stopped_channels() == {CHANNEL: now + 600}
        assert silence.muted_agents() == {"claude": now + 900}
        assert silence.ignored_people() == {ANN}
        assert await silence.stop(Scope.channel(OTHER), source="m2", at=now - 31, late=True) == "outdated"
        assert await silence.stop(EVERYTHING, source="c1") == "known"
    assert "can't read" in caplog.text
    left = [name async for page in link.scan("*") for name in page]
    assert sorted(left) == ["agent:claude:turn:muted", keys.SILENCE]


@pytest.mark.promise(571)
async def test_what_was_resumed_since_the_upgrade_is_not_imported_again(link: RedisConnection, clock: Clock):
    here = Process(link, clock)
    await link.commands.set("agent:claude:muted", str(clock.now + 900))
    await link.commands.sadd("coordinator:ignored", "-", str(ANN))
    await here.silence.resume(Scope.agent("claude"))  # before it has read anything
    await here.silence.resume(Scope.person(ANN))
    await here.silence.read()
    assert (here.silence.muted_agents(), here.silence.ignored_people()) == ({}, frozenset())
