"""Models by their official SDKs against the local model server, answering by a script."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentic.llm.model import ProviderModel
from agentic.llm.registry import build_model
from agentic.llm.retry import Retrier
from tests.support.models.model_server import ModelServer
from tests.support.models.wire.values import Answer, ModelRequest

KEY = "canary-key-do-not-print"
SECRET = "canary-prompt-do-not-print"
SCHEMA = {
    "type": "object",
    "properties": {
        "skip": {"type": "boolean", "default": False},
        "text": {"type": "string", "maxLength": 2000},
        "react_emoji": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["skip"],
}


class Script:
    """Answers in the order given; the last one again and again."""

    def __init__(self, *answers: str | Answer) -> None:
        self._answers = list(answers)

    def __call__(self, _request: ModelRequest) -> str | Answer:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Waits(list[float]):
    """A sleep that only writes down."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@asynccontextmanager
async def talking(
    provider: str, *answers: str | Answer, waits: Waits | None = None, **options: Any
) -> AsyncIterator[tuple[ProviderModel, ModelServer]]:
    """A model and the server that answers it; waits between attempts are written down, not waited."""
    async with ModelServer(Script(*answers)) as server:
        model = build_model(provider, api_key=KEY, base_url=server.base_url(provider), **options)
        model._retrier = Retrier(rng=random.Random(1), sleep=Waits() if waits is None else waits)
        try:
            yield model, server
        finally:
            await model.aclose()
