"""Servers that answer with something else than promised: wrong kinds of bodies, wrong counts, answers without end."""

from __future__ import annotations

import math
from typing import Any

import pytest
from model_doubles import talking

from agent_llm import bounded
from agent_llm.errors import BadAnswer, ModelError
from agent_llm.types import Message, Prompt
from agent_local.model_server import Answer

PROMPT = Prompt(text="x" * 4000, system="y" * 400)
HISTORY = (Message(role="user", text="z" * 4000),)


def counting(value: object) -> Answer:
    """An answer in whose counts of tokens this stands."""

    def edit(answer: dict[str, Any]) -> None:
        told = answer.get("usage") or answer.get("usageMetadata")
        assert told is not None
        for key, count in told.items():
            told[key] = value if isinstance(count, int) else count

    return Answer(text="hello", edit=edit)


def silent() -> Answer:
    return Answer(text="hello", edit=lambda answer: [answer.pop(key, None) for key in ("usage", "usageMetadata")])


WRONG = [-5, math.nan, math.inf, 10**30, 10**13, "many", None, [1]]


@pytest.mark.parametrize("value", WRONG, ids=str)
async def test_counts_that_cannot_be_cost_no_answer_and_are_estimated(provider: str, value: object) -> None:
    async with talking(provider, counting(value)) as (model, _server):
        reply = await model.complete(PROMPT, HISTORY)
    assert reply.text == "hello"
    assert 2000 <= reply.usage.input_tokens <= 4000, "8,400 characters were sent"
    assert 1 <= reply.usage.output_tokens < 10
    assert 0 < reply.usage.cost_usd < 0.1


async def test_an_answer_without_counts_is_not_for_free(provider: str) -> None:
    async with talking(provider, silent()) as (model, _server):
        reply = await model.complete(PROMPT, HISTORY)
    assert reply.usage.input_tokens >= 2000
    assert reply.usage.cost_usd > 0


async def test_counts_that_are_told_are_believed(provider: str) -> None:
    async with talking(provider, Answer(text="hello", input_tokens=7, output_tokens=3)) as (model, _server):
        reply = await model.complete(PROMPT, HISTORY)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 3)


BODIES = {
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "page": b"<html></html>",
    "bytes": b"\xff\xfe\x00\x00",
    "infinite": b"1e400",
    "list": b"[1, 2]",
    "null": b"null",
    "nothing": b"",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("media_type", ["application/json", "text/html"])
async def test_a_body_that_is_no_answer_is_an_unreadable_answer(provider: str, name: str, media_type: str) -> None:
    async with talking(provider, Answer(body=BODIES[name], media_type=media_type)) as (model, _server):
        with pytest.raises(BadAnswer):
            await model.complete(PROMPT)


@pytest.mark.parametrize("status", [400, 500])
async def test_an_error_with_a_body_that_is_none_is_a_model_error(provider: str, status: int) -> None:
    async with talking(provider, Answer(status=status, body=BODIES["deep"])) as (model, _server):
        with pytest.raises(ModelError):
            await model.complete(PROMPT)


async def test_an_answer_without_an_end_is_given_up_when_it_is_too_long(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MOST_BYTES", 1_000_000)
    async with talking(provider, Answer(endless=True)) as (model, server):
        with pytest.raises(BadAnswer, match="too long"):
            await model.complete(Prompt(text="x", timeout=20))
    assert len(server.requests) == 1
