"""The model that a replay asks: the agent's own, another one by name, or the script that spoke in local mode."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_config import AgentSettings, Settings
from agentic.agent.limits import Tariff
from agentic.llm.types import Model
from agentic.local.voices.voice import ScriptedVoice
from agentic.replay.prompts import NotReplayable
from agentic.runtime.models import provider_model

SCRIPTED = "scripted/"
MakeModel = Callable[[AgentSettings], Model]


@dataclass(frozen=True, slots=True)
class Asked:
    model: Model
    tariff: Tariff


class AskedModels:
    """Models, made once each. `settings` have the models of the agents; where one was `named`, it is the model of all,
    also of turns that were a script's or a coding agent's."""

    def __init__(self, settings: Settings, *, named: bool, make_model: MakeModel = provider_model) -> None:
        self._settings, self._named, self._make = settings, named, make_model
        self._made: dict[tuple[str, int | None], Asked] = {}

    def of(self, agent: str, guild_id: int | None, recorded_model: str) -> Asked:
        """Raises NotReplayable."""
        if recorded_model.startswith(SCRIPTED) and not self._named:
            return _script(agent)
        configured = self._settings.agents.get(agent)
        if configured is None:
            raise NotReplayable(f"there is no agent {agent} any more; name a model")
        there = configured.elsewhere.get(guild_id or 0)
        key = (agent, guild_id if there is not None else None)
        if key not in self._made:
            self._made[key] = self._asked(there or configured)
        return self._made[key]

    def _asked(self, agent: AgentSettings) -> Asked:
        if self._named:
            agent = replace(agent, coding=None)
        if agent.coding is not None:
            raise NotReplayable(f"{agent.display_name} is a coding agent, whose tools act; name another model")
        if not agent.usable:
            lacks = ", ".join(dict.fromkeys(model.lacks for model in agent.models if model.lacks))
            raise NotReplayable(f"{agent.display_name} has no usable model here: {lacks} is not set")
        model = self._make(agent)
        return Asked(model, Tariff.of(agent, free=model.free))

    async def aclose(self) -> None:
        for asked in self._made.values():
            await asked.model.aclose()


def _script(agent: str) -> Asked:
    voice = ScriptedVoice(agent, rng=random.Random())
    return Asked(voice, Tariff("scripted", agent, None, free=True))
