"""From `provider/model` to a model.

A provider has a module of its own (PROVIDERS) or is the name of an OpenAI-compatible endpoint, the table's or the
owner's. The first slash parts the two: "openrouter/meta-llama/llama-4-maverick" is OpenRouter's "meta-llama/…".

Importing this module imports no SDK. `build_model` does, up to a second of a blocked loop: call it in a thread.
"""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agent_llm import pricing
from agent_llm.base import Access, ProviderModel
from agent_llm.endpoints import ENDPOINTS, Aws, Endpoint
from agent_llm.fallback import Fallbacks
from agent_llm.profiles import DEFAULTS, Defaults
from agent_llm.providers import anthropic, bedrock, compatible, gemini, grok, openai
from agent_llm.retry import Retrier, RetryPolicy
from agent_llm.types import Model


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's model class, what imports its SDK, and in about how many seconds."""

    model: type[ProviderModel]
    load: Callable[[], None]
    seconds: float


_COMPATIBLE = Provider(compatible.CompatibleModel, compatible.load, 0.3)
PROVIDERS = {
    "openai": Provider(openai.OpenAIModel, openai.load, 0.3),
    "anthropic": Provider(anthropic.AnthropicModel, anthropic.load, 0.8),
    "google": Provider(gemini.GeminiModel, gemini.load, 0.4),
    "xai": Provider(grok.GrokModel, grok.load, 0.3),
    "bedrock": Provider(bedrock.BedrockModel, bedrock.load, 1.0),
    **dict.fromkeys(ENDPOINTS, _COMPATIBLE),
}

# Two threads that import packages which share modules may see half of one, and would only hold each other up.
_importing = threading.Lock()


def parted(name: str, own: Iterable[str] = ()) -> tuple[str, str]:
    """Provider and model of `provider/model`; `own` are the names of the owner's endpoints.

    Raises ValueError, which names what is known, for a name without a model or with an unknown provider.
    """
    provider, _, model = name.partition("/")
    known = {*PROVIDERS, *own}
    if provider not in known or not model:
        raise ValueError(f"{name!r} is no provider/model; providers: {', '.join(sorted(known))}")
    return provider, model


def in_order(names: Iterable[str], make: Callable[[str, str], Model], *, own: Iterable[str] = ()) -> Model:
    """One model for a list of `provider/model`, tried in that order; `make` builds each from its two parts.

    Raises ValueError for an empty list and for a name that is none.
    """
    models = [make(*parts) for parts in [parted(name, own) for name in names]]
    return models[0] if len(models) == 1 else Fallbacks(models)


def build_model(
    provider: str,
    *,
    api_key: str,
    model: str | None = None,
    image_model: str | None = None,
    base_url: str | None = None,
    free: bool = False,
    price_in: float | None = None,
    price_out: float | None = None,
    retry: RetryPolicy | None = None,
    rng: random.Random | None = None,
    endpoint: Endpoint | None = None,
    aws: Aws | None = None,
) -> ProviderModel:
    """A model with its client, to be closed by `aclose`.

    `model` and `image_model` None are the provider's defaults; `image_model` "" draws nothing. `base_url` is what the
    provider's SDK calls so: with /v1 for OpenAI and xAI, without a version for Anthropic and Google. `free`: its calls
    cost nothing. `price_in` and `price_out` (USD per million tokens) stand in for the table's prices where one is set.
    `endpoint` is an OpenAI-compatible address of the owner's, or one of the table's changed; `provider` is its name
    then. `aws` is for Bedrock, whose `api_key` may be "". An endpoint's own address on this machine is free by itself.
    Raises KeyError for an unknown provider, ValueError where no model, region or address is known.
    """
    endpoint = endpoint or ENDPOINTS.get(provider)
    entry = _COMPATIBLE if endpoint else PROVIDERS[provider]
    defaults = DEFAULTS.get(provider, Defaults(""))
    if not (model or defaults.model):
        raise ValueError(f"{provider}: no model is named")
    access = Access(
        model=model or defaults.model,
        api_key=api_key,
        image_model=defaults.image_model if image_model is None else image_model,
        base_url=base_url or None,
        free=free or (endpoint is not None and not base_url and pricing.at_home(endpoint.base_url)),
        endpoint=endpoint,
        aws=aws,
        rates=None if price_in is None and price_out is None else pricing.Rates(price_in or 0.0, price_out or 0.0),
    )
    retrier = Retrier(policy=retry or RetryPolicy(), rng=rng or random.Random())
    with _importing, _nothing_collected():
        entry.load()
        if not access.free:
            pricing.load()
        return entry.model(access, retrier)


def import_seconds(name: str) -> float:
    """About how long the SDK behind `provider/model` takes to import, where none is imported yet."""
    return PROVIDERS.get(name.partition("/")[0], _COMPATIBLE).seconds


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """An import makes hundreds of thousands of objects that stay: looking for garbage among them takes a third of its
    time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
