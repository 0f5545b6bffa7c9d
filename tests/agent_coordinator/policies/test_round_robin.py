from __future__ import annotations

import random
from typing import Any

import pytest

from agent_coordinator.policies.rounds import RoundRobin
from agentic.state.conversation_state import ConversationState
from agentic.state.talk import AgentPost
from tests.support.coordinator_doubles import conversation

AGENTS = ("chatgpt", "claude", "gemini", "grok")
RULES = RoundRobin(AGENTS, max_rounds=30)
RNG = random.Random(1)


def state(**fields: Any) -> ConversationState:
    opened = {"round": 1, "history": (AgentPost("claude", "Tea or coffee?"),)}
    return conversation(**{**opened, **fields})


@pytest.mark.parametrize(
    ("starter", "order"),
    [
        ("chatgpt", AGENTS),
        ("gemini", ("gemini", "grok", "chatgpt", "claude")),
        ("a guest", ("a guest", *AGENTS)),
    ],
)
def test_the_order_given_begins_at_the_starter(starter: str, order: tuple[str, ...]) -> None:
    assert RULES.opening(starter, RNG).speakers == order


@pytest.mark.parametrize(
    ("fields", "first"),
    [
        ({"last_in_order": "claude", "last_speaker": "claude"}, "gemini"),
        ({"last_in_order": "grok", "last_speaker": "claude"}, "chatgpt"),  # grok was absent, or had nothing to say
        ({"last_in_order": "claude", "last_speaker": "grok"}, "gemini"),  # grok spoke because a person asked for it
        ({"last_in_order": "somebody who left"}, "chatgpt"),
        ({"last_speaker": "claude"}, "gemini"),  # a room that goes on, whose conversation is no longer stored
        ({}, "chatgpt"),
    ],
)
def test_the_next_round_goes_on_where_the_order_was(fields: dict[str, Any], first: str) -> None:
    speakers = RULES.choose(state(**fields), RNG).speakers
    assert speakers[0] == first
    assert sorted(speakers) == sorted(AGENTS)
