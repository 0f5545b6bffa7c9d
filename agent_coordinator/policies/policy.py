"""The protocol between the engine and the rules of a conversation.

The engine asks a policy and carries out what it decides; it knows no rules of its own. A policy is a frozen value: it
reads the conversation's state, draws from the random generator that it is given, and remembers nothing.
"""

from __future__ import annotations

import random
from typing import Protocol

from agent_coordinator.conversations.state import ConversationState
from agent_protocol.coordination.endings import EndReason


class ConversationPolicy(Protocol):
    def opening(self, starter: str, rng: random.Random) -> tuple[str, ...]:
        """The speakers of the first round, in order: the starter, then those who open if it does not."""
        ...

    def next_speakers(self, state: ConversationState, rng: random.Random) -> tuple[str, ...]:
        """The speakers of the next round, in order; at least one."""
        ...

    def pause(self, state: ConversationState, rng: random.Random) -> float:
        """Seconds to wait before the next turn."""
        ...

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """Why the conversation ends now, None to continue. Asked before each turn and after each round, when
        `state.pending` is empty."""
        ...
