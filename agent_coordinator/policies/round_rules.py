"""The rules that all policies share: the pause between turns, and when a conversation of rounds ends."""

from __future__ import annotations

import random
from dataclasses import dataclass

from agent_coordinator.config import CONTINUATION_BASE_PROBABILITY, CONTINUATION_DECAY
from agent_coordinator.state import ConversationState
from agentic.wire.endings import EndReason

SPEAKERS_NEEDED = 2  # a single agent would only talk to itself


@dataclass(frozen=True, slots=True)
class RoundRules:
    """`delay_min` and `delay_max` in seconds."""

    agents: tuple[str, ...]
    max_rounds: int
    delay_min: float = 0.0
    delay_max: float = 0.0

    @property
    def hears_people(self) -> bool:
        return True

    @property
    def chooses_each_turn(self) -> bool:
        return False

    def pause(self, state: ConversationState, rng: random.Random) -> float:
        """Time to read the last turn; none where it showed nothing, or where a person waits."""
        delay = rng.uniform(self.delay_min, self.delay_max)
        return delay if state.last_turn_showed and state.take_up is None else 0.0

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        if state.agreed_to_end:
            return "agreed"
        if state.pending:
            return None
        if not state.opened:
            return "nobody_opened"
        if len(state.skipped) * 2 > state.present:
            return "most_skipped"
        if len(state.spoke) < SPEAKERS_NEEDED:
            return "too_few_spoke"
        return None if state.take_up is not None else self.by_length(state, rng)

    def by_length(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """Why a conversation that is alive ends after this round."""
        if state.round_number >= self.max_rounds:
            return "round_limit"
        return "chance" if rng.random() >= continuation_probability(state.round_number) else None


def continuation_probability(round_number: int) -> float:
    """That a round follows this one (1, 2, ...); between 0 and 1."""
    return max(0.0, CONTINUATION_BASE_PROBABILITY - CONTINUATION_DECAY * (round_number - 1))
