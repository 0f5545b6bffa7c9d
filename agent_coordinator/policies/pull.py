"""After each message the agent is asked for which the conversation calls most strongly (pulls.py).

Where it calls for nobody in particular, the agent that is asked is given that as a reason to carry the talk on: asked
without one, models skip half of their turns. Nobody speaks twice in a row. A round has as many turns as there are
agents; two in a row that leave no message end it, as does one, where nothing calls for anybody else; but nobody is left
unasked while the starter has no answer. A person's message takes all of that back, and is taken up.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from agent_coordinator.policies.policy import Choice
from agent_coordinator.policies.pulls import is_called, pulls_of, reason_for
from agent_coordinator.policies.round_rules import SPEAKERS_NEEDED, RoundRules
from agent_coordinator.policies.scene import scene_of
from agent_coordinator.policies.speakers import Speaker
from agent_coordinator.state import ConversationState
from agentic.wire.endings import EndReason

MOST_SILENCES = 2  # turns in a row
LEAST_PULL = 0.4  # after a turn without a message
LEAD = (
    "something that carries the talk on, since it calls for nobody in particular: a question to one of the others, by "
    "name, or a subject of your own"
)


@dataclass(frozen=True, slots=True)
class PullPolicy(RoundRules):
    """`speakers`: the agents, in the same order."""

    speakers: tuple[Speaker, ...] = ()

    @property
    def chooses_each_turn(self) -> bool:
        return True

    def opening(self, starter: str, rng: random.Random) -> Choice:
        return Choice((starter,), because="begins the conversation")

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        begins, scene = self._round_is_over(state), scene_of(state, self.speakers)
        silences = 0 if begins else _silences(state)
        pulls = pulls_of(self._candidates(state), self.speakers, scene, silences, rng)
        lead = None if is_called(pulls[0]) or state.take_up is not None or not state.opened else LEAD
        return Choice((pulls[0].agent,), begins, reason_for(pulls[0]), pulls, lead)

    def ending(self, state: ConversationState, rng: random.Random) -> EndReason | None:
        """Only at the end of a round, and not while a person waits: one without a message, or one of a single agent
        that nobody has answered, ends it; else the rules of rounds do."""
        if state.agreed_to_end:
            return "agreed"
        if state.pending or not self._round_is_over(state):
            return None
        if not state.opened:
            return "nobody_opened"
        if not state.spoke:
            return "most_skipped"
        if not _is_talk(state):
            return "too_few_spoke"
        return self.by_length(state, rng)

    def _round_is_over(self, state: ConversationState) -> bool:
        candidates = self._available(state)
        if not candidates:
            return True
        if state.take_up is not None:
            return False
        if state.turns_had >= len(self.speakers):
            return True
        if state.opened and not _is_talk(state):
            return False
        silences = _silences(state)
        if silences >= MOST_SILENCES:
            return True
        return bool(state.opened and silences) and self._strongest(state, candidates) < LEAST_PULL

    def _strongest(self, state: ConversationState, candidates: tuple[Speaker, ...]) -> float:
        scene = scene_of(state, self.speakers)
        return pulls_of(candidates, self.speakers, scene, _silences(state))[0].strength

    def _candidates(self, state: ConversationState) -> tuple[Speaker, ...]:
        """Those who can be asked; at least one. All had their chance: anybody but the last speaker."""
        others = tuple(each for each in self.speakers if each.name != state.last_speaker)
        return self._available(state) or others or self.speakers

    def _available(self, state: ConversationState) -> tuple[Speaker, ...]:
        """Not those who have had a turn since the newest message, nor those that a person has just called, who answer
        by themselves. One that answered too late in this round is asked again only for a person."""
        heard = state.heard[-1] if state.heard else None
        out = {*state.silent, *state.missing}
        if heard is None or heard.after < state.messages:
            out |= {state.last_speaker or "", *state.unheard}
        if heard is not None and heard.calls and heard.after >= state.messages - 1:
            out |= {*heard.names, heard.replied_to or ""}
        return tuple(each for each in self.speakers if each.name not in out)


def _is_talk(state: ConversationState) -> bool:
    """Whether two agents have spoken; one alone would only talk to itself."""
    return sum(tally.messages > 0 for tally in state.tallies.values()) >= SPEAKERS_NEEDED


def _silences(state: ConversationState) -> int:
    """Turns since the newest message that left none, of those who were there."""
    return sum(agent not in state.missing for agent in state.silent)
