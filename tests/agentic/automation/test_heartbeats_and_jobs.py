"""The clocks of one agent: what is due, and what is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agentic.agent.events import CronEvent, HeartbeatEvent, TurnEvent, read_saved_event
from agentic.automation.clock import AWAY_SECONDS, LOOK_SECONDS, AutomationClock, TargetResolver, next_look
from agentic.chat.outlet import NO_CHANNEL
from agentic.chat.service import ChannelInfo
from agentic.personas.schedules import ActiveHours, Check, Job
from agentic.state.leases import ConditionalLease
from agentic.state.waiting_turns import LastRuns
from agentic.wire.connection import RedisConnection
from tests.support.doubles import Clock, MemoryTicks
from tests.support.redis_server import PATIENT, empty_redis

BERLIN = ZoneInfo("Europe/Berlin")
LAB = ChannelInfo(5, "lab", "science")


@pytest.fixture
async def link() -> AsyncIterator[RedisConnection]:
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as opened:
        yield opened


class Day:
    """An agent's clocks among doubles; time passes while they sleep."""

    def __init__(self, *checks: Check, jobs: tuple[Job, ...] = (), at: str = "2026-11-20 12:00") -> None:
        self.clock = Clock(datetime.fromisoformat(at).replace(tzinfo=BERLIN).timestamp())
        self.orders_checks, self.orders_jobs = checks, jobs
        self.ticks, self.entered = MemoryTicks(), list[tuple[float, TurnEvent]]()
        self.open, self.acts, self.room, self.slept = set[str](), True, True, list[float]()
        self.seen, self.arriving = (LAB,), False
        self.restart()

    def restart(self) -> None:
        channels: Any = self
        persona: Any = self
        services: Any = SimpleNamespace(
            state=SimpleNamespace(turns=SimpleNamespace(last_runs=self.ticks)),
            settings=SimpleNamespace(turn_timeout_seconds=90.0, timezone=BERLIN),
            clock=self.clock,
        )
        queue: Any = SimpleNamespace(
            enqueue=self.enter,
            inbox=SimpleNamespace(has_room=lambda _: self.room),
            registry=SimpleNamespace(is_open=lambda turn_id: turn_id in self.open),
        )
        targets = TargetResolver("claude", channels, None)
        self.clock_task = AutomationClock(
            "claude", persona, services, queue, targets, lease=ConditionalLease(lambda: self.acts), sleep=self.sleep
        )

    def checks(self) -> tuple[Check, ...]:
        return self.orders_checks

    def jobs(self) -> tuple[Job, ...]:
        return self.orders_jobs

    def known(self) -> tuple[ChannelInfo, ...]:
        return self.seen

    def enter(self, event: TurnEvent) -> bool:
        if self.room:
            self.entered.append((self.clock.now, event))
        return self.room

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.now += seconds

    async def passes(self, hours: float) -> list[str]:
        """The local times of what ran while the hours passed."""
        end, before = self.clock.now + hours * 3600, len(self.entered)
        while self.clock.now < end:
            await self.sleep(min(await self.clock_task.tick(), end - self.clock.now))
        await self.clock_task.tick()
        return [f"{datetime.fromtimestamp(at, BERLIN):%H:%M}" for at, _ in self.entered[before:]]


def check(**more: object) -> Check:
    return Check(**{"name": "Build", "instruction": "Look.", "interval_seconds": 1800, **more})  # type: ignore[arg-type]


def job(expression: str, **more: object) -> Job:
    return Job(**{"name": "Plan", "expression": expression, "instruction": "Plan.", **more})  # type: ignore[arg-type]


async def test_a_check_runs_after_each_interval_and_not_at_once() -> None:
    day = Day(check(channel="lab"))
    assert await day.passes(2) == ["12:30", "13:00", "13:30", "14:00"]
    event = day.entered[0][1]
    assert isinstance(event, HeartbeatEvent)
    assert (event.channel_id, event.theme, event.check, event.instruction) == (5, "science", "Build", "Look.")
    assert (event.forced, event.cools_down, event.kind) == (False, False, "heartbeat")
    assert event.deadline == day.entered[0][0] + 90


async def test_without_a_channel_it_speaks_nowhere_and_in_a_strange_one_it_does_not_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    day = Day(check(), check(name="Other", channel="secret"))
    await day.passes(1.1)
    assert {(event.source, event.channel_id) for _, event in day.entered} == {("heartbeat.md: Build", NO_CHANNEL)}
    assert caplog.text.count("channel secret isn't one of this bot's channels") == 1


async def test_outside_of_its_hours_a_check_waits_and_when_they_begin_it_is_due() -> None:
    day = Day(check(active_hours=ActiveHours(9 * 60, 11 * 60)), at="2026-11-20 08:00")
    assert await day.passes(26) == ["09:00", "09:30", "10:00", "10:30", "09:00", "09:30", "10:00"]


async def test_an_empty_file_makes_no_call_and_the_files_are_looked_at_each_minute() -> None:
    day = Day()
    assert await day.passes(1) == []
    assert set(day.slept) == {LOOK_SECONDS}
    day.orders_checks = (check(interval_seconds=60),)
    assert await day.passes(0.05) == ["13:01", "13:02", "13:03"], "an edit is taken up without a restart"


async def test_the_files_are_looked_at_each_minute_also_beside_a_check_that_is_hours_away() -> None:
    day = Day(check(interval_seconds=7200))
    assert [await day.clock_task.tick() for _ in range(2)] == [LOOK_SECONDS] * 2


async def test_who_does_not_hold_the_agent_looks_again_in_seconds() -> None:
    day = Day(check())
    day.acts = False
    assert await day.clock_task.tick() == AWAY_SECONDS


async def test_the_next_look_is_at_what_is_due_first() -> None:
    day = Day(check(), jobs=(job("1 12 * * *"),), at="2026-11-20 12:00:30")
    assert await day.passes(0.1) == ["12:01"]
    assert day.entered[0][0] % 60 == 0, "in its minute's first second"


async def test_what_is_held_back_by_its_hours_is_looked_at_with_the_files() -> None:
    closed, now = check(active_hours=ActiveHours(9 * 60, 11 * 60)), Day().clock.now
    assert next_look(closed, now - 7200, now, BERLIN) == now + LOOK_SECONDS


async def test_a_check_whose_turn_is_not_over_is_passed_over() -> None:
    day = Day(check())
    await day.passes(0.5)
    day.open.add(day.entered[0][1].id)
    assert await day.passes(1) == []
    day.open.clear()
    assert await day.passes(0.5) == ["14:00"]


@pytest.mark.promise(110)
async def test_a_restart_neither_repeats_nor_loses_a_check() -> None:
    day = Day(check())
    await day.passes(0.75)
    day.restart()
    assert await day.passes(0.5) == ["13:00"]
    day.clock.now += 86_400  # away for a day
    day.restart()
    assert await day.passes(0.6) == ["13:15", "13:45"], "once for all that was missed"


async def test_where_the_agent_is_not_held_nothing_ticks_and_who_takes_over_knows_what_ran() -> None:
    day = Day(check())
    day.acts = False
    assert await day.passes(3) == []
    assert day.ticks.times == {}
    day.ticks.times["claude", check().field] = day.clock.now - 600  # the other one's last run
    day.acts = True
    assert await day.passes(0.5) == ["15:20"]


async def test_a_tick_that_another_process_took_is_not_run_again() -> None:
    day = Day(check())
    await day.passes(0.4)
    day.ticks.elsewhere.add(check().field)
    assert await day.passes(1) == ["13:00"]


async def test_while_redis_is_away_at_the_start_it_waits_to_know_what_ran() -> None:
    day = Day(check(interval_seconds=60))
    day.ticks.away = True
    assert await day.passes(0.5) == []
    day.ticks.away = False
    assert await day.passes(0.03) == ["12:31"]


@pytest.mark.promise(111)
@pytest.mark.parametrize("catch_up", [True, False])
async def test_what_is_due_while_the_inbox_is_full_stays_due(catch_up: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    day = Day(check(), jobs=(job("30 12 * * *", catch_up=catch_up),))
    day.room = False
    assert await day.passes(0.75) == []
    assert set(day.ticks.times.values()) == {day.clock.now - 0.75 * 3600}, "nothing counts as run"
    day.room = True
    assert await day.passes(0.1) == ["12:45", "12:45"]
    assert await day.passes(0.1) == [], "and once"
    assert caplog.text.count("heartbeat 'Build' waits: the inbox is full") == 1


async def test_a_job_that_is_not_made_up_for_waits_for_an_hour_and_one_that_is_for_a_day(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = (job("30 12 * * *", name="Lunch"), job("30 12 * * *", name="Plan", catch_up=True))
    day = Day(check(interval_seconds=7200), jobs=jobs)
    day.room = False
    assert await day.passes(3) == []
    assert caplog.text.count("skipped cron 'Lunch': it has waited for too long") == 1
    day.room = True
    assert await day.passes(0.1) == ["15:00", "15:00"]
    assert {event.source for _, event in day.entered} == {"heartbeat.md: Build", "agents.md: Plan"}
    assert sorted(day.ticks.keeps.values()) == [7200, 86_400]
    assert (await day.passes(22)).count("12:30") == 2, "the next day's are run in time"
    assert sorted(set(day.ticks.keeps.values())) == [3600, 7200, 86_400]


@pytest.mark.promise(111)
@pytest.mark.parametrize("catch_up", [True, False])
async def test_what_is_due_while_its_server_is_on_its_way_stays_due(catch_up: bool) -> None:
    day = Day(check(channel="lab"), jobs=(job("30 12 * * *", channel="lab", catch_up=catch_up),))
    day.seen, day.arriving = (), True
    assert await day.passes(0.75) == []
    day.seen, day.arriving = (LAB,), False
    assert await day.passes(0.1) == ["12:45", "12:45"]
    assert {event.channel_id for _, event in day.entered} == {LAB.channel_id}


@pytest.mark.promise(111)
async def test_what_another_process_ran_while_it_had_the_agent_is_not_run_again(link: RedisConnection) -> None:
    day, other = Day(check(), jobs=(job("30 12 * * *", catch_up=True),)), LastRuns(link)
    day.ticks = LastRuns(link)  # type: ignore[assignment]
    day.restart()
    assert await day.passes(0.25) == []
    day.acts = False
    await day.passes(0.5)
    await other.load("claude")
    for task in (*day.orders_checks, *day.orders_jobs):
        assert await other.run("claude", task.field, day.clock.now - 900)
    day.acts = True
    assert await day.passes(0.1) == []
    assert await day.passes(0.25) == ["13:00"], "the check, an interval after the other one's"


async def test_who_gets_the_agent_back_runs_nothing_before_it_knows_what_the_other_one_ran() -> None:
    day = Day(check())
    await day.passes(0.25)
    day.acts = False
    await day.passes(0.1)
    day.ticks.away = day.acts = True
    assert await day.passes(0.5) == [], "what is in memory is of an earlier time"
    day.ticks.away = False
    assert await day.passes(0.1) == ["12:51"]


async def test_what_stayed_due_is_for_whoever_takes_the_agent_over() -> None:
    day = Day(check())
    day.room = False
    await day.passes(0.6)
    day.acts = False
    await day.passes(0.1)
    day.ticks.times["claude", check().field] = day.clock.now  # there it ran
    day.acts = day.room = True
    assert await day.passes(0.4) == []


@pytest.mark.promise(112)
@pytest.mark.parametrize("hours", [0.1, 5, 23])
async def test_a_job_that_ran_by_a_clock_that_was_ahead_runs_at_its_time(hours: float) -> None:
    day = Day(jobs=(job("0 13 * * *"),))
    await day.passes(0)
    day.ticks.times["claude", job("0 13 * * *").field] = day.clock.now + hours * 3600
    assert await day.passes(2) == ["13:00"]


@pytest.mark.promise(112)
async def test_a_job_that_ran_by_a_clock_a_minute_ahead_does_not_run_twice() -> None:
    day = Day(jobs=(job("0 13 * * *"),), at="2026-11-20 12:59")
    await day.passes(0)
    day.ticks.times["claude", job("0 13 * * *").field] = day.clock.now + 60
    assert await day.passes(1) == []


async def test_the_turn_of_a_tick_is_kept_with_it() -> None:
    day = Day(check(), jobs=(job("30 12 * * *"),))
    await day.passes(0.6)
    assert {read_saved_event(kept).event for kept in day.ticks.kept.values()} == {event for _, event in day.entered}


async def test_a_job_runs_at_its_local_time_also_where_summer_time_begins() -> None:
    day = Day(jobs=(job("30 8 * * *"),), at="2026-03-28 00:00")
    assert await day.passes(71) == ["08:30", "08:30", "08:30"]
    assert all(isinstance(event, CronEvent) for _, event in day.entered)
    assert round(day.entered[1][0] - day.entered[0][0]) == 23 * 3600


@pytest.mark.promise(110)
async def test_a_job_at_an_hour_that_comes_twice_runs_once() -> None:
    day = Day(jobs=(job("30 2 * * *"),), at="2026-10-24 12:00")
    assert await day.passes(48) == ["02:30", "02:30"]


@pytest.mark.promise(110)
@pytest.mark.parametrize(("catch_up", "ran"), [(True, ["13:00"]), (False, [])])
async def test_what_was_missed_in_a_long_sleep_runs_once_where_the_job_says_so(catch_up: bool, ran: list[str]) -> None:
    day = Day(jobs=(job("0 9 * * *", catch_up=catch_up),))
    await day.passes(1)
    day.clock.now += 3 * 86_400
    assert await day.passes(1) == ran


async def test_a_job_whose_times_were_changed_has_missed_nothing() -> None:
    day = Day(jobs=(job("0 9 * * *", catch_up=True),), at="2026-11-20 08:00")
    assert await day.passes(6) == ["09:00"]
    day.orders_jobs = (job("0 13 * * *", catch_up=True),)
    assert await day.passes(1) == []


async def test_a_fault_in_one_round_is_told_and_the_next_one_comes(caplog: pytest.LogCaptureFixture) -> None:
    class Enough(BaseException):
        pass

    day = Day(check())
    day.checks, good = lambda: 1 / 0, day.checks  # type: ignore[method-assign, return-value]
    rounds = []

    async def next_round(seconds: float) -> None:
        rounds.append(seconds)
        day.checks = good  # type: ignore[method-assign]
        day.clock.now += seconds
        if day.entered:
            raise Enough

    day.sleep = next_round  # type: ignore[method-assign]
    day.restart()
    with pytest.raises(Enough):
        await day.clock_task.run()
    assert "automation round failed" in caplog.text
