"""A cheap model that gives the answers of a list, for agents of a scene."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from agentic.agent.limits import ModelPrices, ProviderBackoff
from agentic.agent.side_calls import CheapModel
from agentic.llm.types import Message, Prompt, Reply, Usage
from tests.support.agent_scene import Scene

CHEAP_CALL = Usage(model="openai/gpt-6-luna", calls=1, input_tokens=90, output_tokens=5, text_cost_usd=0.0001)

Said = str | Exception | Callable[[], Awaitable[object]]


class ScriptedCheap:
    """The model behind it; an answer that is a wait comes before "notes"."""

    name, can_draw, free = "openai/gpt-6-luna", False, False

    def __init__(self, *answers: Said) -> None:
        self.answers = list(answers)
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        self.asked.append(prompt)
        answer: Any = self.answers.pop(0) if self.answers else "notes"
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            await answer()
            answer = "notes"
        return Reply(text=answer, usage=CHEAP_CALL)


def give_cheap(scene: Scene, *answers: Said, first: bool = False) -> ScriptedCheap:
    """Give the first agent of the scene a cheap model; `first`: it is asked first whether the agent speaks."""
    model: Any = ScriptedCheap(*answers)
    prices = ModelPrices("openai", "gpt-6-luna", None)
    backoff = ProviderBackoff("cheap", scene.clock)
    cheap = CheapModel(model=model, prices=prices, redact=lambda text: text.replace("hunter2", "…"), backoff=backoff)
    agent = scene.cog.host.agent
    settings = agent.settings.with_(cheap_first=("all",) if first else ("none",))
    services = replace(agent.services, settings=settings, models=replace(agent.services.models, cheap=cheap))
    object.__setattr__(agent, "services", services)
    return model
