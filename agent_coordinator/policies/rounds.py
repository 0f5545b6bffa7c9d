"""A conversation in rounds: each asks every agent once, in shuffled order; each makes a further one less likely."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_coordinator.config import CONTINUATION_BASE_PROBABILITY, CONTINUATION_DECAY, CoordinatorConfig
from agent_coordinator.conversations.state import ConversationState
from agent_protocol.coordination.endings import EndReason

END_REQUESTS_NEEDED = 2  # consecutive turns that were not skips
SPEAKERS_NEEDED = 2  # a single agent would only talk to itself


@dataclass(frozen=True, slots=True)
class Rounds:
    """`delay_min` and `delay_max` in seconds. `talkativeness`: agent → 0 to 1, for those who have one."""

    agents: tuple[str, ...]
    max_rounds: int
    delay_min: float = 0.0
    delay_max: float = 0.0
    talkativeness: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: CoordinatorConfig) -> Rounds:
        delays = (config.turn_delay_min, config.turn_delay_max)
        return cls(config.agents, config.max_rounds, *delays, config.talkativeness)

    def opening(self, starter: str, rng: random.Random) -> tuple[str, ...]:
        others = [agent for agent in self.agents if agent != starter]
        return (starter, *rng.sample(others, len(others)))

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

    def pause(self, state: ConversationState, rng: random.Random) -> float:
        """Time to read the last turn; none where it showed nothing."""
        delay = rng.uniform(self.delay_min, self.delay_max)
        return delay if state.last_turn_showed else 0.0

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        if state.end_streak >= END_REQUESTS_NEEDED:
            return "agreed"
        if state.pending:
            return None
        if not state.opened:
            return "nobody_opened"
        if len(state.skipped) * 2 > state.present:
            return "most_skipped"
        if len(state.spoke) < SPEAKERS_NEEDED:
            return "too_few_spoke"
        if state.round_number >= self.max_rounds:
            return "round_limit"
        return "chance" if rng.random() >= continuation_probability(state.round_number) else None

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


def continuation_probability(round_number: int) -> float:
    """That a round follows this one (1, 2, ...); between 0 and 1."""
    return max(0.0, CONTINUATION_BASE_PROBABILITY - CONTINUATION_DECAY * (round_number - 1))
