"""Models whose SDKs are imported off the event loop: at the first call or before it, the heaviest first.

SDKs are imported one after the other (registry.py), so a call may have to wait for another model's import and then for
its own. Importing the heaviest first keeps that wait short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from agentic.llm.embeddings import Embedded, Embedder
from agentic.llm.registry import import_seconds
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply


class LazyModel:
    """Stands in for the model that `build` returns. `build` runs once, in a thread. `name` is `provider/model`."""

    def __init__(self, name: str, build: Callable[[], Model], *, can_draw: bool, free: bool = False) -> None:
        self.name, self.can_draw, self.free = name, can_draw, free
        self.wanted = False  # a call is waiting for it
        self._build = build
        self._model: Model | None = None
        self._building = asyncio.Lock()

    async def get_ready(self) -> Model:
        """Return the real model. Concurrent callers wait for the same build."""
        async with self._building:
            if self._model is None:
                self._model = await asyncio.to_thread(self._build)
            return self._model

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        return await (self._model or await self._wanted_now()).complete(prompt, history)

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        return await (self._model or await self._wanted_now()).draw(prompt, timeout=timeout)

    async def _wanted_now(self) -> Model:
        self.wanted = True
        return await self.get_ready()

    async def aclose(self) -> None:
        if self._model is not None:
            await self._model.aclose()


class LazyEmbedder:
    """Stands in for the embedder that `build` returns, which runs at the first call, in a thread."""

    def __init__(self, name: str, build: Callable[[], Embedder], *, free: bool = False) -> None:
        self.name, self.free = name, free
        self._build = build
        self._embedder: Embedder | None = None
        self._building = asyncio.Lock()

    async def embed(self, texts: Sequence[str], *, timeout: float = 30.0) -> Embedded:  # noqa: ASYNC109 - Embedder's
        async with self._building:
            if self._embedder is None:
                self._embedder = await asyncio.to_thread(self._build)
        return await self._embedder.embed(texts, timeout=timeout)

    async def aclose(self) -> None:
        if self._embedder is not None:
            await self._embedder.aclose()


async def warm_up(models: Iterable[LazyModel]) -> None:
    """Build all of them, one after the other: first those that a call is waiting for, then the heaviest."""
    left = list(models)
    while left:
        model = max(left, key=lambda one: (one.wanted, import_seconds(one.name)))
        left.remove(model)
        await model.get_ready()
