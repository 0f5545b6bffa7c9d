"""The inbox's properties of the specification. "Event queue" is agentic.inbox.inbox; "null" is None."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from agentic.agent.events import (
    CronEvent,
    HeartbeatEvent,
    HookEvent,
    InstructionEvent,
    MentionEvent,
    TurnEvent,
    WebhookEvent,
)
from agentic.context.entries import Entry, Speaker
from agentic.inbox.inbox import Inbox
from agentic.wire.messages import Instruction

KINDS = ("message", "heartbeat", "cron", "hook", "webhook", "instruction")
Wanted = tuple[str, int]  # kind and channel
events = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 5)), max_size=30)


def event(kind: str, channel_id: int, name: str) -> TurnEvent:
    common = {"id": name, "channel_id": channel_id, "theme": "casual", "deadline": 9e9}
    entry = Entry(id=1, speaker=Speaker(id=1, name="Alice", kind="person"), text="hello", created_at=1.0)
    makers = {
        "message": lambda: MentionEvent(asked=entry, **common),
        "heartbeat": lambda: HeartbeatEvent(check="c", instruction="look", **common),
        "cron": lambda: CronEvent(job="j", instruction="do", **common),
        "hook": lambda: HookEvent(hook="startup", instruction="begin", **common),
        "webhook": lambda: WebhookEvent(name="build", payload_text="red", **common),
        "instruction": lambda: InstructionEvent(
            instruction=Instruction(instruction_id=name, channel_id=channel_id), **common
        ),
    }
    return makers[kind]()


class Handling:
    """Each event takes some steps of the loop; who runs beside whom is seen."""

    def __init__(self, steps: int) -> None:
        self.steps, self.begun, self.together, self.in_lane = steps, list[TurnEvent](), 0, 0
        self._now: dict[int, int] = defaultdict(int)

    async def __call__(self, taken: TurnEvent) -> None:
        self.begun.append(taken)
        self._now[taken.channel_id] += 1
        self.in_lane = max(self.in_lane, self._now[taken.channel_id])
        self.together = max(self.together, sum(self._now.values()))
        for _ in range(self.steps):
            await asyncio.sleep(0)
        self._now[taken.channel_id] -= 1


async def handled(wanted: list[Wanted], steps: int, gaps: list[int], max_running: int) -> Handling:
    """All events are put, with some steps of the loop between them, and handled."""
    handling = Handling(steps)
    box = Inbox(handling, max_running=max_running, max_depth=100)
    for number, (kind, channel) in enumerate(wanted):
        assert box.put(event(kind, channel, str(number))) is not None
        for _ in range(gaps[number % len(gaps)]):
            await asyncio.sleep(0)
    await box.drain()
    return handling


steps, gaps = st.integers(0, 4), st.lists(st.integers(0, 3), min_size=1, max_size=5)


# Feature: discord-claude-gateway, Property 13: For any sequence of tasks enqueued for the same channel, the tasks should execute in FIFO order, and no two tasks for the same channel should execute concurrently.  # noqa: E501
@given(events, steps, gaps, st.integers(1, 5))
def test_a_channels_events_are_taken_in_order_and_one_at_a_time(wanted, steps, gaps, max_running) -> None:
    """Shown per lane, with several lanes side by side."""
    handling = asyncio.run(handled(wanted, steps, gaps, max_running))
    for channel in {channel for _, channel in wanted}:
        put = [str(number) for number, (_, where) in enumerate(wanted) if where == channel]
        assert [taken.id for taken in handling.begun if taken.channel_id == channel] == put
    assert handling.in_lane <= 1
    assert handling.together <= max_running


# Feature: discord-claude-gateway, Property 14: For any gateway state where the active query count is at or above the configured maximum, attempting to process a new prompt should be rejected with a "system busy" response rather than being forwarded to the Agent SDK.  # noqa: E501
@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 6))
def test_with_all_places_taken_and_the_queue_full_the_next_is_refused(max_running, max_depth, more) -> None:
    """Deviation: a prompt waits where MAX_QUEUE_DEPTH leaves room; it is refused when both limits are reached, which is
    at once with MAX_QUEUE_DEPTH=0. The person's line is in tests/agentic/turn/test_busy_replies.py."""

    async def main() -> None:
        gate, forwarded = asyncio.Event(), []

        async def handle(taken: TurnEvent) -> None:
            forwarded.append(taken.id)
            await gate.wait()

        box = Inbox(handle, max_running=max_running, max_depth=max_depth)
        for number in range(max_running):
            assert box.put(event("message", number, f"active {number}")) is not None
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(forwarded) == max_running
        for number in range(max_depth):
            assert box.put(event("message", 50 + number, f"waits {number}")) is not None
        for number in range(more + 1):
            assert box.put(event("message", 100 + number, "refused")) is None
        gate.set()
        await box.drain()
        assert "refused" not in forwarded
        assert len(forwarded) == max_running + max_depth

    asyncio.run(main())


# Feature: discord-claude-gateway, Property 15: For any sequence of events of mixed types (message, heartbeat, cron, hook, webhook), enqueuing them should succeed (when below max depth), and each event should be assigned a strictly increasing sequence number and a timestamp no earlier than the previous event's timestamp.  # noqa: E501
@given(events, st.lists(st.floats(0, 1e9), min_size=1, max_size=8))
def test_each_event_is_numbered_and_stamped(wanted, times) -> None:
    """The times of a clock that jumps back and forth never go back here. "instruction" is a type more."""

    async def main() -> None:
        ticking = iter(times * 30)
        box = Inbox(Handling(0), max_running=1, max_depth=100, clock=lambda: next(ticking))
        put = [box.put(event(kind, channel, str(n))) for n, (kind, channel) in enumerate(wanted)]
        assert [each.kind for each in put] == [kind for kind, _ in wanted]
        assert all(each.source for each in put)
        for one, other in itertools.pairwise(put):
            assert one.seq < other.seq
            assert one.at <= other.at
        await box.drain()

    asyncio.run(main())


# Feature: discord-claude-gateway, Property 16: For any sequence of events enqueued in the EventQueue, the processing handler should be called with events in the exact order they were enqueued, and the handler for event N+1 should not be called until the handler for event N has completed.  # noqa: E501
@given(events, steps, gaps)
def test_with_one_turn_at_a_time_the_whole_inbox_is_first_in_first_out(wanted, steps, gaps) -> None:
    """Shown for the whole inbox at MAX_CONCURRENT_TURNS=1, and per lane by property 13. Deviation: by default lanes run
    side by side, so that one slow model does not hold every channel."""
    handling = asyncio.run(handled(wanted, steps, gaps, 1))
    assert [taken.id for taken in handling.begun] == [str(number) for number in range(len(wanted))]
    assert handling.together <= 1


# Feature: discord-claude-gateway, Property 17: For any EventQueue that has reached its configured maximum depth, attempting to enqueue a new event should return null (rejection) and the queue size should remain at the maximum.  # noqa: E501
@given(st.integers(0, 20), st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 5)), min_size=1, max_size=10))
def test_a_full_inbox_refuses_and_stays_at_its_depth(max_depth, more) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def handle(_: TurnEvent) -> None:
            await gate.wait()

        box = Inbox(handle, max_running=1, max_depth=max_depth)
        for number in range(max_depth + 1):  # one has the only place
            assert box.put(event("message", number % 3, str(number))) is not None
        assert box.size() == max_depth
        for kind, channel in more:
            assert box.put(event(kind, channel, "refused")) is None
            assert box.size() == max_depth
            await asyncio.sleep(0)
        gate.set()
        await box.drain()
        assert box.size() == 0

    asyncio.run(main())
