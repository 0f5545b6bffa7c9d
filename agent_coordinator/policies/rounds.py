"""Rounds, round robin, moderated.

A moderator names who speaks next: one of the agents after each turn, or a person whenever they like.

An agent that moderates speaks itself while it has named nobody; where it has just spoken without naming anybody, the
one that has been silent for the longest is next. Where people moderate, the conversation waits for them.

Everybody in turn, in the order given; a round asks each once and begins where the last one ended.

A conversation in rounds: each asks every agent once, in shuffled order; each makes a further one less likely.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_coordinator.policies.policy import SPEAKERS_NEEDED, Choice, RoundRules, Wait
from agent_coordinator.state import ConversationState
from agentic.wire.reasons import EndReason

MODERATOR_WAIT_SECONDS = 1800.0  # for a person to name somebody


@dataclass(frozen=True, slots=True)
class Moderated(RoundRules):
    """`moderator`: one of the agents; None where people moderate."""

    moderator: str | None = None

    def opening(self, starter: str, rng: random.Random) -> Choice:
        return Choice((self.moderator or starter,))

    @property
    def chooses_each_turn(self) -> bool:
        return True

    def choose(self, state: ConversationState, rng: random.Random) -> Choice | Wait:
        begins = self._is_over(state)
        if (named := self._named(state)) is not None:
            return Choice((named[0],), begins, named[1])
        if self.moderator is None:
            return Wait(MODERATOR_WAIT_SECONDS, "nobody_named")
        if self.moderator in self.agents and self.moderator not in (state.last_speaker, *state.silent):
            return Choice((self.moderator,), begins, "moderates, and nobody was named")
        return Choice((self._longest_silent(state),), begins, "nobody was named, and it was silent for the longest")

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """No chance ends what somebody moderates."""
        if state.agreed_to_end:
            return "agreed"
        if state.pending or state.take_up is not None:
            return None
        if not state.opened and state.silent:
            return "nobody_opened"
        return "round_limit" if self._is_over(state) and state.round_number >= self.max_rounds else None

    def _named(self, state: ConversationState) -> tuple[str, str] | None:
        """The agent named, and by whom: by the moderator in its last turn, or by a person in the newest message that
        names one and that no turn has taken up."""
        if state.named in self.agents and state.named_by == self.moderator:
            return state.named, "named by the moderator"
        for heard in reversed(state.heard):
            if heard.message_id <= state.taken_up or heard.calls:
                break
            named = [agent for agent in (heard.replied_to, *heard.names) if agent in self.agents]
            if named:
                return named[0], "named by a person"
        return None

    def _is_over(self, state: ConversationState) -> bool:
        return state.turns_had >= len(self.agents)

    def _longest_silent(self, state: ConversationState) -> str:
        spoke = {said.agent: place for place, said in enumerate(state.history)}
        others = [agent for agent in self.agents if agent not in (state.last_speaker, *state.silent)]
        return min(others or self.agents, key=lambda agent: spoke.get(agent, -1))


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
