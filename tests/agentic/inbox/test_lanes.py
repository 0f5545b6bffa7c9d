import asyncio
from dataclasses import dataclass, replace

from agentic.inbox.inbox import Inbox
from tests.support.doubles import LoopTime


@dataclass(frozen=True)
class Event:
    channel_id: int
    name: str
    seq: int = 0
    at: float = 0.0

    @property
    def lane(self):
        return self.channel_id

    def stamped(self, seq, at):
        return replace(self, seq=seq, at=at)


class Turns:
    """Turns that end when they are told to."""

    def __init__(self):
        self.begun, self.ended = [], []
        self._gates = {}

    async def __call__(self, event):
        self.begun.append(event.name)
        await self._gates.setdefault(event.name, asyncio.Event()).wait()
        self.ended.append(event.name)

    async def end(self, name):
        self._gates.setdefault(name, asyncio.Event()).set()
        await settle()


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


def inbox(turns, max_running=5, max_depth=100):
    return Inbox(turns, max_running=max_running, max_depth=max_depth)


async def test_events_of_a_channel_are_handled_one_after_another_in_order():
    turns = Turns()
    box = inbox(turns)
    for name in ("a", "b", "c"):
        box.put(Event(1, name))
    await settle()
    assert turns.begun == ["a"]
    await turns.end("a")
    assert turns.begun == ["a", "b"]
    await turns.end("b")
    await turns.end("c")
    assert turns.ended == ["a", "b", "c"]


async def test_a_slow_turn_in_one_channel_does_not_hold_another():
    turns = Turns()
    box = inbox(turns)
    box.put(Event(1, "slow"))
    box.put(Event(2, "quick"))
    await turns.end("quick")
    assert turns.ended == ["quick"]
    await box.aclose()


async def test_no_more_than_the_limit_run_at_once():
    turns = Turns()
    box = inbox(turns, max_running=2)
    for channel in (1, 2, 3):
        box.put(Event(channel, str(channel)))
    await settle()
    assert turns.begun == ["1", "2"]
    await turns.end("1")
    assert turns.begun == ["1", "2", "3"]
    await box.aclose()


async def test_what_does_not_fit_is_refused_and_what_waits_is_counted():
    turns = Turns()
    box = inbox(turns, max_running=1, max_depth=2)
    box.put(Event(1, "running"))
    await settle()
    assert [box.put(Event(1, str(n))) is not None for n in range(3)] == [True, True, False]
    assert box.size() == 2
    await box.aclose()


async def test_an_event_that_fails_does_not_end_its_lane(caplog):
    handled = []

    async def handle(event):
        if event.name == "bad":
            raise RuntimeError("boom")
        handled.append(event.name)

    box = inbox(handle)
    box.put(Event(1, "bad"))
    box.put(Event(1, "good"))
    await box.drain()
    assert handled == ["good"]
    assert "boom" in caplog.text


async def test_draining_takes_nothing_new_and_returns_when_all_is_done():
    turns = Turns()
    box = inbox(turns)
    box.put(Event(1, "a"))
    draining = asyncio.create_task(box.drain())
    await settle()
    assert not draining.done()
    assert box.put(Event(1, "late")) is None
    await turns.end("a")
    await draining
    assert turns.begun == ["a"]


async def test_closing_ends_what_runs_and_drops_what_waits():
    turns = Turns()
    box = inbox(turns)
    box.put(Event(1, "a"))
    box.put(Event(1, "b"))
    await settle()
    await box.aclose()
    assert (turns.begun, turns.ended, box.size()) == (["a"], [], 0)


async def test_a_closed_inbox_drops_what_waits_and_lets_what_runs_end():
    turns = Turns()
    box = inbox(turns, max_running=1)
    for channel, name in ((1, "a"), (1, "b"), (2, "c"), (3, "d")):
        box.put(Event(channel, name))
    await settle()
    box.close()
    assert (box.size(), box.put(Event(4, "e"))) == (0, None)
    ending = asyncio.create_task(box.drain())
    await settle()
    assert not ending.done()
    await turns.end("a")
    await ending
    assert (turns.begun, turns.ended) == (["a"], ["a"])


async def test_what_waits_in_a_channel_can_be_taken_back_and_the_running_turn_goes_on():
    turns = Turns()
    box = inbox(turns)
    for channel, name in ((1, "a"), (1, "b"), (1, "c"), (2, "d"), (2, "e")):
        box.put(Event(channel, name))
    await settle()
    gone = box.cancel(1, lambda event: event.name != "c")
    assert [event.name for event in gone] == ["b"]
    assert (box.size(), box.cancel(3)) == (2, [])
    for name in ("a", "c", "d", "e"):
        await turns.end(name)
    assert sorted(turns.ended) == ["a", "c", "d", "e"]
    assert box.size() == 0


async def test_a_lane_that_stood_in_line_with_nothing_left_gives_its_place_on():
    turns = Turns()
    box = inbox(turns, max_running=1)
    for channel, name in ((1, "a"), (2, "b"), (3, "c")):
        box.put(Event(channel, name))
    await settle()
    assert [event.name for event in box.cancel(2)] == ["b"]
    await turns.end("a")
    await turns.end("c")
    assert turns.ended == ["a", "c"]
    box.put(Event(2, "again"))
    await turns.end("again")
    assert turns.ended == ["a", "c", "again"]


async def test_each_event_gets_a_number_and_a_time_that_never_goes_back():
    now = [100.0]
    box = Inbox(Turns(), max_running=1, max_depth=9, clock=lambda: now[0])
    first = box.put(Event(1, "a"))
    now[0] = 50.0  # somebody set the clock
    second = box.put(Event(2, "b"))
    assert [(event.seq, event.at) for event in (first, second)] == [(1, 100.0), (2, 100.0)]
    await box.aclose()


async def test_without_a_queue_what_cannot_begin_at_once_is_refused():
    turns = Turns()
    box = inbox(turns, max_running=2, max_depth=0)
    taken = [box.put(Event(channel, name)) for channel, name in ((1, "a"), (1, "b"), (2, "c"), (3, "d"))]
    assert [event is not None for event in taken] == [True, False, True, False]
    await turns.end("a")
    assert box.put(Event(3, "e")) is not None
    await settle()
    assert (turns.begun, box.size()) == (["a", "c", "e"], 0)
    await box.aclose()


async def test_with_one_turn_at_a_time_lanes_do_not_overtake_each_other():
    turns = Turns()
    box = inbox(turns, max_running=1)
    for channel, name in ((1, "a"), (1, "b"), (2, "c"), (1, "d"), (3, "e")):
        box.put(Event(channel, name))
    for name in "abcde":
        await turns.end(name)
    assert turns.begun == list("abcde")


async def test_what_is_taken_back_before_its_first_step_is_not_begun():
    turns = Turns()
    box = inbox(turns)
    box.put(Event(1, "a"))
    box._start_ready()  # it has its place, and its task has not run yet
    assert [event.name for event in box.waiting(1)] == ["a"]
    assert [event.name for event in box.cancel(1)] == ["a"]
    await box.drain()
    assert (turns.begun, box.channels) == ([], ())


async def test_a_lane_that_pauses_lets_the_others_pass_and_is_asked_again():
    time, seconds, begun = LoopTime(), [3.0, 2.0, 0.0], []

    async def handle(event):
        begun.append(event.name)

    box = Inbox(handle, max_running=1, max_depth=9, pause=lambda e: seconds.pop(0) if e.channel_id == 1 else 0.0)
    box.put(Event(1, "slow"))
    box.put(Event(2, "quick"))
    await time.run(2.9)
    assert begun == ["quick"]
    await time.run(1)
    assert begun == ["quick"]
    await time.run(2)
    assert begun == ["quick", "slow"]


async def test_an_inbox_that_is_ended_before_a_first_step_can_be_drained():
    box = inbox(Turns())
    box.put(Event(1, "a"))
    box._start_ready()
    await box.aclose()
    await box.drain()
    assert box.channels == ()


async def test_a_pause_ends_with_the_event_that_it_was_for():
    time, turns, faults = LoopTime(), Turns(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))

    def pause(event):
        return max(0.0, event.at + 3.0 - time.now)

    box = Inbox(turns, max_running=1, max_depth=9, pause=pause, clock=lambda: time.now)
    box.put(Event(1, "first"))
    await time.run(1)
    assert [event.name for event in box.cancel(1)] == ["first"]
    box.put(Event(1, "second"))
    await time.run(2.5)
    assert (turns.begun, faults) == ([], [])
    await time.run(1)
    assert (turns.begun, faults) == (["second"], [])
    await box.aclose()


async def test_what_waits_is_given_back_in_its_order_when_the_inbox_closes():
    box = inbox(Turns(), max_running=1)
    for channel, name in ((1, "runs"), (2, "a"), (1, "b"), (2, "c")):
        box.put(Event(channel, name))
    await settle()
    assert [event.name for event in box.close()] == ["a", "b", "c"]
    assert not box.has_room(Event(3, "late"))
    await box.aclose()


async def test_a_turn_that_is_cancelled_before_its_first_step_waits_no_more():
    turns = Turns()
    box = inbox(turns)
    box.put(Event(1, "a"))
    await asyncio.sleep(0)  # it has its place
    (task,) = box._running.values()
    assert [event.name for event in box.waiting(1)] == ["a"]
    task.cancel()
    await settle()
    assert (turns.begun, box.waiting(1), box.size()) == ([], (), 0)


async def test_an_event_that_fails_is_logged_and_its_lane_goes_on(caplog):
    done = []

    async def handle(event):
        if event.name == "bad":
            raise ValueError("by the test")
        done.append(event.name)

    box = inbox(handle)
    for name in ("bad", "good"):
        box.put(Event(1, name))
    await box.drain()
    assert done == ["good"]
    assert "an event failed" in caplog.text
