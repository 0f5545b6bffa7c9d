"""Policies in rounds: everybody in shuffled order, everybody in the given order, or as a moderator says.

A moderator names who speaks next: one of the agents after each turn, or a person whenever they like. An agent that
moderates speaks itself while it has named nobody; if it has just spoken without naming anybody, the agent that has been
silent for the longest is next. If people moderate, the conversation waits for them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_coordinator.policies.policy import SPEAKERS_NEEDED, Choice, ConversationPolicy, Wait
from agentic.state.conversation_state import ConversationState
from agentic.wire.reasons import EndReason

MODERATOR_WAIT_SECONDS = 1800.0  # for a person to name somebody


@dataclass(frozen=True, slots=True)
class Moderated(ConversationPolicy):
    """`moderator`: one of the agents; None if people moderate."""

    moderator: str | None = None

    def opening(self, starter: str, rng: random.Random) -> Choice:
        return Choice((self.moderator or starter,))

    @property
    def chooses_each_turn(self) -> bool:
        return True

    def choose(self, state: ConversationState, rng: random.Random) -> Choice | Wait:
        begins = state.counts.turns >= len(self.agents)
        if (named := self._named(state)) is not None:
            return Choice((named[0],), begins, named[1])
        if self.moderator is None:
            return Wait(MODERATOR_WAIT_SECONDS, "nobody_named")
        if self.moderator in self.agents and self.moderator not in (state.talk.last_speaker, *state.counts.silent):
            return Choice((self.moderator,), begins, "moderates, and nobody was named")
        spoke = {post.agent: place for place, post in enumerate(state.talk.history)}
        others = [agent for agent in self.agents if agent not in (state.talk.last_speaker, *state.counts.silent)]
        quietest = min(others or self.agents, key=lambda agent: spoke.get(agent, -1))
        return Choice((quietest,), begins, "nobody was named, and it was silent for the longest")

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """No chance ends what somebody moderates."""
        if state.counts.agreed_to_end:
            return "agreed"
        if state.queue.pending or state.talk.must_answer is not None:
            return None
        if not state.is_opened and state.counts.silent:
            return "nobody_opened"
        over = state.counts.turns >= len(self.agents) and state.counts.round >= self.max_rounds
        return "round_limit" if over else None

    def _named(self, state: ConversationState) -> tuple[str, str] | None:
        """The agent named, and by whom: by the moderator in its last turn, or by a person in the newest message that
        names one and that no turn has taken up."""
        if state.queue.named in self.agents and state.queue.named_by == self.moderator:
            return state.queue.named, "named by the moderator"
        for message in reversed(state.talk.heard):
            if message.message_id <= state.talk.answered or message.calls:
                break
            named = [agent for agent in (message.replied_to, *message.names) if agent in self.agents]
            if named:
                return named[0], "named by a person"
        return None


@dataclass(frozen=True, slots=True)
class RoundRobin(ConversationPolicy):
    def opening(self, starter: str, rng: random.Random) -> Choice:
        if starter not in self.agents:  # it speaks before all
            return Choice((starter, *self.agents))
        return Choice(self._from(self.agents.index(starter)))

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        """After a turn that a person asked for the order continues where it was. An agent that is no longer here leaves
        its place to the first."""
        last = state.queue.last_in_order or state.talk.last_speaker
        return Choice(self._from(self.agents.index(last) + 1 if last in self.agents else 0))

    def _from(self, place: int) -> tuple[str, ...]:
        return (*self.agents[place:], *self.agents[:place])


@dataclass(frozen=True, slots=True)
class Rounds(ConversationPolicy):
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

        The most talkative agent is in each round, the others in proportion to it; all are in if nobody differs. At
        least two, if there are two.
        """
        order = rng.sample(self.agents, len(self.agents))
        shares = {agent: self.talkativeness[agent] for agent in order if agent in self.talkativeness}
        most = max(shares.values(), default=0.0)
        if most > 0 and any(share != most for share in shares.values()):
            # an agent without a talkativeness has that of the most talkative
            drawn = [agent for agent in order if rng.random() < shares.get(agent, most) / most]
            if len(drawn) < SPEAKERS_NEEDED:
                loudest = sorted(order, key=lambda agent: -shares.get(agent, most))[:SPEAKERS_NEEDED]
                drawn = [agent for agent in order if agent in drawn or agent in loudest]
            order = drawn
        if len(order) > 1 and order[0] == state.talk.last_speaker:
            other = rng.randrange(1, len(order))
            order[0], order[other] = order[other], order[0]
        return tuple(order)
