"""The simulated week: its clock, its people, and an hour of a small server with each policy."""

from __future__ import annotations

import asyncio
import random
import time
from functools import cache

import pytest

from agentic.process.root import ROOT
from tests.benchmarks.simulate.__main__ import rows
from tests.benchmarks.simulate.counted import Counted, deviation, gini
from tests.benchmarks.simulate.people import DAY, HABITS, HOUR, visits
from tests.benchmarks.simulate.virtual_time import NothingToWaitFor, run_virtually
from tests.benchmarks.simulate.week import USUAL, Size, live_through

HOUR_OF_TEN_CHANNELS = Size(channels=10, people=1_000, days=1 / 24, conversations=24.0)


@cache
def hour_with(policy: str) -> Counted:
    return live_through(policy, HOUR_OF_TEN_CHANNELS, seed=1)


def test_a_virtual_week_of_sleep_is_over_at_once_and_in_order() -> None:
    woken: list[str] = []

    async def sleeper(name: str, days: float) -> None:
        await asyncio.sleep(days * DAY)
        woken.append(name)

    async def week() -> float:
        await asyncio.gather(sleeper("late", 7), sleeper("early", 2))
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run_virtually(week()) == pytest.approx(7 * DAY)
    assert woken == ["early", "late"]
    assert time.monotonic() - began < DAY


def test_tasks_that_only_wait_for_each_other_are_reported_instead_of_hanging() -> None:
    with pytest.raises(NothingToWaitFor):
        run_virtually(asyncio.Event().wait())


def test_people_come_at_the_hours_of_their_habit_and_lurkers_do_not_write() -> None:
    found = visits(400, 7.0, random.Random(1))
    assert [visit.at for visit in found] == sorted(visit.at for visit in found)
    assert {visit.habit.name for visit in found} == {habit.name for habit in HABITS if habit.visits}
    for visit in found:
        begin, end = visit.habit.hours
        hour = visit.at % DAY / HOUR
        assert begin <= hour < end or begin <= hour + 24 < end


@pytest.mark.parametrize(
    ("values", "expected"), [([3, 3, 3], 0.0), ([0, 0, 0, 8], 0.75), ([], 0.0), ([0, 0], 0.0), ([1, 3], 0.25)]
)
def test_the_gini_coefficient_is_0_for_equals_and_grows_towards_1(values: list[float], expected: float) -> None:
    assert gini(values) == pytest.approx(expected)


def test_the_deviation_of_shares_is_that_of_the_agent_that_is_furthest_from_its_talkativeness() -> None:
    assert deviation({"a": 60, "b": 40}, {"a": 0.6, "b": 0.4}) == pytest.approx(0.0)
    assert deviation({"a": 50, "b": 50}, {"a": 0.6, "b": 0.4}) == pytest.approx(0.25)
    assert deviation({"a": 10}, {"a": 0.5, "b": 0.5}) == pytest.approx(1.0)


@pytest.mark.parametrize("policy", USUAL)
def test_an_hour_of_ten_channels_has_conversations_in_which_people_are_answered(policy: str) -> None:
    hour = hour_with(policy)
    assert hour.conversations.total() > 0
    assert hour.endings
    assert set(hour.posts) == {"chatgpt", "claude", "gemini", "grok"}
    assert 0 < hour.posted <= hour.calls
    assert hour.cost > 0
    assert hour.waits
    assert len(hour.waits) > hour.left_waiting, "most people are answered while the conversation lasts"
    assert hour.called > 0
    assert all(rows(hour, HOUR_OF_TEN_CHANNELS.channels).values())


def test_with_pulls_nobody_speaks_twice_in_a_row_and_people_are_taken_up_by_the_next_turn() -> None:
    hour = hour_with("pull")
    assert hour.in_a_row == 0
    assert hour.taken_up_at_once >= 0.95
    assert hour.posts_a_call > hour_with("rounds").posts_a_call


def test_a_policy_in_which_people_name_the_speaker_waits_for_them() -> None:
    hour = hour_with("moderated")
    assert 0 < hour.posted < hour_with("rounds").posted
    assert "nobody_named" in hour.endings


def test_the_same_seed_lives_through_the_same_hour_and_another_one_through_another() -> None:
    once, again, other = (live_through("rounds", HOUR_OF_TEN_CHANNELS, seed) for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_an_hour_without_anybody_counts_nothing() -> None:
    nobody = live_through("rounds", Size(channels=1, people=0, days=1 / 24, conversations=0.0), seed=1)
    assert nobody == Counted()


def test_make_simulate_runs_it() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "-m tests.benchmarks.simulate $(ARGS)" in makefile
