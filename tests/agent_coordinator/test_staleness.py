from __future__ import annotations

from typing import Any

import pytest

from agent_coordinator.conversation import apply_staleness, instruction_for
from agent_coordinator.text_signals import PERSPECTIVES
from agentic.state.conversation_state import ConversationState
from agentic.state.talk import PersonMessage
from agentic.wire.messages import Result
from tests.support.coordinator_doubles import changed, conversation

AGENTS = ("ada", "bob")
NEW = "Number {}: granite from quarry {}, shipped in year {} by firm {}."
OLD = "The lighthouse keepers kept a diary of every single storm."


def begun(**fields: Any) -> ConversationState:
    return conversation(**fields).begin_round(AGENTS * 10)


def turn(state: ConversationState, text: str | None) -> ConversationState:
    agent = state.queue.pending[0]
    answer = {"skipped": True} if text is None else {"text": text, "message_id": 5}
    result = Result(instruction_id="i", agent_name=agent, **answer)
    after = state.take_turn(agent, result)
    return apply_staleness(state, changed(after, pending=state.queue.pending[1:]))


def run(*texts: str | None, state: ConversationState | None = None) -> ConversationState:
    state = state or begun()
    for text in texts:
        state = turn(state, text)
    return state


@pytest.mark.promise(191)
def test_a_talk_that_repeats_itself_gives_the_next_speaker_an_angle() -> None:
    state = run(OLD, OLD)
    assert state.talk.perspective == PERSPECTIVES["duplicate"]
    assert instruction_for(state.begin_turn("i")).angle == state.talk.perspective
    assert ConversationState.from_json(state.to_json()) == state


def test_what_is_new_takes_the_angle_back() -> None:
    state = run(OLD, OLD, NEW.format(1, 2, 3, 4))
    assert (state.talk.perspective, state.talk.perspectives, state.ended_because) == (None, 0, None)


@pytest.mark.promise(191)
@pytest.mark.parametrize("then", [(OLD, OLD), (None, None), (OLD, None), (None, OLD)])
def test_a_talk_in_which_nothing_new_comes_ends_within_three_turns(then: tuple[str | None, ...]) -> None:
    state = run(OLD, OLD)
    assert state.ended_because is None
    assert run(then[0], state=state).ended_because is None
    assert run(*then, state=state).ended_because == "repeating"


def test_silence_alone_is_not_stale() -> None:
    state = run(OLD, None, None, None)
    assert (state.talk.perspective, state.ended_because) == (None, None)


def test_a_person_who_writes_makes_it_new_again() -> None:
    state = run(OLD, OLD)
    state = state.hear(PersonMessage(9, "Say it again!", after=state.counts.messages))
    assert (state.talk.perspective, state.talk.perspectives) == (None, 0)
    assert run(OLD, state=state).talk.perspective is None
    assert run(OLD, OLD, state=state).talk.perspective == PERSPECTIVES["duplicate"]


def test_a_single_turn_and_a_reactive_round_are_not_judged() -> None:
    assert run(OLD, OLD, state=begun(joining=7)).talk.perspective is None
