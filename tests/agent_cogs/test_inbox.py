import asyncio
from dataclasses import dataclass, replace

from agent_cogs.inbox import Inbox


@dataclass(frozen=True)
class Event:
    channel_id: int
    name: str
    seq: int = 0
    at: float = 0.0

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
    gone = box.cancel(1, keep=lambda event: event.name == "c")
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
