from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from agent_coordinator.config import CONTINUATION_BASE_PROBABILITY
from agent_coordinator.policies.policy import continuation_probability
from agent_coordinator.policies.rounds import Rounds
from agentic.state.conversation_state import ConversationState
from agentic.state.talk import AgentPost
from agentic.wire.reasons import EndReason
from tests.support.coordinator_doubles import conversation

AGENTS = ("chatgpt", "claude", "gemini", "grok")
ROUNDS = Rounds(AGENTS, max_rounds=30, delay_min=15.0, delay_max=45.0)


class Fixed(random.Random):
    def __init__(self, value: float) -> None:
        super().__init__(1)
        self.value = value

    def random(self) -> float:
        return self.value


def state(**fields: Any) -> ConversationState:
    opened = {"round": 1, "history": (AgentPost("claude", "Tea or coffee?"),)}
    return conversation(**{**opened, **fields})


def test_a_round_has_everybody_once_and_never_the_last_speaker_first() -> None:
    rng = random.Random(7)
    for _ in range(200):
        order = ROUNDS.choose(state(last_speaker="claude"), rng).speakers
        assert sorted(order) == sorted(AGENTS)
        assert order[0] != "claude"


def test_all_orders_that_are_allowed_come_about_equally_often() -> None:
    rng = random.Random(7)
    seen = Counter(ROUNDS.choose(state(last_speaker="claude"), rng).speakers for _ in range(18_000))
    assert len(seen) == 18
    assert min(seen.values()) > 850
    assert max(seen.values()) < 1150


@pytest.mark.parametrize(("agents", "last"), [(("grok",), "grok"), ((), None), (("grok", "claude"), None)])
def test_small_groups_have_an_order_too(agents: tuple[str, ...], last: str | None) -> None:
    order = Rounds(agents, 30).choose(state(last_speaker=last), random.Random(1)).speakers
    assert sorted(order) == sorted(agents)


def test_two_agents_take_turns() -> None:
    two = Rounds(("claude", "grok"), 30)
    assert two.choose(state(last_speaker="claude"), random.Random(1)).speakers == ("grok", "claude")


def test_the_starter_opens_whatever_the_rest_of_the_order() -> None:
    for seed in range(20):
        order = ROUNDS.opening("gemini", random.Random(seed)).speakers
        assert order[0] == "gemini"
        assert sorted(order) == sorted(AGENTS)


def test_the_pause_is_drawn_from_its_range_and_only_after_a_turn_that_showed_something() -> None:
    assert [ROUNDS.pause(state(last_turn_showed=True), Fixed(luck)) for luck in (0.0, 0.5, 1.0)] == [15.0, 30.0, 45.0]
    assert ROUNDS.pause(state(last_turn_showed=False), Fixed(0.5)) == 0.0


def test_the_probability_of_a_further_round_decays_and_stays_one() -> None:
    chances = [continuation_probability(number) for number in range(1, 60)]
    assert chances[0] == CONTINUATION_BASE_PROBABILITY
    assert chances[1] == pytest.approx(0.82)
    assert all(0.0 <= later <= earlier <= 1.0 for earlier, later in pairwise(chances))
    assert chances[-1] == 0.0


@pytest.mark.parametrize(
    ("number", "spoke", "skipped", "present", "luck", "expected"),
    [
        (1, 4, 0, 4, 0.0, None),
        (1, 2, 2, 4, 0.0, None),  # half is not most
        (1, 2, 3, 5, 0.0, "most_skipped"),
        (1, 1, 3, 4, 0.0, "most_skipped"),
        (1, 1, 1, 4, 0.0, "too_few_spoke"),  # two gave no answer in time
        (1, 0, 0, 4, 0.0, "too_few_spoke"),
        (1, 1, 0, 1, 0.0, "too_few_spoke"),  # alone there: no conversation
        (1, 0, 0, 0, 0.0, "too_few_spoke"),
        (28, 4, 0, 4, 0.0, None),
        (28, 4, 0, 4, 0.05, "chance"),
        (30, 4, 0, 4, 0.0, "round_limit"),
        (1, 4, 0, 4, 0.849, None),
        (1, 4, 0, 4, 0.85, "chance"),
        (2, 4, 0, 4, 0.83, "chance"),
    ],
)
def test_a_finished_round_is_judged(
    number: int, spoke: int, skipped: int, present: int, luck: float, expected: EndReason | None
) -> None:
    agents = [f"agent{n}" for n in range(present)]
    spoken, skips, unheard = agents[:spoke], agents[spoke : spoke + skipped], agents[spoke + skipped :]
    finished = state(round=number, spoke=tuple(spoken), skipped=tuple(skips), unheard=tuple(unheard))
    assert ROUNDS.ending(finished, Fixed(luck)) == expected


def test_a_round_that_nobody_opened_ends_the_conversation() -> None:
    assert ROUNDS.ending(state(history=(), skipped=AGENTS), Fixed(0.0)) == "nobody_opened"


def test_nothing_but_two_end_requests_in_a_row_ends_a_round_before_its_last_turn() -> None:
    running = {"pending": ("grok",), "round": 30}
    endings = [ROUNDS.ending(state(end_streak=streak, **running), Fixed(1.0)) for streak in (0, 1, 2, 3)]
    assert endings == [None, None, "agreed", "agreed"]
    assert ROUNDS.ending(state(end_streak=2, spoke=AGENTS), Fixed(0.0)) == "agreed"
