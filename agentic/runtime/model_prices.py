"""The prices of an agent's models, for the console to show."""

from __future__ import annotations

from collections.abc import Sequence

from agent_config import AgentSettings, ModelSettings
from agentic.agent.limits import is_free, rates
from agentic.console.parts import ModelPrice
from agentic.llm.pricing import list_price, picture_price


def model_prices(agent: AgentSettings, *, free_at_home: bool = True) -> Sequence[ModelPrice]:
    """The text models in the order in which they are tried, then the one for pictures.

    `free_at_home`: calls to a server in the owner's network cost nothing.
    """
    found = [_text(model, free=free_at_home and is_free(model)) for model in agent.models]
    if agent.image_model:
        each = picture_price(agent.image_provider, agent.image_model)
        found.append(ModelPrice(f"{agent.image_provider}/{agent.image_model}", picture=each))
    return found


def _text(model: ModelSettings, *, free: bool) -> ModelPrice:
    listed = list_price(model.provider, model.model, free=free, rates=rates(model))
    return ModelPrice(
        model=model.name,
        input=listed.input,
        cached=listed.cached,
        output=listed.output,
        known=listed.known,
        usable=model.lacks is None,
    )
