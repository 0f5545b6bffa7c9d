"""Find a conversation's policy by name."""

from __future__ import annotations

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.policies.policy import ConversationPolicy
from agent_coordinator.policies.pull import PullPolicy
from agent_coordinator.policies.rounds import Interview, Moderated, RoundRobin, Rounds
from agentic.state.conversation_state import ConversationState
from agentic.state.rooms import RoomMember


class Policies:
    """Policies of channels, themes, and rooms, from the settings. A conversation keeps its policy to its end."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self._config = config
        self._speakers = tuple(
            RoomMember(
                name=name,
                shown=config.shown.get(name, name),
                talkativeness=config.talkativeness.get(name),
                interests=config.interests.get(name, ()),
            )
            for name in config.agents
        )

    def name_for(self, channel_id: int, theme: str) -> str:
        """Return the policy's name for a conversation that begins there."""
        chosen = self._config.policies
        return chosen.get(str(channel_id)) or chosen.get(theme) or self._config.policy

    def of(self, state: ConversationState) -> ConversationPolicy:
        """Return the conversation's policy; `rounds` if this version doesn't know its name. In a phase in which each
        member has one turn, it chooses among the members whose turn is still to come."""
        name, room = state.policy, state.room
        due = room.due if room is not None else ()
        speakers = self._speakers if room is None else tuple(each for each in room.members if each.name in due)
        agents, config = tuple(speaker.name for speaker in speakers), self._config
        limits = (config.max_rounds, config.turn_delay_min, config.turn_delay_max, config.min_rounds)
        if room is not None and room.guest is not None and name in ("round-robin", "rounds"):
            return Interview(room.names, *limits, room.guest.name)
        if name == "round-robin":
            return RoundRobin(agents, *limits)
        if name == "moderated":
            return Moderated(agents, *limits, room.moderator if room is not None else None)
        if name == "pull":
            return PullPolicy(agents, *limits, speakers)
        talkative = {each.name: each.talkativeness for each in speakers if each.talkativeness is not None}
        return Rounds(agents, *limits, talkative if room is None else {})  # in a room everybody speaks once a round
