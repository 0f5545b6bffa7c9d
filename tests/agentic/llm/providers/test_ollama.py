"""Ollama's own API: the context is as large as the prompt, so nothing of it is cut off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agentic.llm import http
from agentic.llm.errors import (
    BadAnswer,
    BadRequest,
    ConnectionFailed,
    ModelError,
    PromptTooLong,
    RateLimited,
    ServerFailed,
    TimedOut,
)
from agentic.llm.profiles import Endpoint
from agentic.llm.provider_table import ENDPOINTS
from agentic.llm.providers.ollama import MAX_CONTEXT, MIN_CONTEXT, context_for
from agentic.llm.registry import build_model
from agentic.llm.types import Message, Picture, Prompt, Tool, ToolCall, ToolResult, ToolRound
from tests.support.models.chat_api import ChatAnswer, ChatServer
from tests.support.models.chat_doubles import chatting
from tests.support.models.model_doubles import KEY, SCHEMA
from tests.support.models.wire.values import SMALL_PNG
from tests.support.redis_server import until

WEATHER = Tool("weather", "The weather of a town", {"type": "object", "properties": {"town": {"type": "string"}}})
SEA = ("weather", '{"town": "Oslo"}')


def of_ollama(**changes: Any) -> Endpoint:
    return Endpoint(name="ollama", base_url=ENDPOINTS["ollama"].base_url, api="ollama", **changes)


async def test_a_chat_names_its_context_size_and_does_not_think() -> None:
    async with chatting("hello", provider="ollama", model="llama3.3") as (model, server):
        prompt = Prompt(text="tail", system="be kind", schema=SCHEMA, temperature=0.5, stop=("\nBob:",))
        reply = await model.complete(prompt, [Message("user", "one"), Message("assistant", "two")])
    (sent,) = server.requests
    assert sent.path == "/api/chat"
    schema = sent.body.pop("format")  # type: ignore[attr-defined]
    assert set(schema["properties"]) == set(SCHEMA["properties"])
    assert sent.body == {
        "model": "llama3.3",
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "tail"},
        ],
        "options": {"num_ctx": MIN_CONTEXT, "num_predict": 4000, "stop": ["\nBob:"], "temperature": 0.5},
        "tools": [],
        "stream": False,
        "think": False,
    }
    assert (reply.text, reply.model) == ("hello", "ollama/llama3.3")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 20)


async def test_the_context_grows_with_the_prompt_and_stays_so_that_the_model_is_not_loaded_at_each_turn() -> None:
    async with chatting("hello", provider="ollama") as (model, server):
        for system in ("short", "long " * 6_000, "short"):
            await model.complete(Prompt(text="hi", system=system))
    assert [each.body["options"]["num_ctx"] for each in server.requests] == [8_192, 16_384, 16_384]


@pytest.mark.parametrize(
    ("tokens", "size"), [(0, MIN_CONTEXT), (7_168, 8_192), (7_169, 16_384), (10_000_000, MAX_CONTEXT)]
)
def test_a_context_has_one_of_few_sizes_with_room_for_the_answer(tokens: int, size: int) -> None:
    assert context_for(tokens) == size


async def test_the_owners_fields_win_and_options_are_merged_one_by_one() -> None:
    own = of_ollama(fields={"think": True, "keep_alive": "1h", "options": {"num_ctx": 32_768}})
    async with chatting("hello", provider="ollama", endpoint=own) as (model, server):
        await model.complete(Prompt(text="hi", fields={"options": {"top_k": 5}}))
    body = server.requests[0].body
    assert (body["think"], body["keep_alive"]) == (True, "1h")
    assert body["options"] == {"num_ctx": 32_768, "num_predict": 4000, "top_k": 5}


async def test_a_field_that_is_an_option_goes_there_and_one_that_the_client_does_not_take_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = of_ollama(fields={"top_k": 40, "logit_bias": {"1": 2}, "stream": True})
    async with chatting("hello", provider="ollama", endpoint=own) as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi"))).text == "hello"
    body = server.requests[0].body
    assert (body["options"]["top_k"], body["stream"], "logit_bias" in body) == (40, False, False)
    assert caplog.text.count("the field 'logit_bias' is left out: Ollama's client does not take it") == 1
    assert "top_k" not in caplog.text


@pytest.mark.parametrize(("name", "think"), [("gpt-oss:20b", "low"), ("box/gpt-oss-mine", "low"), ("qwen3", False)])
async def test_gpt_oss_thinks_as_little_as_it_can(name: str, think: object) -> None:
    async with chatting("hello", provider="ollama", model=name) as (model, server):
        await model.complete(Prompt(text="hi"))
    assert server.requests[0].body["think"] == think


def test_a_provider_alone_is_its_default_model() -> None:
    assert build_model("ollama", api_key="").name == "ollama/gpt-oss:20b"


async def test_keywords_that_the_client_drops_stand_in_the_description() -> None:
    nested = {"type": "object", "description": "where", "properties": {"town": {"type": "string"}}}
    schema = {"type": "object", "properties": {"place": nested, "any": True, "days": {"type": "integer"}}}
    async with chatting("hello", provider="ollama") as (model, server):
        await model.complete(Prompt(text="hi", tools=(Tool("weather", "?", schema),)))
    properties = server.requests[0].body["tools"][0]["function"]["parameters"]["properties"]
    assert properties["place"]["description"] == ('where\nJSON schema: {"properties": {"town": {"type": "string"}}}')
    assert (properties["any"], properties["days"]) == ({}, {"type": "integer"})


async def test_only_the_owners_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "somebody-elses")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    for key in ("", KEY):
        async with chatting("hello", provider="ollama", api_key=key) as (model, server):
            await model.complete(Prompt(text="hi"))
        headers = {name.lower(): value for name, value in server.requests[0].headers.items()}
        assert headers.get("authorization") == (f"Bearer {key}" if key else None)


async def test_a_password_of_the_address_is_sent_and_shown_to_nobody() -> None:
    async with ChatServer(lambda _: "hello") as server:
        address = server.base_url.replace("//", "//ann:canary-word@")
        model = build_model("ollama", model="local", api_key="", base_url=address, attempts=1)
        assert (await model.complete(Prompt(text="hi"))).text == "hello"
        await model.aclose()
    assert server.requests[0].headers["Authorization"].startswith("Basic ")
    model = build_model("ollama", model="local", api_key="", base_url=address, attempts=1)
    with pytest.raises(ConnectionFailed) as caught:
        await model.complete(Prompt(text="hi"))
    await model.aclose()
    assert "canary" not in str(caught.value)


async def test_a_server_that_is_not_there_and_a_model_that_is_not_pulled_are_named_with_what_to_do() -> None:
    model = build_model("ollama", model="x", api_key="", base_url="http://127.0.0.1:9/v1", attempts=1)
    with pytest.raises(ConnectionFailed, match=r"nothing answers at 127\.0\.0\.1:9; start it: ollama serve") as caught:
        await model.complete(Prompt(text="hi"))
    assert not caught.value.made
    await model.aclose()
    async with ChatServer(lambda _: ChatAnswer(status=404, error="model 'qwen3' not found")) as server:
        model = build_model("ollama", model="qwen3", api_key="", base_url=server.base_url)
        with pytest.raises(BadRequest, match="the model is not pulled; run: ollama pull qwen3"):
            await model.complete(Prompt(text="hi"))
        with pytest.raises(BadRequest, match="the model is not pulled"):
            await model.check()
        assert await model.pulled() == ("local",)  # type: ignore[attr-defined]
        await model.aclose()
    assert len(server.requests) == 1


async def test_a_text_for_a_base_model_is_continued_without_a_template() -> None:
    own = of_ollama(prefill="completions")
    prompt = Prompt(text="", system="sys", prefill="Claude: so", stop=("\nBob:",))
    async with chatting(" it is.\nBob: no", provider="ollama", endpoint=own) as (model, server):
        reply = await model.complete(prompt, [Message("user", "User1: Hello")])
    assert server.requests[0].path == "/api/generate"
    body = server.requests[0].body
    assert (body["prompt"], body["raw"]) == ("sys\n\nUser1: Hello\n\nClaude: so", True)
    assert body["options"]["num_ctx"] == MIN_CONTEXT
    assert reply.text == " it is."


async def test_an_answer_that_is_given_up_ends_its_request() -> None:
    """Ollama goes on computing as long as somebody listens."""
    gone = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"message": {"role": "assistant", "content": "so"}, "done": false}\n')
        try:
            while request.transport is not None and not request.transport.is_closing():
                await response.write(b"\n" if gone.is_set() else b" ")
                await asyncio.sleep(0.005)
        finally:
            gone.set()
        return response

    app = web.Application()
    app.router.add_post("/api/chat", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        model = build_model("ollama", model="x", api_key="", base_url=str(server.make_url("/v1")))
        seen: list[str] = []
        asked = asyncio.create_task(model.complete(Prompt(text="hi", on_text=seen.append)))
        await until(lambda: "so" in seen)
        asked.cancel()
        await asyncio.wait_for(gone.wait(), 5)
        with pytest.raises(asyncio.CancelledError):
            await asked
        with pytest.raises(TimedOut):
            await model.complete(Prompt(text="hi", timeout=0.1))
        await model.aclose()


@pytest.mark.parametrize("on_text", [None, lambda _: None])
async def test_an_answer_without_an_end_is_too_long(on_text: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 100_000)
    async with chatting(ChatAnswer(body=b'{"x": "' + b" " * 200_000), provider="ollama") as (model, server):
        with pytest.raises(BadAnswer, match="too long"):
            await model.complete(Prompt(text="hi", on_text=on_text))
    assert len(server.requests) == 1


async def test_the_owner_may_choose_the_openai_compatible_address() -> None:
    own = Endpoint(name="ollama", base_url=ENDPOINTS["ollama"].base_url)
    async with chatting("hello", provider="ollama", endpoint=own) as (model, server):
        await model.complete(Prompt(text="hi"))
    assert server.requests[0].path == "/chat/completions"


async def test_pictures_are_plain_base64_beside_the_text() -> None:
    async with chatting("nice", provider="ollama") as (model, server):
        await model.complete(Prompt(text="what is it?", pictures=(Picture(SMALL_PNG, "image/png"),)))
    (message,) = server.requests[0].messages
    assert message["content"] == "what is it?"
    assert message["images"][0].startswith("iVBOR")


async def test_calls_and_results_have_names_and_no_text_around_their_arguments() -> None:
    steps = (ToolRound((ToolCall("c1", "weather", {"town": "Oslo"}),), (ToolResult("c1", "weather", "rain"),)),)
    async with chatting(ChatAnswer(text="", calls=[SEA, SEA]), provider="ollama") as (model, server):
        reply = await model.complete(Prompt(text="hi", tools=(WEATHER,), rounds=steps))
    _, calling, result = server.requests[0].messages
    assert calling["tool_calls"] == [{"function": {"name": "weather", "arguments": {"town": "Oslo"}}}]
    assert (result["role"], result["tool_name"], result["content"]) == ("tool", "weather", "rain")
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("call01000", "weather", {"town": "Oslo"}),
        ("call01001", "weather", {"town": "Oslo"}),
    ]


async def test_a_streamed_answer_grows_and_has_all_its_calls() -> None:
    seen: list[str] = []
    answer = ChatAnswer(text="It rains in Oslo.", calls=[SEA, SEA], extra={"thinking": "hm"})
    async with chatting(answer, provider="ollama") as (model, server):
        reply = await model.complete(Prompt(text="hi", tools=(WEATHER,), on_text=seen.append))
    assert server.requests[0].body["stream"] is True
    assert "stream_options" not in server.requests[0].body
    assert reply.text == "It rains in Oslo."
    assert seen[:3] == ["", "It ra", "It rains i"]
    assert [call.arguments for call in reply.tool_calls] == [{"town": "Oslo"}] * 2
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 20)


async def test_gpt_oss_thinks_as_long_as_its_option_says() -> None:
    async with chatting("ok", provider="ollama", model="gpt-oss:20b") as (model, server):
        await model.complete(Prompt(text="hi", thinking="high"))
    assert server.requests[0].body["think"] == "high"


async def test_thinking_is_never_the_answer_and_goes_back_with_its_calls() -> None:
    answer = ChatAnswer(text="", calls=[SEA], extra={"thinking": "where is it?"})
    async with chatting(answer, "rain", provider="ollama") as (model, server):
        reply = await model.complete(Prompt(text="hi", tools=(WEATHER,)))
        step = ToolRound(
            reply.tool_calls, (ToolResult(reply.tool_calls[0].id, "weather", "rain"),), reply.text, reply.echo
        )
        last = await model.complete(Prompt(text="hi", tools=(WEATHER,), rounds=(step,)))
    assert (reply.text, last.text) == ("", "rain")
    assert server.requests[1].messages[1]["thinking"] == "where is it?"


@pytest.mark.parametrize("on_text", [None, lambda _: None])
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ChatAnswer(status=404, error="model 'x' not found"), BadRequest),
        (ChatAnswer(body=b'{"error": "an error was encountered while running the model"}\n'), ServerFailed),
        (ChatAnswer(body=b"<html>\n"), BadAnswer),
        (ChatAnswer(body=b"[1]\n"), BadAnswer),
        (ChatAnswer(body=b'{"message": 3, "done": true}\n'), BadAnswer),
        (ChatAnswer(cut=7), ConnectionFailed),
        (ChatAnswer(status=429, error="slow down"), RateLimited),
        (ChatAnswer(status=503, body=b"[]"), ModelError),
        (ChatAnswer(text=""), BadAnswer),
    ],
)
async def test_a_failure_is_one_of_ours(answer: ChatAnswer, error: type[ModelError], on_text: Any) -> None:
    async with chatting(answer, provider="ollama") as (model, _):
        with pytest.raises(error):
            await model.complete(Prompt(text="hi", on_text=on_text))


@pytest.mark.parametrize(
    ("provider", "refusal"),
    [
        ("ollama", ChatAnswer(status=400, error="registry.ollama.ai/library/gemma:latest does not support tools")),
        ("llamacpp", ChatAnswer(status=500, error="tools param requires --jinja flag")),
        ("vllm", ChatAnswer(status=400, error='"auto" tool choice requires --enable-auto-tool-choice and a parser')),
    ],
)
async def test_a_model_that_calls_no_tools_is_asked_without_them_from_then_on(
    provider: str, refusal: ChatAnswer, caplog: pytest.LogCaptureFixture
) -> None:
    async with chatting(refusal, "hello", provider=provider, model="gemma") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="hi", tools=(WEATHER,)))).text == "hello"
    assert [bool(each.body.get("tools")) for each in server.requests] == [True, False, False]
    assert f"{provider}/gemma: the model doesn't support tools; asking without it from now on" in caplog.text


@pytest.mark.parametrize(
    ("provider", "refusal"),
    [
        ("llamacpp", ChatAnswer(status=400, error="request (5000) exceeds it: exceed_context_size_error")),
        ("lmstudio", ChatAnswer(status=400, error="the model is loaded with context length of only 4096 tokens")),
        ("vllm", ChatAnswer(status=400, error="This model's maximum context length is 4096 tokens")),
    ],
)
async def test_a_prompt_that_is_longer_than_a_servers_context_is_named_as_the_reason(
    provider: str, refusal: ChatAnswer
) -> None:
    async with chatting(refusal, provider=provider) as (model, server):
        with pytest.raises(PromptTooLong, match="the prompt is longer than the model's context"):
            await model.complete(Prompt(text="hi", schema=SCHEMA))
    assert len(server.requests) == 1
