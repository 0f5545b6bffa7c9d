"""Clocks that are set, midnight, and a machine that slept, in the middle of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agentic.agent.events import LONGEST_TURN
from agentic.turn.result import LINES
from tests.support.agent_scene import MEMES, Scene
from tests.support.doubles import LoopTime, settle


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = await Scene(env={"AGENT_MAX_DAILY": "2"}).start()
    yield scene
    await scene.aclose()


@pytest.mark.promise(101)
async def test_an_answer_that_comes_after_the_deadline_by_the_clock_is_not_posted(scene: Scene) -> None:
    async def sleep_of_the_machine() -> None:
        scene.clock.now += 3600  # no timer of the event loop has noticed

    scene.answers(sleep_of_the_machine)
    result = await scene.instruct()
    assert result is not None
    assert (result.skipped, result.reason, scene.texts()) == (True, "deadline", [])
    assert result.usage is not None
    assert result.usage.calls == 1, "it was made, so it is paid"


@pytest.mark.promise(104)
async def test_who_asked_before_the_machine_slept_is_told_that_the_time_is_over(scene: Scene) -> None:
    async def sleep_of_the_machine() -> None:
        scene.clock.now += 3600

    scene.answers(sleep_of_the_machine)
    await scene.ask()
    assert (scene.texts(), scene.channel().reacted) == ([LINES["deadline"]], [])


async def test_at_the_very_deadline_nothing_is_posted_any_more(scene: Scene) -> None:
    deadline = scene.clock.now + 60

    async def think_until_then() -> None:
        scene.clock.now = deadline

    scene.answers(think_until_then)
    result = await scene.instruct("i1", deadline=deadline)
    assert result is not None
    assert (result.reason, scene.texts()) == ("deadline", [])


async def test_who_asks_is_told_when_the_configured_time_is_over_and_an_instruction_keeps_its_own() -> None:
    scene = await Scene(env={"TURN_TIMEOUT_SECONDS": "40"}).start()
    time, never = LoopTime(), asyncio.Event()
    scene.answers(never.wait, never.wait)
    await scene.ask()
    await scene.instruct("i1", channel=MEMES, deadline=scene.clock.now + 80)
    await time.run(39)
    assert (scene.texts(), scene.results) == ([], [])
    await time.run(2)
    assert (scene.texts(), scene.results) == ([LINES["deadline"]], [])
    await time.run(40)
    assert [(result.instruction_id, result.reason) for result in scene.results] == [("i1", "deadline")]
    assert scene.texts(MEMES) == [], "nobody waits there"
    await scene.aclose()


@pytest.mark.promise(101)
async def test_a_clock_that_is_set_back_gives_no_turn_more_than_ten_minutes(scene: Scene) -> None:
    time, first, never = LoopTime(), asyncio.Event(), asyncio.Event()
    scene.answers(first.wait, never.wait)
    await scene.instruct("i1")
    await scene.instruct("i2")  # waits in its lane
    scene.clock.now -= 7200
    first.set()
    await time.run(LONGEST_TURN + 1, step=10)
    assert [(result.instruction_id, result.reason) for result in scene.results] == [("i1", None), ("i2", "deadline")]


@pytest.mark.promise(101)
async def test_a_deadline_in_a_thousand_years_is_ten_minutes(scene: Scene) -> None:
    await scene.instruct(deadline=1e300)
    assert scene.prompt.timeout is not None
    assert scene.prompt.timeout <= LONGEST_TURN


@pytest.mark.promise(102)
async def test_the_days_count_begins_anew_at_the_owners_midnight(scene: Scene) -> None:
    scene.clock.now -= scene.clock.now % 86_400 - 86_400 + 60  # UTC is the owner's zone here
    await scene.instruct("i0")
    first = await scene.instruct("i1")
    second = await scene.instruct("i2")
    scene.clock.now += 120
    third = await scene.instruct("i3")
    await settle()
    assert first is not None
    assert second is not None
    assert third is not None
    assert [first.reason, second.reason, third.reason] == [None, "daily_limit", None]
