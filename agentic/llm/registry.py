"""Build a model from `provider/model`.

A provider has a module of its own (PROVIDERS) or is the name of an endpoint, of the table or the owner's, which speaks
OpenAI's API or Ollama's. The first slash separates the two parts: "openrouter/meta-llama/llama-4-maverick" is
OpenRouter's "meta-llama/…".

Importing this module imports no SDK. `build_model` does, which blocks for up to a second: call it in a thread.
"""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentic.llm import pricing
from agentic.llm.endpoints import ENDPOINTS, Aws, Endpoint
from agentic.llm.fallback import Fallbacks
from agentic.llm.model import Access, ProviderModel
from agentic.llm.profiles import DEFAULTS, Defaults
from agentic.llm.providers import anthropic, bedrock, compatible, gemini, grok, ollama, openai
from agentic.llm.retry import Retrier, RetryPolicy
from agentic.llm.types import Model


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's model class, the function that imports its SDK, and about how many seconds that takes."""

    model: type[ProviderModel]
    load: Callable[[], None]
    seconds: float


_COMPATIBLE = Provider(compatible.CompatibleModel, compatible.load, 0.3)
_OLLAMA = Provider(ollama.OllamaModel, ollama.load, 0.2)


def _of_endpoint(endpoint: Endpoint) -> Provider:
    return _OLLAMA if endpoint.api == "ollama" else _COMPATIBLE


PROVIDERS = {
    "openai": Provider(openai.OpenAIModel, openai.load, 0.3),
    "anthropic": Provider(anthropic.AnthropicModel, anthropic.load, 0.8),
    "google": Provider(gemini.GeminiModel, gemini.load, 0.4),
    "xai": Provider(grok.GrokModel, grok.load, 0.3),
    "bedrock": Provider(bedrock.BedrockModel, bedrock.load, 1.0),
    **{name: _of_endpoint(endpoint) for name, endpoint in ENDPOINTS.items()},
}

# Two threads that import packages with shared modules may see a half-imported one, and only slow each other down.
_importing = threading.Lock()


def parted(name: str, own: Iterable[str] = ()) -> tuple[str, str]:
    """Split `provider/model`. `own`: the names of the owner's endpoints.

    Raises ValueError, with the known providers, for a name without a model or with an unknown provider.
    """
    provider, _, model = name.partition("/")
    known = {*PROVIDERS, *own}
    if provider not in known or not model:
        raise ValueError(f"{name!r} is not provider/model; the providers are {', '.join(sorted(known))}")
    return provider, model


def in_order(names: Iterable[str], make: Callable[[str, str], Model], *, own: Iterable[str] = ()) -> Model:
    """Return one model for a list of `provider/model`, tried in that order. `make` builds each from its two parts.

    Raises ValueError for an empty list and for a malformed name.
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
    """Return a model with its client, to be closed with `aclose`.

    `model` and `image_model`: None for the provider's defaults; `image_model` "" draws nothing. `base_url`: as the
    provider's SDK understands it, with /v1 for OpenAI and xAI, without a version for Anthropic and Google. `free`:
    calls cost nothing; an endpoint's own address on this machine is always free. `price_in` and `price_out` (USD per
    million tokens) override the price table if either is set. `endpoint`: an OpenAI-compatible address of the owner's,
    or a changed one of the table; `provider` is then its name. `aws`: for Bedrock, whose `api_key` may be "".

    Raises KeyError for an unknown provider, ValueError if the model, region or address is missing.
    """
    endpoint = endpoint or ENDPOINTS.get(provider)
    entry = _of_endpoint(endpoint) if endpoint else PROVIDERS[provider]
    defaults = Defaults(endpoint.model) if endpoint else DEFAULTS.get(provider, Defaults(""))
    if not (model or defaults.model):
        raise ValueError(f"{provider}: no model is given")
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
    """About how long the SDK behind `provider/model` takes to import, if no other has been imported yet."""
    return PROVIDERS.get(name.partition("/")[0], _COMPATIBLE).seconds


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Disable garbage collection. An import creates hundreds of thousands of lasting objects; scanning them takes a
    third of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
