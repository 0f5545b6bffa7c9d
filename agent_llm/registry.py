"""From a provider's key ("openai", "anthropic", "google", "xai") to a model, and SDKs imported off the event loop.

Importing this module imports no SDK. `build_model` does, where `preload` has not yet: a second of a blocked loop.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent_llm import anthropic, gemini, grok, openai, pricing
from agent_llm.base import Access, ProviderModel
from agent_llm.profiles import DEFAULTS
from agent_llm.retry import Retrier, RetryPolicy


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's model class, and what imports its SDK."""

    model: type[ProviderModel]
    load: Callable[[], None]


PROVIDERS = {
    "openai": Provider(openai.OpenAIModel, openai.load),
    "anthropic": Provider(anthropic.AnthropicModel, anthropic.load),
    "google": Provider(gemini.GeminiModel, gemini.load),
    "xai": Provider(grok.GrokModel, grok.load),
}

# Two threads that import packages which share modules may see half of one.
_importing = threading.Lock()


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
) -> ProviderModel:
    """A model with its client, to be closed by `aclose`.

    `model` and `image_model` None are the provider's defaults; `image_model` "" draws nothing. `base_url` is what the
    provider's SDK calls so: with /v1 for OpenAI and xAI, without a version for Anthropic and Google. `free`: its calls
    cost nothing. `price_in` and `price_out` (USD per million tokens) stand in for the table's prices where one is set.
    Raises KeyError for an unknown provider.
    """
    entry, defaults = PROVIDERS[provider], DEFAULTS[provider]
    access = Access(
        model=model or defaults.model,
        api_key=api_key,
        image_model=defaults.image_model if image_model is None else image_model,
        base_url=base_url or None,
        free=free,
        rates=None if price_in is None and price_out is None else pricing.Rates(price_in or 0.0, price_out or 0.0),
    )
    retrier = Retrier(policy=retry or RetryPolicy(), rng=rng or random.Random())
    with _importing:
        return entry.model(access, retrier)


async def preload(providers: Iterable[str]) -> None:
    """Import these providers' SDKs and the price table in a thread; again or at the same time is harmless."""
    await asyncio.to_thread(_load_all, tuple(providers))


def _load_all(providers: Iterable[str]) -> None:
    with _importing:
        for provider in providers:
            PROVIDERS[provider].load()
        pricing.load()
