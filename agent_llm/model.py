"""The one interface that every model has, real or scripted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent_llm.types import Drawing, Message, Prompt, Reply


class Model(Protocol):
    """A language model that may also draw. Retries inside `prompt.timeout`; raises `errors.ModelError` only."""

    @property
    def name(self) -> str:
        """`provider/model`, for logs and prices."""
        ...

    @property
    def can_draw(self) -> bool: ...

    @property
    def free(self) -> bool:
        """Its calls cost nothing: it is scripted, or stands on an own machine."""
        ...

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply: ...

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - all attempts
        """One picture; `CannotDraw` where the model has none to give."""
        ...

    async def aclose(self) -> None: ...
