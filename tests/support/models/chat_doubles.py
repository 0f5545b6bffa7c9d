"""Models behind an OpenAI-compatible address on loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentic.llm.model import ProviderModel
from agentic.llm.registry import build_model
from agentic.llm.retry import Retrier
from tests.support.models.chat_api import ChatAnswer, ChatRequest, ChatServer
from tests.support.models.model_doubles import Waits


class ChatScript:
    """Answers in the order given; the last one again and again."""

    def __init__(self, *answers: ChatAnswer | str) -> None:
        self._answers = list(answers)

    def __call__(self, _request: ChatRequest) -> ChatAnswer | str:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@asynccontextmanager
async def chatting(
    *answers: ChatAnswer | str, provider: str = "llamacpp", model: str = "local", api_key: str = "", **options: Any
) -> AsyncIterator[tuple[ProviderModel, ChatServer]]:
    async with ChatServer(ChatScript(*answers)) as server:
        built = build_model(provider, model=model, api_key=api_key, base_url=server.base_url, **options)
        built._retrier = Retrier(rng=random.Random(1), sleep=Waits())
        try:
            yield built, server
        finally:
            await built.aclose()
