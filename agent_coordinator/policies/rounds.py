"""Policies in rounds: shuffled (`rounds`), in a fixed order (`round-robin`), or as a moderator says (`moderated`).

A moderator names the next speaker. It is one of the agents, which then speaks when it has named nobody; if it has just
spoken without naming anyone, the agent that has been silent longest is next. Without a moderator among the agents,
people name the speaker, and the conversation waits for them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from agent_coordinator.policies.policy import SPEAKERS_NEEDED, Choice, ConversationPolicy, Wait
from agentic.state.conversation_state import ConversationState
from agentic.wire.reasons import EndReason

MODERATOR_WAIT_SECONDS = 1800.0  # for a person to name a speaker


@dataclass(frozen=True, slots=True)
class Moderated(ConversationPolicy):
    """`moderator`: an agent, or None if people moderate."""

    chooses_each_turn: ClassVar[bool] = True

    moderator: str | None = None

    def opening(self, starter: str, rng: random.Random) -> Choice:
        return Choice((self.moderator or starter,))

    def choose(self, state: ConversationState, rng: random.Random) -> Choice | Wait:
        begins = state.counts.turns >= len(self.agents)
        if (named := self._named(state)) is not None:
            return Choice((named[0],), begins, named[1])
        if self.moderator is None and not state.queue.hurried:
            return Wait(MODERATOR_WAIT_SECONDS, "nobody_named")
        if self.moderator in self.agents and self.moderator not in (state.talk.last_speaker, *state.counts.silent):
            return Choice((self.moderator,), begins, "moderates, and nobody was named")
        spoke = {post.agent: place for place, post in enumerate(state.talk.history)}
        others = [agent for agent in self.agents if agent not in (state.talk.last_speaker, *state.counts.silent)]
        quietest = min(others or self.agents, key=lambda agent: spoke.get(agent, -1))
        return Choice((quietest,), begins, "nobody was named, and it was silent for the longest")

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """As in ConversationPolicy, but never by chance."""
        if state.counts.agreed_to_end:
            return "agreed"
        if state.queue.pending or state.person_waits:
            return None
        if not state.is_opened and state.counts.silent:
            return "nobody_opened"
        over = state.counts.turns >= len(self.agents) and state.counts.round >= self.max_rounds
        return "round_limit" if over else None

    def _named(self, state: ConversationState) -> tuple[str, str] | None:
        """Return the named agent, and who named it: the moderator in its last turn, or a person in the newest
        unanswered message that names an agent."""
        if state.queue.named in self.agents and state.queue.named_by == self.moderator:
            return state.queue.named, "named by the moderator"
        for message in reversed(state.talk.heard):
            if message.message_id <= state.talk.answered or message.calls or message.answered_by:
                break
            named = [agent for agent in (message.replied_to, *message.names) if agent in self.agents]
            if named:
                return named[0], "named by a person"
        return None


@dataclass(frozen=True, slots=True)
class RoundRobin(ConversationPolicy):
    has_rounds: ClassVar[bool] = True

    def opening(self, starter: str, rng: random.Random) -> Choice:
        if starter not in self.agents:  # it speaks first, then everyone in order
            return Choice((starter, *self.agents))
        return Choice(self._from(self.agents.index(starter)))

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        """Continue the order, even after a turn that a person asked for. If the last speaker is gone, begin with the
        first. If the last in order was silent, nobody speaks twice in a row because of that."""
        last = state.queue.last_in_order or state.talk.last_speaker
        order = self._from(self.agents.index(last) + 1 if last in self.agents else 0)
        if last in state.counts.silent and order[0] == state.talk.last_speaker:
            order = (*order[1:], order[0])
        return Choice(order)

    def _from(self, place: int) -> tuple[str, ...]:
        return (*self.agents[place:], *self.agents[:place])


@dataclass(frozen=True, slots=True)
class Interview(ConversationPolicy):
    """The others ask in turn, and after each of them the `guest` answers."""

    guest: str = ""

    def opening(self, starter: str, rng: random.Random) -> Choice:
        askers = [agent for agent in self.agents if agent != self.guest]
        return Choice((starter if starter in askers else askers[0], self.guest))

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        had = state.room.phase_turns if state.room is not None else None
        if had is None:
            had = (*(post.agent for post in state.talk.history), *state.counts.silent)
        if had and had[-1] != self.guest:
            return Choice((self.guest,), because="was asked")
        askers = [agent for agent in self.agents if agent != self.guest]
        asker = min(askers, key=lambda agent: (had.count(agent), agent in state.counts.silent))
        return Choice((asker, self.guest))


@dataclass(frozen=True, slots=True)
class Rounds(ConversationPolicy):
    """`talkativeness`: agent → 0 to 1, for agents that have a value."""

    hears_people: ClassVar[bool] = False  # agents see people's messages, and may leave them to agents that were called
    has_rounds: ClassVar[bool] = True

    talkativeness: Mapping[str, float] = field(default_factory=dict)

    def opening(self, starter: str, rng: random.Random) -> Choice:
        others = [agent for agent in self.agents if agent != starter]
        return Choice((starter, *rng.sample(others, len(others))))

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        """Choose the speakers of a round, shuffled so that the last speaker doesn't come first.

        The most talkative agent is in each round, the others in proportion to it; if all values are equal, everyone is.
        At least two speak, if there are two.
        """
        order = rng.sample(self.agents, len(self.agents))
        shares = {agent: self.talkativeness[agent] for agent in order if agent in self.talkativeness}
        most = max(shares.values(), default=0.0)
        if most > 0 and any(share != most for share in shares.values()):
            # agents without a value are as talkative as the most talkative
            drawn = [agent for agent in order if rng.random() < shares.get(agent, most) / most]
            if len(drawn) < SPEAKERS_NEEDED:
                loudest = sorted(order, key=lambda agent: -shares.get(agent, most))[:SPEAKERS_NEEDED]
                drawn = [agent for agent in order if agent in drawn or agent in loudest]
            order = drawn
        if len(order) > 1 and order[0] == state.talk.last_speaker:
            other = rng.randrange(1, len(order))
            order[0], order[other] = order[other], order[0]
        return Choice(tuple(order))
