"""A room's pace: when its turns come, over restarts, and who doesn't wait."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agent_coordinator.config import WAIT_STEP_SECONDS
from tests.support.coordinator_doubles import until
from tests.support.room_scene import RoomScene

HOUR = 3600.0


@pytest.fixture
async def scene() -> AsyncIterator[RoomScene]:
    async with RoomScene() as running:
        yield running


async def opened(scene: RoomScene, **changes: object) -> float:
    """Open a slow room in held time, let its first member speak, and return when that was."""
    scene.time.held = True
    await scene.open(**{"pace": "slow", "turns": 3, **changes})
    scene.free = True
    scene.let_one_speak()
    await until(lambda: scene.time.waiting)
    return scene.time.now


async def test_a_slow_room_takes_a_turn_an_hour(scene: RoomScene) -> None:
    await scene.open(pace="slow", turns=3)
    began = scene.time.now
    await scene.talk()
    assert (scene.room.turn_number, scene.room.why) == (3, "turn_limit")
    assert 2 * HOUR <= scene.time.now - began < 2 * HOUR + 4 * WAIT_STEP_SECONDS
    lines = [(line.members, line.turn) for line in scene.room.lines if line.kind == "next"]
    assert lines == [(("Grok",), 1), (("Historian",), 2)], "the thread is told once who is next"


@pytest.mark.promise(597)
async def test_a_restart_keeps_the_time_of_the_next_turn(scene: RoomScene) -> None:
    began = await opened(scene)
    assert scene.room.next_turn_at == began + HOUR
    await scene.die()
    scene.time.now += 0.5 * HOUR
    scene.time.let_go()
    await scene.lead()
    await until(lambda: len(scene.bus.asked) == 2)
    assert began + HOUR <= scene.time.now <= began + HOUR + 2 * WAIT_STEP_SECONDS
    assert [line.members for line in scene.room.lines if line.kind == "next"][:1] == [("Grok",)]


async def test_a_member_that_people_call_does_not_wait_and_does_not_move_the_next_turn(scene: RoomScene) -> None:
    began = await opened(scene)
    scene.person_writes(900, "And milk?")
    await until(lambda: len(scene.coordinator._tasks) == 1)
    assert len(scene.bus.asked) == 1, "a question for nobody waits for the next turn"
    scene.person_writes(901, "Historian, why?")
    await until(lambda: len(scene.bus.asked) == 2 and scene.time.waiting)
    assert (scene.bus.speakers()[-1], scene.room.next_turn_at) == ("historian", began + HOUR)


async def test_the_next_turn_comes_at_once_if_people_want_it(scene: RoomScene) -> None:
    began = await opened(scene)
    scene.time.now = began + 60
    assert await scene.give("room-next") == "requested"
    await until(lambda: len(scene.bus.asked) == 2 and scene.room.turn_number == 2)
    assert (scene.bus.speakers(), scene.room.next_turn_at) == (["claude", "grok"], began + 60 + HOUR)


async def test_a_live_room_leaves_time_to_read_by_the_post_s_length() -> None:
    async with RoomScene() as scene:
        await scene.die()
        await scene.lead(turn_delay_min=15.0, turn_delay_max=45.0)
        await scene.open(turns=2)
        began = scene.time.now
        await scene.talk()
        assert scene.time.now - began == 15.0, "a short post"
        assert (scene.room.next_turn_at, scene.room.lines) == (None, ())
