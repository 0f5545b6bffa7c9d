"""ConversationPolicy: who speaks next, and when a conversation ends.

The engine carries out what a policy decides. A policy is a frozen value that reads the conversation's state, draws from
the given random generator, and remembers nothing. Some policies choose a whole round at once, some one speaker at a
time.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from agent_coordinator.config import CONTINUATION_BASE_PROBABILITY, CONTINUATION_DECAY
from agentic.pace import LIVE, reading_seconds
from agentic.state.conversation_state import ConversationState
from agentic.state.conversations import SpeakerScore
from agentic.wire.reasons import EndReason

SPEAKERS_NEEDED = 2  # a single agent would only talk to itself


@dataclass(frozen=True, slots=True)
class Choice:
    """The next speakers, in order; at least one. `new_round`: a round begins with them. `because` says why the first
    was chosen, and `scores` are all candidates' scores, for people who ask. `suggested_topic`: for the first speaker,
    if nothing in the conversation calls for it."""

    speakers: tuple[str, ...]
    new_round: bool = True
    because: str | None = None
    scores: tuple[SpeakerScore, ...] = ()
    suggested_topic: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for a person to name the next speaker. After `seconds`, the conversation ends with the reason
    `otherwise`."""

    seconds: float
    otherwise: EndReason


@dataclass(frozen=True, slots=True)
class ConversationPolicy(ABC):
    """`delay_min` and `delay_max` in seconds; chance ends nothing before the end of round `min_rounds`."""

    hears_people: ClassVar[bool] = True  # the next turn answers a person's message; in a room, it always does
    chooses_each_turn: ClassVar[bool] = False  # after a person's message, unless the turn has begun
    has_rounds: ClassVar[bool] = False  # each agent has a turn of its own in each round

    agents: tuple[str, ...]
    max_rounds: int
    delay_min: float = 0.0
    delay_max: float = 0.0
    min_rounds: int = 1

    @abstractmethod
    def opening(self, starter: str, rng: random.Random) -> Choice:
        """Return the starter, followed by the agents that open if it skips."""

    @abstractmethod
    def choose(self, state: ConversationState, rng: random.Random) -> Choice | Wait:
        """Choose who speaks next. Called when nobody is pending and the conversation doesn't end."""

    def pause(self, state: ConversationState, rng: random.Random) -> float:
        """Return the seconds to wait before the next turn: time to read the last post, in a room by its length; 0 if
        there was none, if a person waits, and in a room with a pace of its own."""
        if not state.counts.last_turn_showed or state.person_waits:
            return 0.0
        if state.room is None:
            return rng.uniform(self.delay_min, self.delay_max)
        characters = len(state.talk.history[-1].text) if state.talk.history else 0
        return reading_seconds(characters, self.delay_min, self.delay_max) if state.room.pace == LIVE else 0.0

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """Return why the conversation ends now, or None to continue. Called before each turn, and when nobody is
        pending; not for rooms, which have endings of their own."""
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
        return None if state.person_waits else self.by_length(state, rng)

    def by_length(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """Return why a lively conversation ends after this round, or None to continue."""
        if state.counts.round >= self.max_rounds:
            return "round_limit"
        if state.counts.round < self.min_rounds:
            return None
        return "chance" if rng.random() >= continuation_probability(state.counts.round) else None


def continuation_probability(round_number: int) -> float:
    """Return the probability, 0 to 1, that another round follows round 1, 2, ..."""
    return max(0.0, CONTINUATION_BASE_PROBABILITY - CONTINUATION_DECAY * (round_number - 1))
