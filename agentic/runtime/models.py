"""Build the models that the settings name; a provider's SDK is imported at its first call."""

from __future__ import annotations

import logging
from collections.abc import Callable

from agent_config import AgentSettings, CodingSettings, ModelSettings, Settings
from agentic.agent.limits import access, is_free
from agentic.agent.side_calls import cheapest
from agentic.llm.embeddings import Embedder
from agentic.llm.providers.agent_sdk import AgentSdkModel, QueryConfig
from agentic.llm.registry import LazyEmbedder, LazyModel, build_model, in_order
from agentic.llm.retry import RetryPolicy
from agentic.llm.types import Model

log = logging.getLogger(__name__)


def provider_model(agent: AgentSettings, *, free_at_home: bool = True) -> Model:
    """The agent's models as one that falls back from each to the next.

    `free_at_home`: calls to a server in the owner's network cost nothing. Raises ValueError without a usable model.
    """
    usable = {model.name: model for model in agent.usable}
    if agent.coding is not None and agent.models[0].name in usable:
        free = free_at_home and is_free(agent.models[0])
        return AgentSdkModel(coding_config(agent, agent.coding), free=free)
    draws = next((name for name, model in usable.items() if model.provider == agent.image_provider), None)

    def make(provider: str, model: str) -> Model:
        name = f"{provider}/{model}"
        image_model = agent.image_model if agent.image_model and name == draws else ""
        return _lazy(usable[name], image_model, agent.retries, free_at_home=free_at_home)

    return in_order(usable, make, own={model.provider for model in agent.models})


def cheap_model(settings: Settings, *, free_at_home: bool = True) -> Model | None:
    """The model for small questions: that of CHEAP_MODEL, else the least expensive default of the providers whose key
    is set; None for none."""
    chosen = cheapest(settings.cheap_models)
    return None if chosen is None else _lazy(chosen, "", settings.model_retries, free_at_home=free_at_home)


def no_cheap_model(settings: Settings) -> None:
    del settings


def embedder_of(settings: Settings) -> Embedder | None:
    """The model of EMBEDDING_MODEL, whose client is built at its first call; None where none is set."""
    model = settings.embedding
    if model is None:
        return None
    free, retry = is_free(model), RetryPolicy(attempts=settings.model_retries + 1)

    def build() -> Embedder:
        return build_model(**access(model), image_model="", free=free, retry=retry)

    return LazyEmbedder(model.name, build, free=free)


def no_embedder(settings: Settings) -> None:
    del settings


def _lazy(model: ModelSettings, image_model: str, retries: int, *, free_at_home: bool) -> Model:
    free = free_at_home and is_free(model)
    retry = RetryPolicy(attempts=retries + 1)

    def build() -> Model:
        return build_model(**access(model), image_model=image_model, free=free, retry=retry)

    return LazyModel(model.name, build, can_draw=bool(image_model), free=free)


def make_guild_models(agent: AgentSettings, make: Callable[[AgentSettings], Model]) -> dict[int, Model]:
    """Models that are set for single servers, by server id. Servers with the same list share one."""
    made: dict[tuple[str, ...], Model] = {}
    found: dict[int, Model] = {}
    for server, there in agent.elsewhere.items():
        names = tuple(model.name for model in there.usable)
        if names not in made:
            made[names] = make(there)
        found[server] = made[names]
        log.info("%s: server %d uses %s", agent.name, server, ", ".join(names))
    return found


def coding_config(agent: AgentSettings, coding: CodingSettings) -> QueryConfig:
    """The configuration of an agent whose turns the Claude Agent SDK runs."""
    return QueryConfig(
        model=agent.model,
        workspace=coding.workspace,
        home=coding.home,
        api_key=agent.api_key.get_secret_value() if agent.api_key else "",
        base_url=agent.base_url,
        allowed_tools=coding.allowed_tools,
        permission_mode=coding.permission_mode,
        max_turns=coding.max_steps,
        max_usd=coding.max_usd,
        hidden=coding.hidden,
    )
