"""A coordinator that dies at any step of a room, on a real Redis: its successor goes on, no number is left out or used
twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agentic.state.rooms import Room, RoomMember
from agentic.state.shared_state import SharedState
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.messages import Command, Instruction, Result, RoomOrder
from tests.support.coordinator_doubles import CHANNEL, config
from tests.support.redis_server import PATIENT, RedisServer, until

THREAD = 5000
NAMES = ("claude", "grok", "historian")
TURNS = 7
ROOM = Room(
    thread_id=THREAD,
    channel_id=CHANNEL,
    conversation_id="c",
    topic="tea",
    members=tuple(RoomMember(name=name, shown=name) for name in NAMES),
    turns=TURNS,
    audience_seconds=0.05,
)


class Members:
    """Agents of another process, which outlives the coordinators: each turn is taken once, and its result is kept."""

    def __init__(self, bus: Bus, state: SharedState) -> None:
        self.bus, self.state = bus, state
        self.posts: list[tuple[str, int]] = []
        self.results: dict[str, Result] = {}
        self.held = 0  # the number of the post that takes until `free`
        self.thinking, self.free = asyncio.Event(), asyncio.Event()
        for name in NAMES:
            bus.subscribe(keys.instructions(name), self._taker(name))

    def _taker(self, name: str) -> Callable[[str], Any]:
        async def take(raw: str) -> None:
            instruction = Instruction.model_validate_json(raw)
            if instruction.room is not None and instruction.room.turn_number == self.held:
                self.thinking.set()
                await self.free.wait()
            if instruction.instruction_id not in self.results:
                self.results[instruction.instruction_id] = await self._turn(name, instruction)
            await self.bus.publish(keys.results(name), self.results[instruction.instruction_id])

        return take

    async def _turn(self, name: str, instruction: Instruction) -> Result:
        room, brief = await self.state.coordination.rooms.read(THREAD), instruction.room
        assert brief is not None
        turn = {"instruction_id": instruction.instruction_id, "agent_name": name}
        if room is None or room.status != "active" or brief.turn_number != room.turn_number + 1:
            return Result(**turn, skipped=True, reason="out_of_turn")
        self.posts.append((name, brief.turn_number))
        return Result(**turn, text=f"{name} says {brief.turn_number}", message_id=brief.turn_number)


class Dying(Bus):
    """A bus that stops its coordinator before or after it asks for a post."""

    step, number = "", 0

    def __init__(self, link: RedisConnection) -> None:
        super().__init__(link, republish_every=0.05, retry_every=0.01)
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def ask(self, agent: str, instruction: Instruction, **options: Any) -> Result:
        here = instruction.room is not None and instruction.room.turn_number == self.number
        if here and self.step == "before it asks":
            await self._stop()
        result = await super().ask(agent, instruction, **options)
        if here and self.step == "before it records the result":
            await self._stop()
        return result

    async def _stop(self) -> None:
        self.reached.set()
        await self.go_on.wait()


class Leader:
    """A coordinator with a connection of its own. `die` is as by SIGKILL: it no longer reaches Redis."""

    def __init__(self, address: str) -> None:
        self.link = RedisConnection(address, command_timeout=PATIENT)
        self.bus, self.state = Dying(self.link), SharedState(self.link)
        plain = config(schedule_min=0, schedule_max=0)
        self.coordinator = Coordinator(CoordinatorContext(plain, self.bus, self.state))

    async def __aenter__(self) -> Leader:
        self.tasks = [asyncio.create_task(self.bus.run()), asyncio.create_task(self.coordinator.run())]
        await until(lambda: self.bus.ready.is_set() and self.coordinator.acting)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.die()
        await self.link.aclose()

    async def die(self) -> None:
        async def away(*_: object) -> None:
            raise StateUnavailable("killed")

        self.link.call = away  # type: ignore[method-assign]
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class Stage:
    def __init__(self, address: str, stack: AsyncExitStack) -> None:
        self.address, self.stack = address, stack

    async def open(self) -> None:
        link = await self.stack.enter_async_context(RedisConnection(self.address, command_timeout=PATIENT))
        self.bus, self.state = Bus(link), SharedState(link)
        self.members = Members(self.bus, self.state)
        running = asyncio.create_task(self.bus.run())
        self.stack.callback(running.cancel)
        await until(self.bus.ready.is_set)

    async def lead(self) -> Leader:
        return await self.stack.enter_async_context(Leader(self.address))

    async def order(self, command: str, **order: Any) -> None:
        given = Command(command=command, channel_id=THREAD, room=RoomOrder(**order))
        while not await self.bus.publish(keys.COORDINATOR_COMMANDS, given):  # noqa: ASYNC110 - Redis knows
            await asyncio.sleep(0.01)

    async def room(self) -> Room:
        room = await self.state.coordination.rooms.read(THREAD)
        assert room is not None
        return room

    async def until_room(self, condition: Callable[[Room], bool]) -> Room:
        async with asyncio.timeout(10):
            while True:
                room = await self.state.coordination.rooms.read(THREAD)
                if room is not None and condition(room):
                    return room
                await asyncio.sleep(0.005)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
async def stage(redis: RedisServer) -> AsyncIterator[Stage]:
    redis.flush()
    async with AsyncExitStack() as stack:
        made = Stage(redis.url, stack)
        await made.open()
        yield made


async def finished(stage: Stage) -> None:
    room = await stage.until_room(lambda room: room.status == "closed")
    assert (room.why, room.turn_number) == ("turn_limit", TURNS)
    expected = [(NAMES[number % len(NAMES)], number + 1) for number in range(TURNS)]
    assert stage.members.posts == expected, "each post once, in order, by the member whose turn it was"
    assert await stage.state.coordination.conversations.kept() == []


STEPS = ("before it asks", "while the agent thinks", "before it records the result")


@pytest.mark.promise(150)
@pytest.mark.parametrize("number", [1, 4, TURNS])
@pytest.mark.parametrize("step", STEPS)
async def test_its_successor_goes_on_at_the_turn_at_which_it_died(stage: Stage, step: str, number: int) -> None:
    leader = await stage.lead()
    leader.bus.step, leader.bus.number = step, number
    stage.members.held = number if step == "while the agent thinks" else 0
    await stage.order("room-open", room=ROOM.model_dump_json())
    await until(lambda: leader.bus.reached.is_set() or stage.members.thinking.is_set())
    await leader.die()
    stage.members.free.set()
    assert (await stage.room()).turn_number == number - 1
    await stage.lead()
    await finished(stage)


@pytest.mark.promise(150)
async def test_its_successor_waits_for_the_rest_of_a_slot(stage: Stage) -> None:
    leader = await stage.lead()
    await stage.order("room-open", room=ROOM.model_copy(update={"audience_seconds": 3600.0}).model_dump_json())
    slot = await stage.until_room(lambda room: room.slot_until is not None)
    await leader.die()
    successor = await stage.lead()
    await until(lambda: THREAD in successor.coordinator.engine.locks.busy)
    assert (await stage.room()).slot_until == slot.slot_until
    assert len(stage.members.posts) == len(NAMES)
    await stage.order("room-next")
    await stage.until_room(lambda room: room.turn_number == 2 * len(NAMES) and room.slot_until is not None)
    assert [number for _, number in stage.members.posts] == [1, 2, 3, 4, 5, 6]
    assert (await stage.room()).slot_until != slot.slot_until
    await stage.order("room-next")
    await stage.until_room(lambda room: room.closing_because == "turn_limit" and room.slot_until is not None)
    await stage.order("room-next")
    await finished(stage)


@pytest.mark.promise(151)
async def test_a_room_goes_on_however_long_nobody_led_and_though_its_conversation_is_lost(stage: Stage) -> None:
    leader = await stage.lead()
    leader.bus.step, leader.bus.number = "before it asks", 3
    await stage.order("room-open", room=ROOM.model_dump_json())
    await until(leader.bus.reached.is_set)
    await leader.die()
    await stage.state.coordination.conversations.drop(THREAD, "c")
    assert await stage.state.coordination.conversations.kept() == []
    await stage.lead()
    await finished(stage)


@pytest.mark.promise(150)
async def test_a_room_that_was_pausing_when_its_coordinator_died_counts_its_last_turn_and_stays_paused(
    stage: Stage,
) -> None:
    leader = await stage.lead()
    leader.bus.step, leader.bus.number = "before it records the result", 2
    await stage.order("room-open", room=ROOM.model_dump_json())
    await until(leader.bus.reached.is_set)
    await stage.order("room-pause", reason="asked")
    await stage.until_room(lambda room: room.status == "paused")
    await leader.die()
    await stage.lead()
    room = await stage.until_room(lambda room: room.turn_number == 2)
    assert (room.status, room.why) == ("paused", "paused")
    await stage.order("room-resume")
    await finished(stage)


@pytest.mark.promise(151)
@pytest.mark.parametrize("step", ["before it asks", "before it records the result"])
async def test_a_redis_that_was_emptied_gets_the_room_back(stage: Stage, redis: RedisServer, step: str) -> None:
    leader = await stage.lead()
    leader.bus.step, leader.bus.number = step, 2
    await stage.order("room-open", room=ROOM.model_dump_json())
    await until(leader.bus.reached.is_set)
    redis.flush()
    leader.bus.step = ""
    leader.bus.go_on.set()
    room = await stage.until_room(lambda room: room.status == "closed")
    assert (room.why, room.turn_number) == ("turn_limit", TURNS)
    assert [number for _, number in stage.members.posts] == list(range(1, TURNS + 1))
