"""The tasks that agents have while nobody writes, and the owner's settings for them.

To add one: its name in `agentic.settings.idle.IDLE_TASKS` and in agentic.state.idle by priority, its
material in candidates.py, its note in results.py, and what the agent does in agent_cogs/idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentic.state.idle import TASKS


@dataclass(frozen=True, slots=True)
class IdleAgent:
    """An agent's tasks, and whether it may write to `everyone` unasked, or only to those who agreed (`opt_in`)."""

    tasks: tuple[str, ...]
    unasked: str = "opt_in"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleConfig:
    """`after`: seconds without a person's message. `delays`: task → shortest and longest further delay, in seconds;
    tasks without one run at once. `again_hours` after a discovery another one may come although nobody wrote."""

    agents: Mapping[str, IdleAgent] = field(default_factory=dict)
    after: float = 300.0
    delays: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: {"follow_up": (3600.0, 7200.0), "discover": (7200.0, 14_400.0)}
    )
    person_hours: float = 24.0
    channel_hours: float = 6.0
    again_hours: float = 0.0

    def pairs(self) -> list[tuple[str, str]]:
        """All tasks with their agents, by priority."""
        return [(task, agent) for task in TASKS for agent, its in self.agents.items() if task in its.tasks]
