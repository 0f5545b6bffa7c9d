"""A moderator names who speaks next: one of the agents after each turn, or a person whenever they like.

An agent that moderates speaks itself while it has named nobody; where it has just spoken without naming anybody, the
one that has been silent for the longest is next. Where people moderate, the conversation waits for them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from agent_coordinator.policies.policy import Choice, Wait
from agent_coordinator.policies.round_rules import RoundRules
from agent_coordinator.state import ConversationState
from agentic.wire.endings import EndReason

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
