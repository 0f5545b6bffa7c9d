"""What an owner changes in the plan of the day, while the scheduler waits for its next slot."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.scheduler import MAX_SLOTS, Scheduler, add_slot, move_slot, skip_slot
from agentic.state.schedule import Slot
from tests.support.coordinator_doubles import NOON, Luck, MemoryBus, MemoryState, Time, config, until

TODAY = "2026-06-10"
HOUR = 3600.0
DONE, OPEN = Slot(1.0, done=True), Slot(100.0)


@pytest.mark.parametrize(
    ("change", "slots"),
    [
        (move_slot([DONE, OPEN], 100.0, 50.0), [DONE, Slot(50.0, planned=100.0)]),
        (move_slot([DONE, OPEN], 100.4, 50.0), [DONE, Slot(50.0, planned=100.0)]),
        (move_slot([DONE, OPEN], 1.0, 50.0), None),
        (move_slot([DONE, OPEN], 100.0, 1.0), [DONE, Slot(1.0, planned=100.0)]),
        (move_slot([OPEN, Slot(50.0)], 100.0, 50.0), None),
        (move_slot([Slot(100.0, added=True)], 100.0, 50.0), [Slot(50.0, added=True, planned=100.0)]),
        (skip_slot([DONE, OPEN], 100.0), [DONE, Slot(100.0, done=True)]),
        (skip_slot([DONE], 1.0), None),
        (add_slot([DONE, OPEN], 7.0), [DONE, OPEN, Slot(7.0, added=True)]),
        (add_slot([DONE, OPEN], 1.0), [DONE, OPEN, Slot(1.0, added=True)]),
        (add_slot([OPEN], 100.0), None),
        (add_slot([OPEN] * MAX_SLOTS, 7.0), None),
    ],
)
def test_a_change_keeps_every_slot_at_its_index(change, slots):
    assert change == slots


class Waiting:
    """A scheduler that waits for a slot three hours from noon. Its sleep ends when the test moves the clock."""

    def __init__(self, *slots: Slot, **changes: int) -> None:
        self.time, self.state, self.fired = Time(), MemoryState(), list[float]()
        self.state.coordination.schedule.schedules[TODAY] = list(slots)
        self._moved = asyncio.Event()
        self.scheduler = Scheduler(
            CoordinatorContext(
                config(**changes), MemoryBus(), self.state, clock=self.time.clock, rng=Luck(), sleep=self._sleep
            )
        )

    async def _sleep(self, _: float) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def go_to(self, at: float) -> None:
        self.time.now = at
        self._moved.set()
        for _ in range(50):
            await asyncio.sleep(0)

    async def _fire(self) -> None:
        self.fired.append(self.time.now)

    async def __aenter__(self) -> Waiting:
        self._task = asyncio.create_task(self.scheduler.run(self._fire))
        await until(lambda: TODAY in self.scheduler._known or not self.state.coordination.schedule.schedules)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_a_moved_slot_fires_once_at_its_new_time_and_not_at_its_old_one():
    async with Waiting(Slot(NOON + HOUR)) as here:
        assert await here.scheduler.move(NOON + HOUR, NOON + 2 * HOUR)
        assert not await here.scheduler.move(NOON + HOUR, NOON + 3 * HOUR), "the second of two clicks"
        await here.go_to(NOON + HOUR + 1)
        assert here.fired == []
        await here.go_to(NOON + 2 * HOUR)
        await here.go_to(NOON + 2 * HOUR + 60)
        assert here.fired == [NOON + 2 * HOUR]


async def test_a_slot_that_is_moved_to_a_moment_from_now_does_not_wait_for_the_minute():
    async with Waiting(Slot(NOON + HOUR)) as here:
        assert await here.scheduler.move(NOON + HOUR, NOON - 1)
        await until(lambda: here.fired == [NOON])


@pytest.mark.promise(126)
async def test_a_slot_that_moves_while_it_is_being_claimed_fires_at_its_new_time_alone():
    async with Waiting(Slot(NOON + HOUR)) as here:
        claim = here.state.coordination.schedule.claim_slot

        async def moved_meanwhile(date: str, index: int, at: float) -> bool:
            here.state.coordination.schedule.claim_slot = claim  # type: ignore[method-assign]
            assert await here.scheduler.move(NOON + HOUR, NOON + 2 * HOUR)
            return await claim(date, index, at)

        here.state.coordination.schedule.claim_slot = moved_meanwhile  # type: ignore[method-assign]
        await here.go_to(NOON + HOUR)
        assert here.fired == []
        await here.go_to(NOON + 2 * HOUR)
        assert here.fired == [NOON + 2 * HOUR]


async def test_a_skipped_slot_does_not_fire_and_an_added_one_does_after_the_active_hours_too():
    async with Waiting(Slot(NOON + HOUR), active_start=7, active_end=13) as here:
        assert await here.scheduler.skip(NOON + HOUR)
        assert await here.scheduler.add(NOON + 8 * HOUR) == "added"
        assert await here.scheduler.add(NOON + 8 * HOUR) == "known_time"
        await here.go_to(NOON + HOUR)
        await here.go_to(NOON + 8 * HOUR)
        assert here.fired == [NOON + 8 * HOUR]


async def test_an_added_slot_fires_also_where_no_conversations_are_scheduled():
    async with Waiting(Slot(NOON + HOUR), schedule_min=0, schedule_max=0) as here:
        assert await here.scheduler.add(NOON + 2 * HOUR)
        await here.go_to(NOON + HOUR)
        await here.go_to(NOON + 2 * HOUR)
        assert here.fired == [NOON + 2 * HOUR]
        assert [slot.done for slot in here.state.coordination.schedule.schedules[TODAY]] == [False, True]


async def test_what_is_added_before_the_day_is_planned_does_not_take_the_place_of_the_plan():
    here = Waiting(schedule_min=4, schedule_max=4)
    del here.state.coordination.schedule.schedules[TODAY]
    assert await here.scheduler.add(NOON + HOUR)
    assert len(here.state.coordination.schedule.schedules[TODAY]) == 5


@pytest.mark.parametrize(
    ("hours", "end", "to_come"),
    [(-0.1, 23, False), (0.1, 23, True), (12, 23, True), (12.1, 23, False), (13.9, 2, True), (14.1, 2, False)],
)
def test_a_time_is_of_today_until_midnight_or_until_the_active_hours_are_over(hours, end, to_come):
    scheduler = Scheduler(
        CoordinatorContext(config(active_start=7, active_end=end), MemoryBus(), MemoryState(), clock=lambda: NOON)
    )
    assert scheduler.is_to_come(NOON + timedelta(hours=hours).total_seconds()) is to_come
