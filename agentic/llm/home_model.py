"""A model on the owner's machines: what its server reports about it, and how fast it is.

llama.cpp, Ollama, LM Studio, and vLLM report a model's context, the first two also its number of parameters, each at an
address of its own beside /v1. Any program may answer there: answers are limited in size and time, and redirects aren't
followed. A server that doesn't report something leaves it unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from agentic.llm.errors import BadAnswer
from agentic.llm.providers.ollama import MIN_CONTEXT
from agentic.llm.schemas import json_object, number, part, parts, text
from agentic.llm.types import Usage
from agentic.net.addresses import FetchRefused
from agentic.net.fetch import read_body

SECONDS = 5.0  # for an answer
MAX_BYTES = 4_000_000  # gateways list hundreds of models
SMALL = 3_500_000_000  # parameters, from which on a model follows the usual prompt
SLOW = 60.0  # prompt tokens per second, below which the usual prompt takes the better part of a minute
WRITING = 3  # writing a token takes about as long as reading so many
MIN_CALLS = 2  # before the speed is known

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """An answer; `body` is empty unless it's a JSON object."""

    status: int
    body: Body


class NoAnswer(Exception):
    """No program answered, or not in HTTP, or too much, or too late."""


@dataclass(frozen=True, slots=True)
class ModelSize:
    """What a server reports: the number of parameters, and the tokens that the model reads at a time. 0: unknown."""

    parameters: int = 0
    context: int = 0

    @property
    def is_small(self) -> bool:
        return 0 < self.parameters < SMALL or 0 < self.context < MIN_CONTEXT


async def ask(session: aiohttp.ClientSession, url: str, key: str | None, body: Body | None = None) -> JsonAnswer:
    """Return the answer to a GET, or to a POST of `body`. Raises NoAnswer."""
    headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {key}"} if key else {})
    method = "GET" if body is None else "POST"
    asking = session.request(method, url, headers=headers, json=body, allow_redirects=False)
    try:
        async with asyncio.timeout(SECONDS), asking as response:
            read = await read_body(response, MAX_BYTES)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, FetchRefused) as error:
        raise NoAnswer from error
    try:
        return JsonAnswer(response.status, json_object(read))
    except BadAnswer:
        return JsonAnswer(response.status, {})


async def ask_size(
    session: aiohttp.ClientSession, provider: str, address: str, model: str, key: str | None
) -> ModelSize:
    """Ask the server at `address`, which ends in /v1, for the size of its model. Raises NoAnswer."""
    root = address.removesuffix("/v1")
    if provider == "ollama":  # it's asked for a context with each request, up to the model's own
        about = part((await ask(session, f"{root}/api/show", key, {"model": model})).body, "model_info")
        family = text(about, "general.architecture")
        return ModelSize(_count(about, "general.parameter_count"), number(about, f"{family}.context_length"))
    if provider == "lmstudio":
        models = parts((await ask(session, f"{root}/api/v0/models", key)).body, "data")
        return ModelSize(context=next((number(one, "loaded_context_length") for one in models if _is(one, model)), 0))
    models = parts((await ask(session, f"{address}/models", key)).body, "data")
    listed = next((one for one in models if _is(one, model)), {})
    context = number(listed, "max_model_len")
    if provider == "llamacpp":
        properties = (await ask(session, f"{root}/props", key)).body
        context = number(properties, "default_generation_settings", "n_ctx") or number(listed, "meta", "n_ctx")
    return ModelSize(_count(part(listed, "meta"), "n_params"), context)


def _is(listed: Body, model: str) -> bool:
    return text(listed, "id") == model


def _count(value: Body, key: str) -> int:
    """Return a number of parameters, 0 if it's unknown."""
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


class HomeModel:
    """A model at `address`, on the owner's machines. Its server is asked once, and again if it didn't answer."""

    def __init__(self, provider: str, model: str, address: str, key: str | None) -> None:
        self._provider, self._model, self._address, self._key = provider, model, address.rstrip("/"), key
        self._size: ModelSize | None = None
        self._calls, self._speed = 0, 0.0  # of the fastest call: a busy machine says nothing about the model

    async def is_small(self) -> bool:
        """Return whether the model needs the prompt for small models: by its size, its context, or its speed."""
        if self._size is None:
            try:
                async with aiohttp.ClientSession(auto_decompress=False) as session:
                    self._size = await ask_size(session, self._provider, self._address, self._model, self._key)
            except NoAnswer:
                return self.is_slow
        return self._size.is_small or self.is_slow

    @property
    def is_slow(self) -> bool:
        return self._calls >= MIN_CALLS and self._speed < SLOW

    def note(self, usage: Usage, seconds: float) -> None:
        """Note how long a call took."""
        tokens = usage.input_tokens - usage.cached_tokens + WRITING * usage.output_tokens
        if tokens > 0 and seconds > 0:
            self._calls, self._speed = self._calls + 1, max(self._speed, tokens / seconds)
