"""A model whose SDK is imported off the event loop, at the first call or when it is told to get ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from agent_llm.model import Model
from agent_llm.types import Drawing, Message, Prompt, Reply


class LazyModel:
    """Stands for the model that `build` makes; `build` runs once, in a thread. `name` is `provider/model`."""

    def __init__(self, name: str, build: Callable[[], Model], *, can_draw: bool, free: bool = False) -> None:
        self.name, self.can_draw, self.free = name, can_draw, free
        self._build = build
        self._model: Model | None = None
        self._building = asyncio.Lock()

    async def get_ready(self) -> Model:
        """The real model. Whoever comes while it is built waits for the same one."""
        async with self._building:
            if self._model is None:
                self._model = await asyncio.to_thread(self._build)
            return self._model

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        return await (self._model or await self.get_ready()).complete(prompt, history)

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        return await (self._model or await self.get_ready()).draw(prompt, timeout=timeout)

    async def aclose(self) -> None:
        if self._model is not None:
            await self._model.aclose()
