"""What the policy `pull` is for: scripted agents that know nothing of it post in most of the turns that it asks for."""

from __future__ import annotations

from functools import cache

import pytest

from tests.benchmarks.measures.posts import SILENT, TALKATIVENESS, rows
from tests.benchmarks.scripted_agents import IDLE_SILENCE
from tests.benchmarks.simulate.counted import Counted, deviation
from tests.benchmarks.simulate.week import Size, live_through

SIZE = Size(channels=20, people=300, days=0.2, conversations=6.0)


@cache
def lived(policy: str, silence: float) -> Counted:
    return live_through(policy, SIZE, 1, silence)


@pytest.mark.parametrize("silence", [IDLE_SILENCE, SILENT])
def test_with_pulls_most_calls_leave_a_post_in_fair_shares_and_people_are_taken_up_at_once(silence: float) -> None:
    pull = lived("pull", silence)
    assert pull.posts_a_call >= 0.8
    assert pull.in_a_row == 0
    assert deviation(pull.posts, TALKATIVENESS) <= 0.25
    assert len(pull.turns_waited) > 10
    assert (pull.taken_up_at_once, pull.left_waiting) == (1.0, 0)


def test_where_models_skip_half_of_what_rounds_ask_a_post_costs_six_tenths_of_one_in_rounds() -> None:
    pull, rounds = lived("pull", SILENT), lived("rounds", SILENT)
    assert rounds.posts_a_call == pytest.approx(0.5, abs=0.05)
    assert pull.cost_a_post <= 0.62 * rounds.cost_a_post
    assert all(row.ok for row in rows(pull, rounds, "half of all in rounds"))
