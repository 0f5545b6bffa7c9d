"""What a policy is, and the rules that all policies share.

The engine asks a policy and carries out what it decides; it knows no rules of its own. A policy is a frozen value: it
reads the conversation's state, draws from the random generator that it is given, and remembers nothing. Some decide a
whole round at once, some one speaker at a time: a Choice says whether a round begins with it.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass

from agent_coordinator.config import CONTINUATION_BASE_PROBABILITY, CONTINUATION_DECAY
from agentic.state.conversation_state import ConversationState
from agentic.state.conversations import SpeakerScore
from agentic.wire.reasons import EndReason

SPEAKERS_NEEDED = 2  # a single agent would only talk to itself


@dataclass(frozen=True, slots=True)
class Choice:
    """The next speakers, in order; at least one. `because` is why the first of them was chosen, `scores` are those of
    all that could have been, for people who ask; `suggested_topic` is for the first one, if nothing calls for it."""

    speakers: tuple[str, ...]
    new_round: bool = True
    because: str | None = None
    scores: tuple[SpeakerScore, ...] = ()
    suggested_topic: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nobody speaks until a person says who does; after so many seconds the conversation ends for `otherwise`."""

    seconds: float
    otherwise: EndReason


@dataclass(frozen=True, slots=True)
class ConversationPolicy(ABC):
    """`delay_min` and `delay_max` in seconds."""

    agents: tuple[str, ...]
    max_rounds: int
    delay_min: float = 0.0
    delay_max: float = 0.0

    @property
    def hears_people(self) -> bool:
        """Whether the next turn answers what a person writes. In a room it does in any case."""
        return True

    @property
    def chooses_each_turn(self) -> bool:
        """Whether a speaker who has not begun is chosen again when a person writes."""
        return False

    @abstractmethod
    def opening(self, starter: str, rng: random.Random) -> Choice:
        """The starter, then those who open if it does not."""

    @abstractmethod
    def choose(self, state: ConversationState, rng: random.Random) -> Choice | Wait:
        """Name who speaks next; asked when nobody is pending and the conversation does not end."""

    def pause(self, state: ConversationState, rng: random.Random) -> float:
        """Seconds to wait before the next turn: time to read the last one; none if it showed nothing, or if a person
        waits."""
        delay = rng.uniform(self.delay_min, self.delay_max)
        return delay if state.counts.last_turn_showed and state.talk.must_answer is None else 0.0

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """Why the conversation ends now, None to continue. Asked before each turn, and when nobody is pending. A room
        has endings of its own instead."""
        if state.counts.agreed_to_end:
            return "agreed"
        if state.queue.pending:
            return None
        if not state.is_opened:
            return "nobody_opened"
        if len(state.counts.skipped) * 2 > state.present:
            return "most_skipped"
        if len(state.counts.spoke) < SPEAKERS_NEEDED:
            return "too_few_spoke"
        return None if state.talk.must_answer is not None else self.by_length(state, rng)

    def by_length(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """Why a conversation that is alive ends after this round."""
        if state.counts.round >= self.max_rounds:
            return "round_limit"
        return "chance" if rng.random() >= continuation_probability(state.counts.round) else None


def continuation_probability(round_number: int) -> float:
    """That a round follows this one (1, 2, ...); between 0 and 1."""
    return max(0.0, CONTINUATION_BASE_PROBABILITY - CONTINUATION_DECAY * (round_number - 1))
