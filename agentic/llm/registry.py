"""Builds models by `provider/model`, with their SDKs off the event loop.

A provider has a row in provider_table.py, or is the owner's endpoint, which speaks OpenAI's API or Ollama's. The first
slash separates the two parts: "openrouter/meta-llama/llama-4-maverick" is OpenRouter's "meta-llama/…".

Importing this module imports no SDK. `build_model` does, which blocks for up to a second: call it in a thread, or use a
LazyModel, which is built at its first call or earlier. SDKs are imported one after another, so a call may have to wait
for another model's import and then for its own. `warm_up` imports the heaviest first to keep that wait short.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Generic, TypeVar

from agentic.llm import pricing
from agentic.llm.embeddings import Embedded, Embedder
from agentic.llm.lazy_sdk import import_sdks_lazily
from agentic.llm.model import Access, ProviderModel
from agentic.llm.profiles import Aws, Endpoint
from agentic.llm.provider_table import KNOWN, PROVIDERS
from agentic.llm.retry import Retrier
from agentic.llm.server_queue import queue_at
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply

T = TypeVar("T", bound=Model | Embedder)
ENDPOINT_SECONDS = 0.1  # for their SDKs to be imported

# Two threads that import packages with shared modules may see a half-imported one, and only slow each other down.
_importing = threading.Lock()


def build_model(
    provider: str,
    *,
    api_key: str,
    model: str | None = None,
    image_model: str | None = None,
    base_url: str | None = None,
    free: bool = False,
    rates: pricing.Rates | None = None,
    attempts: int = 3,
    endpoint: Endpoint | None = None,
    aws: Aws | None = None,
) -> ProviderModel:
    """Return a model with its client. Close it with `aclose`.

    `model` and `image_model`: the provider's defaults if None; `image_model` "" disables drawing. `base_url`: as the
    provider's SDK expects it, with /v1 for OpenAI and xAI, without a version for Anthropic and Google. `free`: calls
    cost nothing; an endpoint's own address on this machine is always free. `rates` override the price table.
    `attempts`: how often a call is tried. `endpoint`: the owner's OpenAI-compatible address, or a changed row of the
    table; `provider` is then its name. `aws`: for Bedrock, whose `api_key` may be "".

    Raises KeyError for an unknown provider, and ValueError if the model, region, or address is missing.
    """
    known = endpoint or KNOWN[provider]
    endpoint = known if isinstance(known, Endpoint) else None
    if not (model or known.model):
        raise ValueError(f"{provider}: no model is given")
    address = base_url or (endpoint.base_url if endpoint else "")
    access = Access(
        model=model or known.model,
        api_key=api_key,
        image_model=known.image_model if image_model is None else image_model,
        base_url=base_url or None,
        free=free or (endpoint is not None and not base_url and pricing.is_local(endpoint.base_url)),
        endpoint=endpoint,
        aws=aws,
        rates=rates,
        queue=queue_at(address, endpoint.slots) if endpoint is not None and pricing.is_local(address) else None,
    )
    with _importing, _gc_disabled():
        import_sdks_lazily()
        module, _, name = known.adapter.partition(":")
        adapter: type[ProviderModel] = getattr(import_module(module), name)
        if not access.free:
            pricing.load()
        return adapter(access, Retrier(attempts))


@contextmanager
def _gc_disabled() -> Iterator[None]:
    """Stop garbage collection: an import creates hundreds of thousands of permanent objects, and scanning them takes a
    third of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Lazy(Generic[T]):
    """A stand-in for the result of `build`, which runs once, in a thread. `name` is `provider/model`."""

    def __init__(self, name: str, build: Callable[[], T], *, free: bool = False) -> None:
        self.name, self.free = name, free
        self._build = build
        self._built: T | None = None
        self._building = asyncio.Lock()

    async def get_ready(self) -> T:
        """Return the built object. Concurrent callers wait for the same build."""
        async with self._building:
            if self._built is None:
                self._built = await asyncio.to_thread(self._build)
            return self._built

    async def aclose(self) -> None:
        if self._built is not None:
            await self._built.aclose()


class LazyModel(_Lazy[Model]):
    def __init__(self, name: str, build: Callable[[], Model], *, can_draw: bool, free: bool = False) -> None:
        super().__init__(name, build, free=free)
        self.can_draw = can_draw
        self.wanted = False  # a call is waiting for it

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        return await (self._built or await self._build_for_call()).complete(prompt, history)

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        return await (self._built or await self._build_for_call()).draw(prompt, timeout=timeout)

    async def _build_for_call(self) -> Model:
        self.wanted = True
        return await self.get_ready()


class LazyEmbedder(_Lazy[Embedder]):
    async def embed(self, texts: Sequence[str], *, timeout: float = 30.0) -> Embedded:  # noqa: ASYNC109 - Embedder's
        return await (await self.get_ready()).embed(texts, timeout=timeout)


async def warm_up(models: Iterable[LazyModel]) -> None:
    """Build all models, one after another: first models that a call is waiting for, then the heaviest."""

    def import_seconds(model: LazyModel) -> float:
        known = PROVIDERS.get(model.name.partition("/")[0])
        return known.import_seconds if known else ENDPOINT_SECONDS

    left = list(models)
    while left:
        model = max(left, key=lambda each: (each.wanted, import_seconds(each)))
        left.remove(model)
        await model.get_ready()
