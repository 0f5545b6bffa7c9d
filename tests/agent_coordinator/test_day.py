"""Whole days of the coordinator in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agentic.wire import keys
from agentic.wire.entries import ProfileNote
from agentic.wire.messages import PersonNotice
from tests.benchmarks.simulate.virtual_time import run_virtually
from tests.support.coordinator_doubles import CHANNEL, NOON, MemoryLease, MemoryState
from tests.support.idle_server import ADA, HOUR, Agents, Record, idle_config

DAY = 24 * HOUR


class Day:
    """A coordinator that runs for a day, with agents and a record, from noon on."""

    def __init__(self, *tasks: str) -> None:
        self.clock: Callable[[], float] = lambda: NOON + asyncio.get_running_loop().time()
        self.record, self.bus, self.state = Record(self.clock), Agents(self.clock, 20.0), MemoryState()
        self.tasks = tasks

    def coordinator(self, lease: MemoryLease | None = None, seed: int = 1) -> Coordinator:
        return Coordinator(
            CoordinatorContext(
                idle_config(*self.tasks),
                self.bus,
                self.state,
                lease=lease,
                clock=self.clock,
                rng=random.Random(seed),
                record=self.record,
            ),
            self.record,
        )

    def ada_writes(self) -> None:
        self.record.ada_writes()
        notice = PersonNotice(channel_id=CHANNEL, message_id=1, at=self.clock()).to_wire()
        for handler in self.bus.handlers[keys.COORDINATOR_ACTIVITY]:
            handler(notice)

    def live(self, *work: Callable[[], Coroutine[Any, Any, Any]], seconds: float = DAY) -> None:
        async def lived() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds), asyncio.TaskGroup() as tasks:
                    for each in work:
                        tasks.create_task(each())

        run_virtually(lived())

    def hours(self) -> list[tuple[str, float]]:
        return [(task, (at - NOON) / HOUR) for task, at in zip(self.bus.tasks(), self.bus.at, strict=True)]


@pytest.mark.promise(440)
def test_a_day_on_which_nothing_happens_has_no_model_call() -> None:
    day = Day()
    day.live(lambda: day.coordinator().run())
    assert day.bus.asked == []
    assert day.record.notes == []
    looks = DAY / 600 * 2 + DAY / HOUR + DAY / (2 * HOUR)
    assert day.record.asked <= looks, "one cheap query each"


def test_after_somebody_wrote_the_tasks_come_once_each_in_their_order_and_windows() -> None:
    day = Day()

    async def ada() -> None:
        await asyncio.sleep(HOUR)
        day.ada_writes()
        await asyncio.sleep(3.9 * HOUR)
        day.record.unasked.clear()  # the record keeps messages for some days: those before it are gone

    day.live(lambda: day.coordinator().run(), ada, seconds=3 * DAY)
    hours = dict(day.hours())
    assert [task for task, _ in day.hours()] == ["summarise", "profile", "follow_up", "discover"]
    idle = 1.0 + 300 / HOUR
    assert idle <= hours["summarise"] <= hours["profile"] <= idle + 0.03
    assert idle + 1 <= hours["follow_up"] <= idle + 2 + 0.01
    assert hours["discover"] > hours["follow_up"]


@pytest.mark.promise(441)
def test_who_writes_on_and_on_is_never_written_to_unasked() -> None:
    day = Day("follow_up", "discover")
    day.record.profile = ProfileNote(user_id=ADA, topics=("ships",), upto=2**62, at=0.0)

    async def ada() -> None:
        while True:
            day.ada_writes()
            await asyncio.sleep(0.9 * HOUR)

    day.live(lambda: day.coordinator().run(), ada)
    assert day.bus.asked == []


@pytest.mark.promise(442)
def test_of_two_coordinators_one_acts() -> None:
    day = Day()
    first, second = MemoryLease(), MemoryLease(free=False)

    async def handed_over() -> None:
        day.ada_writes()
        await asyncio.sleep(2.5 * HOUR)
        first.take_away()
        second.give()

    day.live(
        lambda: day.coordinator(first, 1).run(), lambda: day.coordinator(second, 2).run(), handed_over, seconds=DAY
    )
    assert sorted(day.bus.tasks()) == ["follow_up", "profile", "summarise"]
