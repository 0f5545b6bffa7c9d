"""Who is more talkative is asked more often; nothing else changes."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent_config import FrontMatter, load_settings
from agent_coordinator.config import from_settings
from agent_coordinator.policies.policy import SPEAKERS_NEEDED
from agent_coordinator.policies.rounds import Rounds
from tests.support.coordinator_doubles import conversation

AGENTS = ("chatgpt", "claude", "gemini", "grok")
shares = st.dictionaries(st.sampled_from(AGENTS), st.floats(0, 1))


def speakers(last, rng, talkativeness):
    state = conversation(last_speaker=last)
    return Rounds(AGENTS, 30, talkativeness=talkativeness).choose(state, rng).speakers


@given(shares, st.integers(), st.sampled_from((None, *AGENTS)))
def test_a_round_has_at_least_two_each_once_and_no_stranger(said, seed, last):
    order = speakers(last, random.Random(seed), said)
    assert len(set(order)) == len(order) >= SPEAKERS_NEEDED
    assert set(order) <= set(AGENTS)
    assert order[0] != last


@given(st.floats(0, 1), st.integers())
def test_where_nobody_differs_all_are_asked_as_before(share, seed):
    alike = speakers(None, random.Random(seed), dict.fromkeys(AGENTS, share))
    assert alike == speakers(None, random.Random(seed), {})
    assert set(alike) == set(AGENTS)


def test_each_is_asked_as_often_as_its_share_says():
    rng, asked = random.Random(1), Counter()
    for _ in range(2000):
        asked.update(speakers(None, rng, {"chatgpt": 0.8, "claude": 0.8, "gemini": 0.8, "grok": 0.2}))
    assert asked["claude"] == 2000
    assert 400 < asked["grok"] < 600


def test_the_settings_bring_what_the_agents_own_files_say():
    fronts = {"grok": FrontMatter(talkativeness=0.3), "claude": FrontMatter()}
    settings = load_settings({}, None, fronts=lambda folder, agents: fronts)
    assert from_settings(settings, AGENTS).talkativeness == {"grok": 0.3}
