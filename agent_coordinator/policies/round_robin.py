"""Everybody in turn, in the order given; a round asks each once and begins where the last one ended."""

from __future__ import annotations

import random
from dataclasses import dataclass

from agent_coordinator.policies.policy import Choice
from agent_coordinator.policies.round_rules import RoundRules
from agent_coordinator.state import ConversationState


@dataclass(frozen=True, slots=True)
class RoundRobin(RoundRules):
    def opening(self, starter: str, rng: random.Random) -> Choice:
        return Choice(self._from(starter))

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        """After a turn that a person asked for the order continues where it was."""
        return Choice(self._after(state.last_in_order or state.last_speaker))

    def _after(self, agent: str | None) -> tuple[str, ...]:
        """One that is no longer here leaves its place to the first."""
        if agent not in self.agents:
            return self.agents
        following = self.agents.index(agent) + 1
        return (*self.agents[following:], *self.agents[:following])

    def _from(self, agent: str) -> tuple[str, ...]:
        """A starter who is none of them speaks before all."""
        if agent not in self.agents:
            return (agent, *self.agents)
        place = self.agents.index(agent)
        return (*self.agents[place:], *self.agents[:place])
