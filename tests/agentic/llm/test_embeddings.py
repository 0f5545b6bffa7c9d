"""Vectors of texts by the official clients, and how near they are."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentic.llm.embeddings import MAX_CHARACTERS, cosine, expected, nearest, packed, unpacked, vector_of
from agentic.llm.errors import BadAnswer, BadKey, BadRequest, ModelError
from agentic.llm.model import ProviderModel
from agentic.llm.registry import LazyEmbedder, build_model
from tests.support.models.chat_api import ChatAnswer, ChatServer

PATHS = {"ollama": "/api/embed", "openai": "/embeddings", "lmstudio": "/embeddings"}


@asynccontextmanager
async def embedding(provider: str, answer: ChatAnswer | str = "") -> AsyncIterator[tuple[ProviderModel, ChatServer]]:
    async with ChatServer(lambda _: answer) as server:
        model = build_model(provider, model="embedder", api_key="k", base_url=server.base_url, attempts=1)
        try:
            yield model, server
        finally:
            await model.aclose()


@pytest.mark.parametrize("provider", PATHS)
async def test_texts_become_vectors_of_length_one_in_their_order(provider: str) -> None:
    async with embedding(provider) as (model, server):
        made = await model.embed(["bees and honey", "honey bees", "zzz", " "])
    bees, same, zeds, _ = made.vectors
    assert [round(math.dist(vector, [0.0] * len(vector)), 5) for vector in made.vectors] == [1.0] * 4
    assert cosine(bees, same) > 0.8 > 0.3 > cosine(bees, zeds)
    (request,) = server.requests
    assert (request.path, request.body["model"]) == (PATHS[provider], "embedder")
    assert request.body["input"] == ["bees and honey", "honey bees", "zzz", "-"]
    assert made.model == f"{provider}/embedder"
    assert (made.usage.calls, made.usage.input_tokens) == (1, 28)


async def test_a_long_text_is_cut_and_too_many_are_refused() -> None:
    async with embedding("ollama") as (model, server):
        await model.embed(["a" * (MAX_CHARACTERS + 1)])
        with pytest.raises(ValueError, match="at most 64 texts"):
            await model.embed(["a"] * 65)
    assert [len(text) for text in server.requests[0].body["input"]] == [MAX_CHARACTERS]


async def test_a_model_without_a_known_price_is_no_gift() -> None:
    async with embedding("openai") as (model, _):
        unknown = (await model.embed(["bees"] * 10)).usage
    assert unknown.model == "openai/embedder"
    assert unknown.cost_usd > 0
    assert expected(["bees" * 30, ""]).input_tokens == 41


@pytest.mark.parametrize("provider", PATHS)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ChatAnswer(status=401, error="no"), BadKey),
        (ChatAnswer(status=404, error="model 'embedder' not found"), BadRequest),
        (ChatAnswer(body=b"[]"), BadAnswer),
        (ChatAnswer(body=b"{}"), BadAnswer),
        (ChatAnswer(body=b'{"embeddings": [[1, 2]], "data": [{"embedding": [1, 2]}]}'), BadAnswer),
        (ChatAnswer(body=b'{"embeddings": [[1], [1, 2]], "data": [{"embedding": [1]}, {}]}'), BadAnswer),
        (ChatAnswer(body=b'{"embeddings": 3, "data": "x"}'), BadAnswer),
    ],
)
async def test_a_failure_is_one_of_ours(provider: str, answer: ChatAnswer, error: type[ModelError]) -> None:
    async with embedding(provider, answer) as (model, _):
        with pytest.raises(error):
            await model.embed(["one", "two"])


async def test_a_provider_without_embeddings_says_so() -> None:
    model = build_model("anthropic", api_key="k", base_url="http://127.0.0.1:9")
    with pytest.raises(BadRequest, match="makes no embeddings"):
        await model.embed(["one"])
    await model.aclose()


async def test_the_client_is_built_at_the_first_call() -> None:
    built = 0
    async with embedding("ollama") as (model, _):

        def build() -> ProviderModel:
            nonlocal built
            built += 1
            return model

        lazy = LazyEmbedder("ollama/embedder", build, free=True)
        assert built == 0
        await lazy.embed(["one"])
        await lazy.embed(["two"])
    assert built == 1


@pytest.mark.parametrize("numbers", [[], [0.0, 0.0], [math.nan], [math.inf], [1e308, 1e308], ["x"], None, "text", {}])
def test_what_is_no_vector_is_a_bad_answer(numbers: object) -> None:
    with pytest.raises(BadAnswer):
        vector_of(numbers)


def test_vectors_are_kept_as_bytes_and_those_of_another_model_are_not_compared() -> None:
    vector = vector_of([3, 4])
    assert packed(vector) == b"\x9a\x99\x19?\xcd\xccL?"
    assert unpacked(packed(vector)) == vector
    assert cosine(vector, vector_of([1, 0, 0])) == 0.0
    with pytest.raises(ValueError, match="multiple"):
        unpacked(b"abc")


def test_the_nearest_come_first_and_the_far_ones_not_at_all() -> None:
    known = [(1, vector_of([1, 0])), (2, vector_of([0, 1])), (3, vector_of([1, 1])), (4, vector_of([1, 0]))]
    found = nearest(vector_of([1, 0.1]), known, limit=3, least=0.2)
    assert [key for key, _ in found] == [1, 4, 3]
