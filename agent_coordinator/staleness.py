"""Give a conversation that repeats itself a new angle for its next speakers, and then its end."""

from __future__ import annotations

from dataclasses import replace

from agent_coordinator.novelty import ANGLES, repetition_in
from agent_coordinator.room_rules import may_end_early
from agent_coordinator.state import ConversationState

MOST_ANGLES = 2  # turns; one more than that, and nothing new came


def judged(before: ConversationState, state: ConversationState) -> ConversationState:
    """The state after a turn, with an angle for the next one if the talk repeats itself, or ended. A turn that left no
    message in spite of an angle brought nothing new either. A room goes on until all members had a fair chance."""
    if state.brief:
        return state
    angles = before.angles + (before.angle is not None)
    if state.messages == before.messages:
        kept = replace(state, angles=angles)
        is_over = before.angle is not None and angles >= MOST_ANGLES and may_end_early(state)
        return kept.ended("repeating") if is_over else kept
    repetition = repetition_in(_posts_since_a_person(state))
    if repetition is None:
        return replace(state, angle=None, angles=0)
    if angles >= MOST_ANGLES and may_end_early(state):
        return state.ended("repeating")
    return replace(state, angle=ANGLES[repetition], angles=angles)


def _posts_since_a_person(state: ConversationState) -> tuple[str, ...]:
    posts = state.messages - state.heard[-1].after if state.heard else len(state.history)
    return tuple(said.text for said in state.history[-posts:]) if posts else ()
