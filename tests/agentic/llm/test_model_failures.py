"""A hostile or unlucky day at the provider's, seen through the official SDKs."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket

import pytest

from agentic.llm.errors import (
    BadKey,
    BadRequest,
    ConnectionFailed,
    ModelError,
    QuotaUsedUp,
    RateLimited,
    Refused,
    ServerFailed,
    TimedOut,
)
from agentic.llm.registry import build_model
from agentic.llm.types import Prompt
from tests.support.models.model_doubles import KEY, SECRET, Waits, talking
from tests.support.models.wire.values import Answer

PROMPT = Prompt(text=SECRET, system=SECRET)


@pytest.mark.promise(54, 93)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=400, error_code="invalid_request_error"), BadRequest),
        (Answer(status=401, error_code="authentication_error"), BadKey),
        (Answer(status=402, error_code="billing"), QuotaUsedUp),
        (Answer(status=403), BadKey),
        (Answer(status=404, error_code="model_not_found"), BadRequest),
        (Answer(status=413), BadRequest),
        (Answer(status=429, error_code="insufficient_quota"), QuotaUsedUp),
        (Answer(status=400, error_message="Your credit balance is too low"), QuotaUsedUp),
        (Answer(status=403, error_message="Your team has used all available credits"), QuotaUsedUp),
        (Answer(status=400, error_message="API key not valid. Please pass a valid API key."), BadKey),
        (Answer(status=400, error_code="moderation_blocked"), Refused),
    ],
)
async def test_what_another_try_cannot_mend_is_tried_once(
    provider: str, answer: Answer, error: type[ModelError]
) -> None:
    async with talking(provider, answer) as (model, server):
        with pytest.raises(error) as caught:
            await model.complete(PROMPT)
    assert len(server.requests) == 1
    assert caught.value.status == answer.status
    assert (caught.value.provider, caught.value.model) == (provider, server.requests[0].model)


@pytest.mark.promise(93)
@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
async def test_what_passes_is_tried_again(provider: str, status: int) -> None:
    async with talking(provider, Answer(status=status), Answer(cut=True), "at last") as (model, server):
        reply = await model.complete(PROMPT)
    assert reply.text == "at last"
    assert len(server.requests) == 3


@pytest.mark.promise(54)
async def test_attempts_are_bounded_and_the_last_error_is_told(provider: str) -> None:
    waits = Waits()
    async with talking(provider, Answer(status=500), waits=waits) as (model, server):
        with pytest.raises(ServerFailed):
            await model.complete(PROMPT)
    assert len(server.requests) == 3
    assert len(waits) == 2
    assert waits[0] < waits[1]


async def test_retry_after_is_honoured(provider: str) -> None:
    waits = Waits()
    limited = Answer(status=429, headers={"retry-after": "7"})
    async with talking(provider, limited, "ok", waits=waits) as (model, _server):
        await model.complete(PROMPT)
    assert 7 <= waits[0] < 8


@pytest.mark.promise(54)
async def test_a_retry_after_beyond_the_budget_is_told_at_once(provider: str) -> None:
    limited = Answer(status=429, headers={"retry-after": "3600"})
    async with talking(provider, limited) as (model, server):
        with pytest.raises(RateLimited) as caught:
            await model.complete(PROMPT)
    assert caught.value.retry_after == 3600
    assert len(server.requests) == 1


@pytest.mark.promise(93)
@pytest.mark.parametrize(
    ("details", "error"),
    [
        ([{"quotaId": "GenerateRequestsPerMinutePerProject"}, {"retryDelay": "36.5s"}], RateLimited),
        ([{"quotaId": "GenerateRequestsPerDayPerProject"}, {"retryDelay": "36.5s"}], QuotaUsedUp),
    ],
)
async def test_googles_limit_of_a_minute_is_not_that_of_a_day(
    details: list[dict[str, str]], error: type[ModelError]
) -> None:
    told = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota exceeded", "details": details}}
    async with talking("google", Answer(status=429, body=json.dumps(told).encode())) as (model, _server):
        with pytest.raises(error) as caught:
            await model.complete(Prompt(text="x", timeout=20))
    assert getattr(caught.value, "retry_after", 36.5) == 36.5


@pytest.mark.promise(94)
async def test_a_hanging_server_ends_with_the_budget(provider: str) -> None:
    async with talking(provider, Answer(delay=math.inf)) as (model, server):
        with pytest.raises(TimedOut) as caught:
            await model.complete(Prompt(text="x" * 300, timeout=0.2, max_output_tokens=500))
    assert len(server.requests) == 1
    usage = caught.value.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 100, 500), (
        "nobody knows, so all that it may be"
    )
    assert usage.cost_usd > 0


@pytest.mark.promise(94)
async def test_a_cut_connection_is_a_failed_connection(provider: str) -> None:
    async with talking(provider, Answer(cut=True)) as (model, server):
        with pytest.raises(ConnectionFailed) as caught:
            await model.complete(PROMPT)
    assert len(server.requests) == 3
    assert (caught.value.usage.calls, caught.value.usage.output_tokens) == (3, 3 * PROMPT.max_output_tokens)


@pytest.mark.promise(48)
async def test_an_attempt_that_was_cut_costs_also_where_the_next_one_is_answered(provider: str) -> None:
    async with talking(provider, Answer(cut=True), Answer(text="yes", output_tokens=7)) as (model, _server):
        reply = await model.complete(PROMPT)
    assert (reply.usage.calls, reply.usage.output_tokens) == (2, PROMPT.max_output_tokens + 7)


async def test_nobody_listening_is_a_failed_connection(provider: str) -> None:
    with socket.socket() as taken:  # bound and not listening: refused, and nobody else can listen there meanwhile
        taken.bind(("127.0.0.1", 0))
        model = build_model(provider, api_key=KEY, base_url=f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConnectionFailed) as caught:
            await model.complete(Prompt(text="x", timeout=3))
        assert caught.value.usage is None, "it was never asked"
        await model.aclose()


async def test_cancelling_passes_through(provider: str) -> None:
    async with talking(provider, Answer(delay=math.inf)) as (model, server):
        task = asyncio.create_task(model.complete(PROMPT))
        await server.wait_for(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_drawing_fails_as_completing_does() -> None:
    async with talking("xai", Answer(status=500), Answer(status=401)) as (model, server):
        with pytest.raises(BadKey) as caught:
            await model.draw(SECRET)
    assert len(server.requests) == 2
    assert caught.value.model == server.requests[0].model


async def test_every_failed_attempt_is_one_log_line_without_key_or_prompt(
    provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    tells = Answer(status=401, error_code="authentication_error", error_message=f"wrong key {KEY} for {SECRET}")
    async with talking(provider, Answer(status=500), tells) as (model, _server):
        with pytest.raises(BadKey) as caught:
            await model.complete(PROMPT)
    assert caught.value.usage is None, "what is refused costs nothing"
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert f"provider={provider}" in lines[0]
    assert f"model={model.access.model}" in lines[0]
    assert "status=500" in lines[0]
    assert "request_id=req-1" in lines[0]
    told = " ".join([*lines, str(caught.value), repr(caught.value), repr(model), repr(model.access)])
    assert KEY not in told
    assert SECRET not in told
    assert caught.value.__suppress_context__
