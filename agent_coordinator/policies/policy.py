"""The protocol between the engine and the rules of a conversation.

The engine asks a policy and carries out what it decides; it knows no rules of its own. A policy is a frozen value: it
reads the conversation's state, draws from the random generator that it is given, and remembers nothing. Some decide a
whole round at once, some one speaker at a time: a Choice says whether a round begins with it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

from agent_coordinator.state import ConversationState
from agentic.state.pulls import Pull
from agentic.wire.endings import EndReason


@dataclass(frozen=True, slots=True)
class Choice:
    """The next speakers, in order; at least one. `because` is why the first of them was chosen, `pulls` are those of
    all that could have been, for people who ask; `lead` is what it is to bring in, where nothing calls for it."""

    speakers: tuple[str, ...]
    new_round: bool = True
    because: str | None = None
    pulls: tuple[Pull, ...] = ()
    lead: str | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nobody speaks until a person says who does; after so many seconds the conversation ends for `otherwise`."""

    seconds: float
    otherwise: EndReason


class ConversationPolicy(Protocol):
    @property
    def hears_people(self) -> bool:
        """Whether the next turn takes up what a person writes. In a room it does in any case."""
        ...

    @property
    def chooses_each_turn(self) -> bool:
        """Whether a speaker who has not begun is chosen again when a person writes."""
        ...

    def opening(self, starter: str, rng: random.Random) -> Choice:
        """The starter, then those who open if it does not."""
        ...

    def choose(self, state: ConversationState, rng: random.Random) -> Choice | Wait:
        """Name who speaks next; asked when nobody is pending and the conversation does not end."""
        ...

    def pause(self, state: ConversationState, rng: random.Random) -> float:
        """Seconds to wait before the next turn."""
        ...

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """Why the conversation ends now, None to continue. Asked before each turn, and when nobody is pending. A room
        has endings of its own instead."""
        ...


class PolicyBook(Protocol):
    """Which policy a conversation has."""

    def name_for(self, channel_id: int, theme: str) -> str:
        """The policy of a conversation that begins there."""
        ...

    def of(self, state: ConversationState) -> ConversationPolicy: ...
