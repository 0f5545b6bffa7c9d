from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from agent_coordinator.config import CONTINUATION_BASE_PROBABILITY
from agent_coordinator.policies.rounds import (
    Verdict,
    continuation_probability,
    opening_order,
    should_continue,
    speaking_order,
    wraps_up,
)

AGENTS = ("chatgpt", "claude", "gemini", "grok")


class Fixed(random.Random):
    def __init__(self, value: float) -> None:
        super().__init__(1)
        self.value = value

    def random(self) -> float:
        return self.value


def test_a_speaking_order_has_everybody_once_and_never_the_last_speaker_first() -> None:
    rng = random.Random(7)
    for _ in range(200):
        order = speaking_order(AGENTS, "claude", rng)
        assert sorted(order) == sorted(AGENTS)
        assert order[0] != "claude"


def test_all_orders_that_are_allowed_come_about_equally_often() -> None:
    rng = random.Random(7)
    seen = Counter(speaking_order(AGENTS, "claude", rng) for _ in range(18_000))
    assert len(seen) == 18
    assert min(seen.values()) > 850
    assert max(seen.values()) < 1150


@pytest.mark.parametrize(("agents", "last"), [(("grok",), "grok"), ((), None), (("grok", "claude"), None)])
def test_small_groups_have_an_order_too(agents: tuple[str, ...], last: str | None) -> None:
    assert sorted(speaking_order(agents, last, random.Random(1))) == sorted(agents)


def test_two_agents_take_turns() -> None:
    assert speaking_order(("claude", "grok"), "claude", random.Random(1)) == ("grok", "claude")


def test_the_starter_opens_whatever_the_rest_of_the_order() -> None:
    for seed in range(20):
        order = opening_order(AGENTS, "gemini", random.Random(seed))
        assert order[0] == "gemini"
        assert sorted(order) == sorted(AGENTS)


def test_the_probability_of_going_on_decays_by_round_and_stays_one() -> None:
    chances = [continuation_probability(number) for number in range(1, 60)]
    assert chances[0] == CONTINUATION_BASE_PROBABILITY
    assert chances[1] == pytest.approx(0.82)
    assert all(0.0 <= later <= earlier <= 1.0 for earlier, later in pairwise(chances))
    assert chances[-1] == 0.0


@pytest.mark.parametrize(
    ("number", "spoke", "skipped", "present", "luck", "expected"),
    [
        (1, 4, 0, 4, 0.0, Verdict(True)),
        (1, 2, 2, 4, 0.0, Verdict(True)),  # half is not most
        (1, 2, 3, 5, 0.0, Verdict(False, "most_skipped")),
        (1, 1, 3, 4, 0.0, Verdict(False, "most_skipped")),
        (1, 1, 1, 4, 0.0, Verdict(False, "too_few_spoke")),  # two gave no answer in time
        (1, 0, 0, 4, 0.0, Verdict(False, "too_few_spoke")),
        (1, 1, 0, 1, 0.0, Verdict(False, "too_few_spoke")),  # alone there: no talk
        (1, 0, 0, 0, 0.0, Verdict(False, "too_few_spoke")),
        (28, 4, 0, 4, 0.0, Verdict(True)),
        (28, 4, 0, 4, 0.05, Verdict(False, "chance")),
        (30, 4, 0, 4, 0.0, Verdict(False, "round_limit")),
        (1, 4, 0, 4, 0.849, Verdict(True)),
        (1, 4, 0, 4, 0.85, Verdict(False, "chance")),
        (2, 4, 0, 4, 0.83, Verdict(False, "chance")),
    ],
)
def test_a_finished_round_is_judged(
    number: int, spoke: int, skipped: int, present: int, luck: float, expected: Verdict
) -> None:
    assert should_continue(number, spoke, skipped, present, 30, Fixed(luck)) == expected


def test_two_end_requests_in_a_row_outweigh_everything() -> None:
    assert should_continue(1, 4, 0, 4, 30, Fixed(0.0), end_streak=2) == Verdict(False, "agreed")
    assert [wraps_up(streak) for streak in (0, 1, 2, 3)] == [False, False, True, True]
