"""SDKs are imported in a thread, in an order in which nobody waits long."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from agentic.llm.registry import LazyModel, build_model, warm_up
from agentic.llm.types import Model, Prompt
from tests.support.models.model_doubles import talking


class Built:
    """Models that are built when they may be; the order in which that began."""

    def __init__(self, model: Model) -> None:
        self.begun: list[str] = []
        self.may = threading.Event()
        self.first = threading.Event()
        self._model = model

    def lazy(self, name: str) -> LazyModel:
        def build() -> Model:
            self.begun.append(name)
            self.first.set()
            assert self.may.wait(10)
            return self._model

        return LazyModel(name, build, can_draw=False)


async def test_the_heaviest_is_imported_first() -> None:
    async with talking("openai", "hello") as (model, _server):
        built = Built(model)
        built.may.set()
        await warm_up([built.lazy(name) for name in ("openai/x", "anthropic/x", "ollama/x", "google/x")])
    assert built.begun == ["anthropic/x", "google/x", "openai/x", "ollama/x"]


async def test_what_somebody_waits_for_comes_next() -> None:
    async with talking("openai", "hello") as (model, _server):
        built = Built(model)
        models = {name: built.lazy(name) for name in ("openai/x", "anthropic/x", "google/x")}
        warming = asyncio.create_task(warm_up(models.values()))
        assert await asyncio.to_thread(built.first.wait, 10)
        asked = asyncio.create_task(models["openai/x"].complete(Prompt(text="hi")))
        await asyncio.sleep(0)  # its first step
        assert models["openai/x"].wanted
        built.may.set()
        assert (await asked).text == "hello"
        await warming
    assert built.begun == ["anthropic/x", "openai/x", "google/x"]


def test_no_garbage_is_looked_for_during_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def build(_self: object, _access: object, _retrier: object) -> None:
        seen.append(gc.isenabled())

    monkeypatch.setattr("agentic.llm.providers.openai.OpenAIModel.__init__", build)
    build_model("openai", api_key="k", model="gpt-6-luna", base_url="http://127.0.0.1:9/v1")
    assert seen == [False]
    assert gc.isenabled()
