"""The local model server itself."""

from __future__ import annotations

import json
import time

import aiohttp
import pytest

from agentic.llm.errors import BadRequest
from agentic.llm.types import Prompt
from tests.support.models.model_doubles import talking
from tests.support.models.model_server import ModelServer
from tests.support.models.wire.values import Answer, ModelRequest


async def test_a_key_and_a_model_are_checked_without_a_completion(provider: str) -> None:
    async with talking(provider, "ok") as (model, server):
        await model.check()
    assert not server.requests
    async with talking(provider, "ok", model="no-such-model") as (model, _server):
        with pytest.raises(BadRequest):
            await model.check()


async def test_arrival_times_can_be_read_and_forgotten(provider: str) -> None:
    async with talking(provider, "ok") as (model, server), aiohttp.ClientSession() as http:
        before = time.perf_counter()
        await model.complete(Prompt(text="when?"))
        address = f"{server.address}/_control/requests"
        async with http.get(address) as response:
            told = await response.json()
        assert before < told["requests"][0]["received_at"] < told["now"]
        assert told["requests"][0]["tail"] == "when?"
        async with http.delete(address):
            assert not server.requests


async def test_an_answer_may_be_awaited_and_sees_the_request() -> None:
    async def answer(request: ModelRequest) -> Answer:
        return Answer(text=request.tail.upper())

    async with ModelServer(answer) as server, aiohttp.ClientSession() as http:
        body = {"model": "grok-4.7", "messages": [{"role": "user", "content": "hello"}]}
        async with http.post(f"{server.address}/v1/chat/completions", json=body) as response:
            told = await response.json()
    assert told["choices"][0]["message"]["content"] == "HELLO"
    assert server.requests[0].provider == "xai"


async def test_claudes_wire_refuses_two_messages_of_one_role() -> None:
    said = {"role": "user", "content": "hello"}
    async with ModelServer() as server, aiohttp.ClientSession() as http:
        body = {"model": "claude-haiku-5-5", "max_tokens": 5, "messages": [said, said]}
        async with http.post(f"{server.address}/v1/messages", json=body) as response:
            assert response.status == 400
            assert json.loads(await response.text())["type"] == "error"
