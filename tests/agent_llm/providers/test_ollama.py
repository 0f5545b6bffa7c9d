"""Ollama's own API: the context is as large as the prompt, so nothing of it is cut off."""

from __future__ import annotations

from typing import Any

import pytest

from agent_llm.endpoints import ENDPOINTS, Endpoint
from agent_llm.errors import BadAnswer, BadRequest, ModelError, PromptTooLong, ServerFailed
from agent_llm.types import Message, Picture, Prompt, Tool, ToolCall, ToolResult, ToolRound
from agent_llm.wire.ollama import LEAST_CONTEXT, MOST_CONTEXT, context_for
from tests.support.models.chat_api import ChatAnswer
from tests.support.models.chat_doubles import chatting
from tests.support.models.model_doubles import SCHEMA
from tests.support.models.wire.values import SMALL_PNG

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
        "options": {"num_ctx": LEAST_CONTEXT, "num_predict": 4000, "stop": ["\nBob:"], "temperature": 0.5},
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
    ("tokens", "size"), [(0, LEAST_CONTEXT), (7_168, 8_192), (7_169, 16_384), (10_000_000, MOST_CONTEXT)]
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
        ("call_0", "weather", {"town": "Oslo"}),
        ("call_1", "weather", {"town": "Oslo"}),
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


async def test_thinking_is_never_the_answer_and_goes_back_with_its_calls() -> None:
    answer = ChatAnswer(text="", calls=[SEA], extra={"thinking": "where is it?"})
    async with chatting(answer, "rain", provider="ollama") as (model, server):
        reply = await model.complete(Prompt(text="hi", tools=(WEATHER,)))
        step = ToolRound(reply.tool_calls, (ToolResult("call_0", "weather", "rain"),), reply.text, reply.echo)
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
    assert ["tools" in each.body for each in server.requests] == [True, False, False]
    assert f"{provider}/gemma calls no tools and goes on without them" in caplog.text


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
