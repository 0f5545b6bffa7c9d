"""The cheap model: it says whether an agent speaks, where CHEAP_FIRST names that agent, notes what falls out of a
room's window, the members' positions at its end, and what agents write down while nobody writes. It never posts.

One model serves all agents of a process; what it costs is on the books of the agent for whose turn it was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agent_config import ModelSettings
from agentic.agent.cost_estimate import Tariff
from agentic.agent.model_access import is_free, rates
from agentic.agent.provider_backoff import ProviderBackoff
from agentic.llm.errors import ModelError
from agentic.llm.types import Message, Model, Prompt, Reply

USUAL_INPUT, USUAL_OUTPUT = 900, 20  # tokens, by which models are compared


@dataclass(frozen=True, kw_only=True)
class CheapModel:
    """A model with its prices. Its answers are redacted as they arrive: they are kept in Redis. `backoff` pauses it
    while its provider refuses it."""

    model: Model
    tariff: Tariff
    redact: Callable[[str], str]
    backoff: ProviderBackoff

    @property
    def name(self) -> str:
        """provider/model."""
        return self.model.name

    @property
    def rests(self) -> bool:
        return bool(self.backoff.seconds_left)

    async def ask(self, prompt: Prompt) -> Reply:
        """Raises ModelError."""
        try:
            reply = await self.think(prompt)
        except ModelError as error:
            self.backoff.failed(error)
            raise
        self.backoff.worked()
        return reply

    async def think(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        """The same for a caller that notes at `backoff` how it went."""
        reply = await self.model.complete(prompt, history)
        return replace(reply, text=self.redact(reply.text))


def cheapest(models: Iterable[ModelSettings]) -> ModelSettings | None:
    """The model whose usual call costs least, the first of several; None for none."""
    return min(models, key=lambda model: round(usual_call(tariff_of(model)), 9), default=None)


def usual_call(tariff: Tariff) -> float:
    """US dollars for one question whether to speak."""
    return tariff.call(USUAL_INPUT, output_tokens=USUAL_OUTPUT)


def tariff_of(model: ModelSettings) -> Tariff:
    return Tariff(model.provider, model.model, None, free=is_free(model), rates=rates(model))
