"""A conversation in rounds: each asks every agent once, in shuffled order; each makes a further one less likely."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_coordinator.policies.policy import Choice
from agent_coordinator.policies.round_rules import SPEAKERS_NEEDED, RoundRules
from agent_coordinator.state import ConversationState


@dataclass(frozen=True, slots=True)
class Rounds(RoundRules):
    """`talkativeness`: agent → 0 to 1, for those who have one."""

    talkativeness: Mapping[str, float] = field(default_factory=dict)

    @property
    def hears_people(self) -> bool:
        """Agents see what people write, and may leave it to those who were called."""
        return False

    def opening(self, starter: str, rng: random.Random) -> Choice:
        others = [agent for agent in self.agents if agent != starter]
        return Choice((starter, *rng.sample(others, len(others))))

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        return Choice(self.next_speakers(state, rng))

    def next_speakers(self, state: ConversationState, rng: random.Random) -> tuple[str, ...]:
        """Shuffled; the last speaker does not come first, unless alone.

        The most talkative agent is in each round, the others in proportion to it; all are in where nobody differs. At
        least two, where there are two.
        """
        order = self._drawn(rng.sample(self.agents, len(self.agents)), rng)
        if len(order) > 1 and order[0] == state.last_speaker:
            other = rng.randrange(1, len(order))
            order[0], order[other] = order[other], order[0]
        return tuple(order)

    def _drawn(self, order: Sequence[str], rng: random.Random) -> list[str]:
        """Those of `order` who are in this round. An agent without a talkativeness has that of the most talkative."""
        shares = {agent: self.talkativeness[agent] for agent in order if agent in self.talkativeness}
        most = max(shares.values(), default=0.0)
        if most <= 0 or all(share == most for share in shares.values()):
            return list(order)
        drawn = [agent for agent in order if rng.random() < shares.get(agent, most) / most]
        if len(drawn) < SPEAKERS_NEEDED:
            loudest = sorted(order, key=lambda agent: -shares.get(agent, most))[:SPEAKERS_NEEDED]
            drawn = [agent for agent in order if agent in drawn or agent in loudest]
        return drawn
