"""The order of speakers in a conversation of scripted bots: that of their scene's lines."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.policies.by_name import Policies
from agent_coordinator.policies.policy import Choice, ConversationPolicy
from agent_coordinator.policies.pull import PullPolicy
from agentic.local.voices.scenes import Heard, stage_on
from agentic.state.conversation_state import ConversationState


@dataclass(frozen=True, slots=True)
class ScenePolicy(PullPolicy):
    """As `pull`, but unless a person waits for an answer, the bot that has the scene's next line speaks."""

    heard: Heard | None = None

    def choose(self, state: ConversationState, rng: random.Random) -> Choice:
        choice, talk = PullPolicy.choose(self, state, rng), state.talk
        if self.heard is None or state.person_waits or not talk.topic:
            return choice
        shown = {speaker.name: speaker.shown for speaker in self.speakers}
        stage = stage_on(state.theme, talk.topic, list(shown.values()), self.heard)
        due = stage.due(shown.get(talk.last_speaker or ""))
        agent = next((name for name, display_name in shown.items() if display_name == due), None)
        if agent is None or agent in state.counts.missing:
            return choice
        return replace(choice, speakers=(agent,), because="has the next line", scores=(), suggested_topic=None)


class ScenePolicies(Policies):
    """`heard`: the lines that the bots have said."""

    def __init__(self, config: CoordinatorConfig, heard: Heard) -> None:
        super().__init__(config)
        self._heard = heard

    def of(self, state: ConversationState) -> ConversationPolicy:
        policy = super().of(state)
        if state.room is not None or not isinstance(policy, PullPolicy):
            return policy
        return ScenePolicy(**{each.name: getattr(policy, each.name) for each in fields(policy)}, heard=self._heard)
