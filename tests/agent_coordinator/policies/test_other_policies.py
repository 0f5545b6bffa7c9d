"""The engine runs any policy: one that is not in rounds, through the engine that the coordinator uses."""

from __future__ import annotations

import random
from dataclasses import dataclass

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.engine import Engine
from agent_coordinator.policies.policy import Choice
from agentic.state.conversation_state import ConversationState
from agentic.wire.reasons import EndReason
from tests.support.coordinator_doubles import CHANNEL, Luck, MemoryState, OnePolicy, Time, config, room


@dataclass(frozen=True)
class Alternation:
    """Two agents in strict alternation, a second apart, for so many turns."""

    pair: tuple[str, str]
    turns: int

    hears_people = False
    chooses_each_turn = False

    def opening(self, starter: str, rng: random.Random) -> Choice:
        return Choice((starter,))

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        first, second = self.pair
        return Choice((second if state.talk.last_speaker == first else first,))

    def pause(self, state: ConversationState, rng: random.Random) -> float:
        return 1.0 if state.is_opened else 0.0

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        return "round_limit" if len(state.talk.history) >= self.turns else None


async def test_the_engine_runs_a_policy_without_rounds() -> None:
    bus, time = room("claude", "grok"), Time()
    policy = Alternation(("claude", "grok"), turns=5)
    engine = Engine(
        CoordinatorContext(config(), bus, MemoryState(), clock=time.clock, rng=Luck(), sleep=time.sleep),
        OnePolicy(policy),
    )
    report = await engine.converse(CHANNEL, "debate", starter="grok")
    assert bus.speakers() == ["grok", "claude", "grok", "claude", "grok"]
    assert (report.messages, report.ended_because) == (5, "round_limit")
    assert time.slept == [1.0] * 4
