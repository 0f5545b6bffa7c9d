"""Which policy a conversation has: that of its room, else the one that the settings give its channel or theme."""

from __future__ import annotations

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.policies.moderated import Moderated
from agent_coordinator.policies.policy import ConversationPolicy
from agent_coordinator.policies.pull import PullPolicy
from agent_coordinator.policies.round_robin import RoundRobin
from agent_coordinator.policies.rounds import Rounds
from agent_coordinator.policies.speakers import Speaker
from agent_coordinator.state import ConversationState


class Policies:
    """The policies of an installation. A conversation keeps the policy with which it began, by name."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self._config = config
        self._speakers = tuple(
            Speaker(name, config.shown.get(name, name), config.talkativeness.get(name), config.interests.get(name, ()))
            for name in config.agents
        )

    def name_for(self, channel_id: int, theme: str) -> str:
        chosen = self._config.policies
        return chosen.get(str(channel_id)) or chosen.get(theme) or self._config.policy

    def of(self, state: ConversationState) -> ConversationPolicy:
        if state.room is None:
            return self._named(state.policy, self._speakers)
        members = (Speaker(each.name, each.shown, each.talkativeness, each.interests) for each in state.room.members)
        return self._named(state.policy, tuple(members), state.room.moderator, is_room=True)

    def _named(
        self, name: str, speakers: tuple[Speaker, ...], moderator: str | None = None, *, is_room: bool = False
    ) -> ConversationPolicy:
        """A name that this version does not know is that of `rounds`."""
        agents = tuple(speaker.name for speaker in speakers)
        rules = (agents, self._config.max_rounds, self._config.turn_delay_min, self._config.turn_delay_max)
        match name:
            case "round-robin":
                return RoundRobin(*rules)
            case "moderated":
                return Moderated(*rules, moderator)
            case "pull":
                return PullPolicy(*rules, speakers)
            case _ if is_room:  # everybody speaks once a round
                return Rounds(*rules)
            case _:
                return Rounds(
                    *rules, {each.name: each.talkativeness for each in speakers if each.talkativeness is not None}
                )
