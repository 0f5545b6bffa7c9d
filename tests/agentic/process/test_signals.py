import asyncio
import os
import signal

import pytest

from agentic.process.tasks import INTERRUPTED, LEAVE_SECONDS, Shutdown, last_turns
from tests.support.doubles import LoopTime, settle


class Turn:
    """A turn that ends when it is let."""

    def __init__(self, error=None):
        self.go_on, self.ended, self.error = asyncio.Event(), False, error

    async def __call__(self):
        await self.go_on.wait()
        if self.error:
            raise self.error
        self.ended = True


async def test_running_turns_are_waited_for_and_no_longer():
    LoopTime()
    first, second = Turn(), Turn()
    ending = asyncio.create_task(last_turns({"claude": first(), "grok": second()}, 20, asyncio.Event()))
    await settle()
    first.go_on.set()
    await settle()
    assert not ending.done()
    second.go_on.set()
    await settle()
    assert ending.done()
    assert first.ended
    assert second.ended


async def test_a_turn_that_takes_too_long_is_given_up_and_named(caplog):
    loop, quick, slow = LoopTime(), Turn(), Turn()
    quick.go_on.set()
    ending = asyncio.create_task(last_turns({"claude": quick(), "grok": slow()}, 20, asyncio.Event()))
    await loop.run(19.5)
    assert not ending.done()
    await loop.run(1)
    assert ending.done()
    assert quick.ended
    assert not slow.ended
    assert "are canceled: grok" in caplog.text


async def test_hurry_ends_the_wait_at_once():
    LoopTime()
    hurry, slow = asyncio.Event(), Turn()
    ending = asyncio.create_task(last_turns({"grok": slow()}, 20, hurry))
    await settle()
    hurry.set()
    await settle()
    assert ending.done()
    assert not slow.ended


async def test_one_agents_failure_at_the_end_leaves_the_others_their_time(caplog):
    LoopTime()
    broken, whole = Turn(ValueError("x")), Turn()
    ending = asyncio.create_task(last_turns({"claude": broken(), "grok": whole()}, 20, asyncio.Event()))
    broken.go_on.set()
    await settle()
    assert not ending.done()
    whole.go_on.set()
    await settle()
    assert ending.done()
    assert whole.ended
    assert "the last turns failed" in caplog.text


async def test_a_second_ctrl_c_is_a_hurry_and_what_hangs_is_left(monkeypatch):
    loop, codes = LoopTime(), []
    monkeypatch.setattr(os, "_exit", codes.append)
    stopping = Shutdown()
    stopping.interrupted()
    assert (stopping.stop.is_set(), stopping.hurry.is_set()) == (True, False)
    stopping.interrupted()
    stopping.interrupted()
    assert stopping.hurry.is_set()
    await loop.run(LEAVE_SECONDS - 0.5)
    assert codes == []
    await loop.run(1)
    assert codes == [INTERRUPTED]


@pytest.mark.promise(623)
@pytest.mark.parametrize(("before", "stops"), [(signal.SIG_IGN, False), (signal.SIG_DFL, True)])
async def test_the_end_of_the_terminal_stops_the_program_unless_nohup_started_it(before, stops):
    former, stopping = signal.signal(signal.SIGHUP, before), Shutdown()
    try:
        stopping.on_signals()
        os.kill(os.getpid(), signal.SIGHUP)
        await settle()
        assert stopping.stop.is_set() == stops
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(signal.SIGHUP, former)


async def test_a_service_manager_that_repeats_itself_hurries_nobody():
    stopping = Shutdown()
    stopping.on_signals()
    try:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        await asyncio.wait_for(stopping.stop.wait(), 5)
        await settle()
        assert not stopping.hurry.is_set()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)
