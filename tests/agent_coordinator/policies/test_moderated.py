from __future__ import annotations

import random
from typing import Any

import pytest

from agent_coordinator.policies.policy import Choice, Wait
from agent_coordinator.policies.rounds import MODERATOR_WAIT_SECONDS, Moderated
from agentic.state.conversation_state import ConversationState
from agentic.state.talk import AgentPost, PersonMessage
from agentic.wire.reasons import EndReason
from tests.support.coordinator_doubles import conversation

AGENTS = ("chatgpt", "claude", "gemini", "grok")
BY_CLAUDE, BY_PEOPLE = Moderated(AGENTS, 30, moderator="claude"), Moderated(AGENTS, 30)
RNG = random.Random(1)
SAID = (AgentPost("claude", "one"), AgentPost("grok", "two"), AgentPost("gemini", "three"))


def state(**fields: Any) -> ConversationState:
    opened = {"round": 1, "history": SAID, "spoke": ("claude",), "last_speaker": "gemini"}
    return conversation(**{**opened, **fields})


@pytest.mark.parametrize(
    ("fields", "speaker"),
    [
        ({}, "claude"),
        ({"named": "grok", "named_by": "claude", "last_speaker": "claude"}, "grok"),
        ({"named": "grok", "named_by": "gemini"}, "claude"),  # only the moderator names
        ({"named": "somebody who left", "named_by": "claude", "last_speaker": "claude"}, "chatgpt"),
        ({"last_speaker": "claude"}, "chatgpt"),  # it named nobody, and chatgpt has not spoken at all
        ({"silent": ("claude",)}, "chatgpt"),  # it had nothing to say, or is away
        ({"heard": (PersonMessage(7, "Grok?", ("grok",)),)}, "grok"),
        ({"heard": (PersonMessage(7, "Hm."),)}, "claude"),
    ],
)
def test_the_one_that_was_named_speaks_else_the_moderator_else_the_one_that_was_silent_longest(
    fields: dict[str, Any], speaker: str
) -> None:
    choice = BY_CLAUDE.choose(state(**fields), RNG)
    assert isinstance(choice, Choice)
    assert choice.speakers == (speaker,)
    assert choice.because


def test_where_people_moderate_the_conversation_waits_for_them_and_not_forever() -> None:
    assert BY_PEOPLE.choose(state(), RNG) == Wait(MODERATOR_WAIT_SECONDS, "nobody_named")


def test_a_person_who_moderates_names_an_agent_in_a_message() -> None:
    choice = BY_PEOPLE.choose(state(heard=(PersonMessage(7, "What does Grok say?", ("grok",)),)), RNG)
    assert isinstance(choice, Choice)
    assert (choice.speakers, choice.because) == (("grok",), "named by a person")


def test_the_moderator_opens() -> None:
    assert BY_CLAUDE.opening("grok", RNG).speakers == ("claude",)
    assert BY_PEOPLE.opening("grok", RNG).speakers == ("grok",)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, None),
        ({"end_streak": 2}, "agreed"),
        ({"history": (), "spoke": (), "silent": ("claude",)}, "nobody_opened"),
        ({"history": ()}, None),  # it has not been asked yet
        ({"round": 30, "spoke": AGENTS}, "round_limit"),
        ({"round": 30}, None),
        ({"round": 30, "spoke": AGENTS, "heard": (PersonMessage(7, "Wait."),)}, None),
    ],
)
def test_nothing_ends_by_chance_what_somebody_moderates(fields: dict[str, Any], reason: EndReason | None) -> None:
    assert BY_CLAUDE.ending(state(**fields), RNG) == reason
