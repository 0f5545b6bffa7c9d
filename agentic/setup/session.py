"""A run of the set-up: the dialogue, the answers, and what was found out about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from agent_config import AgentSettings
from agentic.setup.answers import Answers
from agentic.setup.dialogue import Dialogue
from agentic.setup.lookups import FoundBot


@dataclass
class Session:
    """`bots`: those whose token was checked, by agent. `keys`: settings of keys that were asked for. `servers` and
    `channels`: names by id."""

    talk: Dialogue
    answers: Answers
    bots: dict[str, FoundBot] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    servers: dict[int, str] = field(default_factory=dict)
    channels: dict[int, str] = field(default_factory=dict)

    def agents(self) -> Iterator[AgentSettings]:
        """All agents, as a start with the answers would have them."""
        yield from self.answers.settings().agents.values()

    def title(self, agent: str) -> str:
        """The agent's name as people read it."""
        return self.answers.settings().agents[agent].display_name

    def titles(self, agents: Iterator[str] | list[str]) -> str:
        return ", ".join(self.title(agent) for agent in agents)

    def tokens(self) -> dict[str, str]:
        """The tokens that were checked, by agent."""
        return {
            agent.name: agent.token.get_secret_value()
            for agent in self.agents()
            if agent.token is not None and agent.name in self.bots
        }
