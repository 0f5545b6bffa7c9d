"""The schedule when the clock changes: daylight saving, a clock that is set, a machine that slept, the night."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agent_coordinator.scheduler import Scheduler
from tests.support.coordinator_doubles import BERLIN, Luck, MemoryBus, MemoryState, Time, config, room, until


def berlin(month: int, day: int, hour: int, minute: int = 0) -> float:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN).timestamp()


async def fired(
    time: Time, end: float, state: MemoryState | None = None, jumps: Any = (), **changes: Any
) -> list[float]:
    """When conversations began until `end`; `jumps` are pairs of a moment and the seconds by which the clock is set."""
    found: list[float] = []
    waiting = list(jumps)

    async def sleep(seconds: float) -> None:
        await time.sleep(seconds)
        if waiting and time.now >= waiting[0][0]:
            time.now += waiting.pop(0)[1]

    async def fire() -> None:
        found.append(time.now)

    ours = config(**{"schedule_min": 4, "schedule_max": 4, **changes})
    scheduler = Scheduler(
        CoordinatorContext(ours, MemoryBus(), state or MemoryState(), clock=time.clock, rng=Luck(0.5), sleep=sleep)
    )
    task = asyncio.create_task(scheduler.run(fire))
    await until(lambda: time.now >= end or task.done(), turns=100_000)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return found


@pytest.mark.promise(103)
@pytest.mark.parametrize(("month", "day", "hours"), [(3, 29, 23), (10, 25, 25)])
async def test_a_day_with_an_hour_less_or_more_fires_each_slot_once(month: int, day: int, hours: int) -> None:
    time = Time(berlin(month, day, 0))
    slots = await fired(time, berlin(month, day, 23, 59), active_start=0, active_end=24)
    length = hours * 3600
    assert slots == pytest.approx([berlin(month, day, 0) + (index + 0.5) * length / 4 for index in range(4)], abs=1)


@pytest.mark.promise(101)
async def test_a_clock_that_is_set_back_repeats_no_conversation() -> None:
    jumps = [(berlin(6, 10, 13, 5), -3 * 3600)]
    slots = await fired(Time(berlin(6, 10, 0)), berlin(6, 10, 23, 59), jumps=jumps)
    assert slots == [berlin(6, 10, hour) for hour in (9, 13, 17, 21)]


@pytest.mark.promise(102)
async def test_a_clock_that_is_set_back_over_midnight_repeats_no_conversation_of_the_day_before() -> None:
    jumps = [(berlin(6, 11, 0, 10), -2 * 3600)]
    slots = await fired(Time(berlin(6, 10, 0)), berlin(6, 11, 12), jumps=jumps)
    assert slots == [berlin(6, 10, hour) for hour in (9, 13, 17, 21)] + [berlin(6, 11, 9)]


async def test_a_restart_says_what_of_the_days_plan_is_still_to_come(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    state, time = MemoryState(), Time(berlin(6, 10, 0))
    await fired(time, berlin(6, 10, 14), state)
    caplog.clear()
    await fired(time, berlin(6, 10, 15), state)
    assert [line for line in caplog.messages if "2026-06-10" in line] == [
        "plan for 2026-06-10: 4 conversations, 2 to come, the next at 17:00 CEST"
    ]


@pytest.mark.parametrize("hour", [22, 23.5])
async def test_a_start_after_the_days_last_conversation_says_so_and_names_the_way_to_one_now(
    caplog: pytest.LogCaptureFixture, hour: float
) -> None:
    caplog.set_level("INFO")
    start = berlin(6, 10, 0) + hour * 3600
    await fired(Time(start), start + 600)
    assert caplog.messages[-1] == (
        "no more conversations planned today; COORDINATOR_FIRE_ON_STARTUP=true begins one at each start"
    )


async def test_a_schedule_that_is_switched_off_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await fired(Time(berlin(6, 10, 0)), berlin(6, 11, 0), schedule_min=0, schedule_max=0)
    assert caplog.messages == ["no conversations planned: COORDINATOR_SCHEDULE_MAX is 0"]


async def test_without_a_channel_of_discord_the_owner_is_not_sent_to_a_setting_that_is_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    await fired(Time(berlin(6, 10, 0)), berlin(6, 11, 0), schedule_min=0, schedule_max=0, channels={})
    assert caplog.messages == ["no conversations planned: CHANNEL_THEME_MAP has no Discord channel"]


@pytest.mark.promise(104)
async def test_a_machine_that_slept_catches_up_with_no_burst() -> None:
    jumps = [(berlin(6, 10, 8), 10 * 3600)]
    slots = await fired(Time(berlin(6, 10, 0)), berlin(6, 10, 23, 59), jumps=jumps)
    assert slots == [berlin(6, 10, 21)]


@pytest.mark.promise(104)
async def test_a_machine_that_slept_for_three_days_goes_on_with_today() -> None:
    jumps = [(berlin(6, 10, 8), 3 * 86_400)]
    slots = await fired(Time(berlin(6, 10, 0)), berlin(6, 13, 23, 59), jumps=jumps)
    assert slots == [berlin(6, 13, hour) for hour in (9, 13, 17, 21)]


@pytest.mark.promise(55)
async def test_quiet_hours_and_idle_ticks_ask_no_agent_anything() -> None:
    bus, time = room("chatgpt", "claude"), Time(berlin(6, 10, 23, 30))
    quiet = config(schedule_min=6, schedule_max=6, active_start=7, active_end=23)
    coordinator = Coordinator(
        CoordinatorContext(quiet, bus, MemoryState(), clock=time.clock, rng=Luck(0.0), sleep=time.sleep)
    )
    task = asyncio.create_task(coordinator.run())
    await until(lambda: time.now >= berlin(6, 11, 6, 59), turns=100_000)
    asked = list(bus.asked)
    await until(lambda: time.now >= berlin(6, 11, 8), turns=100_000)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (len(time.slept) > 400, asked) == (True, [])
    assert bus.asked, "in the morning they are asked"
