from __future__ import annotations

import random

from agent_coordinator.idle.schedules import (
    BACKOFF_FIRST,
    BACKOFF_MAX,
    REST_SECONDS,
    Schedule,
)
from agentic.state.idle import TaskState


def delayed(seed: int = 1, state: TaskState | None = None) -> Schedule:
    return Schedule(state, 3600.0, 7200.0, random.Random(seed))


def test_an_immediate_schedule_runs_as_soon_as_nobody_writes_and_again_until_it_rests() -> None:
    schedule = Schedule()
    schedule.reset(300.0)
    assert not schedule.should_run(299.0, idle=True)
    assert not schedule.should_run(300.0, idle=False)
    assert schedule.should_run(300.0, idle=True)
    schedule.mark_complete(310.0)
    assert schedule.should_run(310.0, idle=True)
    schedule.postpone(320.0, "nothing")
    assert (schedule.state.why, schedule.state.due) == ("nothing", 320.0 + REST_SECONDS)
    schedule.reset(400.0)
    assert schedule.should_run(400.0, idle=True)


def test_failures_double_the_pause_and_a_person_does_not_shorten_it() -> None:
    schedule, pauses = Schedule(), []
    for _ in range(9):
        schedule.mark_complete(1000.0, failed=True)
        schedule.reset(1.0)
        pauses.append(schedule.state.due - 1000.0)
    assert pauses[:3] == [BACKOFF_FIRST, 2 * BACKOFF_FIRST, 4 * BACKOFF_FIRST]
    assert pauses[-1] == BACKOFF_MAX
    schedule.mark_complete(2000.0)
    assert (schedule.state.failures, schedule.state.due, schedule.state.why) == (0, 2000.0, "")


def test_a_delayed_schedule_draws_its_delay_anew_after_each_run_and_each_reset() -> None:
    schedule, dues = delayed(), []
    for _ in range(50):
        schedule.reset(1000.0)
        dues.append(schedule.state.due - 1000.0)
        schedule.mark_complete(5000.0)
        dues.append(schedule.state.due - 5000.0)
    assert all(3600.0 <= due <= 7200.0 for due in dues)
    assert len(set(dues)) == len(dues)


def test_what_waited_for_the_morning_comes_after_a_part_of_its_delay() -> None:
    schedule = delayed()
    schedule.postpone(0.0, "quiet", 50_000.0)
    assert 50_000.0 < schedule.state.due <= 53_600.0
    schedule.postpone(0.0, "no people")
    assert 3600.0 <= schedule.state.due <= 7200.0


def test_a_failed_run_of_a_delayed_schedule_waits_for_the_longer_of_delay_and_backoff() -> None:
    schedule = delayed(state=TaskState(failures=6))
    schedule.mark_complete(0.0, failed=True)
    assert schedule.state.due == 300.0 * 2**6
    assert schedule.state.why


def test_a_schedule_goes_on_with_the_state_of_another_process() -> None:
    first = delayed()
    first.reset(300.0)
    first.note(did="x", seen=7)
    second = delayed(2, TaskState.model_validate_json(first.state.model_dump_json()))
    assert second.state == first.state
    assert second.should_run(first.state.due, idle=True)
    assert not second.should_run(first.state.due - 1, idle=True)


def test_shortest_above_longest_is_a_fixed_delay() -> None:
    schedule = Schedule(None, 100.0, 50.0, random.Random(1))
    schedule.reset(0.0)
    assert schedule.state.due == 100.0
