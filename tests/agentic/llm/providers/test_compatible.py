"""Models behind any OpenAI-compatible address, over a real socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentic.llm.errors import BadAnswer, BadKey, BadRequest, QuotaUsedUp, RateLimited, Refused, ServerFailed
from agentic.llm.pricing import Rates
from agentic.llm.profiles import Endpoint
from agentic.llm.provider_table import ENDPOINTS
from agentic.llm.registry import build_model
from agentic.llm.turns import RAW
from agentic.llm.types import Message, Picture, Prompt, Tool, ToolCall, ToolResult, ToolRound
from tests.support.models.chat_api import ChatAnswer
from tests.support.models.chat_doubles import chatting
from tests.support.models.model_doubles import KEY, SCHEMA
from tests.support.models.wire.values import SMALL_PNG

PIXEL = Picture(SMALL_PNG, "image/png")
WEATHER = Tool("weather", "The weather of a town", {"type": "object", "properties": {"town": {"type": "string"}}})


async def test_a_chat_is_plain_strings_with_alternating_roles() -> None:
    history = [Message("user", "one"), Message("user", "two"), Message("assistant", "three"), Message("user", "four")]
    async with chatting("hello", model="llama3") as (model, server):
        reply = await model.complete(Prompt(text="tail", system="be kind", temperature=0.5), history)
    sent = server.requests[0].body
    assert sent["messages"] == [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "one\n\ntwo"},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": "four\n\ntail"},
    ]
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("llama3", 4000, 0.5)
    assert not {"tools", "stop", "response_format", "stream"} & sent.keys()
    assert (reply.text, reply.model, reply.request_id) == ("hello", "llamacpp/llama3", "req-1")


async def test_pictures_are_data_urls() -> None:
    async with chatting("nice") as (model, server):
        await model.complete(Prompt(text="what is it?", pictures=(PIXEL,)))
    words, picture = server.requests[0].messages[0]["content"]
    assert words == {"type": "text", "text": "what is it?"}
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")


async def test_a_model_that_sees_no_pictures_is_asked_in_words() -> None:
    blind = ChatAnswer(status=404, error="No endpoints found that support image input")
    async with chatting(blind, "words", provider="openrouter") as (model, server):
        reply = await model.complete(Prompt(text="what is it?", pictures=(PIXEL,)))
    assert reply.text == "words"
    assert server.requests[1].messages[0]["content"] == "what is it?"


async def test_without_a_key_nobodys_key_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "canary")
    async with chatting("hello") as (model, server):
        await model.complete(Prompt(text="hi"))
    assert "Authorization" not in server.requests[0].headers
    assert "canary" not in str(server.requests[0].headers)
    async with chatting("hello", api_key=KEY) as (model, server):
        await model.complete(Prompt(text="hi"))
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_the_owners_fields_are_merged_into_the_body_and_win() -> None:
    own = Endpoint(name="mine", base_url="http://127.0.0.1:9/v1", fields={"top_k": 40, "max_tokens": 7})
    async with chatting("hello", provider="mine", endpoint=own) as (model, server):
        reply = await model.complete(Prompt(text="hi"))
    assert (server.requests[0].body["top_k"], server.requests[0].body["max_tokens"]) == (40, 7)
    assert reply.model == "mine/local"


async def test_the_fields_of_a_prompt_are_merged_last() -> None:
    own = Endpoint(name="mine", base_url="http://127.0.0.1:9/v1", fields={"top_k": 40, "seed": 1})
    async with chatting("hello", provider="mine", endpoint=own) as (model, server):
        await model.complete(Prompt(text="hi", fields={"top_k": 5}))
    sent = server.requests[0].body
    assert (sent["top_k"], sent["seed"]) == (5, 1)


@pytest.mark.parametrize(("retries", "calls"), [(None, 3), (0, 1), (4, 5)])
async def test_a_prompt_may_say_how_often_it_is_tried_again(retries: int | None, calls: int) -> None:
    async with chatting(ChatAnswer(status=503)) as (model, server):
        with pytest.raises(ServerFailed):
            await model.complete(Prompt(text="hi", retries=retries))
    assert len(server.requests) == calls


async def test_a_schema_becomes_structured_output() -> None:
    async with chatting("{}") as (model, server):
        await model.complete(Prompt(text="decide", schema=SCHEMA, schema_name="verdict"))
    wanted = server.requests[0].body["response_format"]
    assert (wanted["type"], wanted["json_schema"]["name"]) == ("json_schema", "verdict")
    assert wanted["json_schema"]["schema"]["additionalProperties"] is False


async def test_a_server_that_refuses_structured_output_is_asked_in_words_from_then_on() -> None:
    refused = ChatAnswer(status=400, error="response_format is not supported")
    async with chatting(refused, "{}") as (model, server):
        for _ in range(2):
            assert (await model.complete(Prompt(text="decide", schema=SCHEMA))).text == "{}"
    assert ["response_format" in request.body for request in server.requests] == [True, False, False]
    assert "react_emoji" in server.requests[2].messages[-1]["content"]


async def test_a_request_that_is_wrong_otherwise_is_no_word_against_structured_output() -> None:
    wrong = ChatAnswer(status=400, error="top_k is out of range")
    async with chatting(wrong, wrong, "{}") as (model, server):
        with pytest.raises(BadRequest):
            await model.complete(Prompt(text="decide", schema=SCHEMA))
        await model.complete(Prompt(text="decide", schema=SCHEMA))
    assert ["response_format" in request.body for request in server.requests] == [True, False, True]


async def test_tools_are_offered_and_their_calls_come_back_side_by_side() -> None:
    calls = (("weather", '{"town": "<Köln> \\"&\\"", "id": 123456789012345678901234567890}'), ("nobody", ""))
    async with chatting(ChatAnswer(text="", calls=calls, finish="tool_calls")) as (model, server):
        reply = await model.complete(Prompt(text="?", tools=(WEATHER,), schema=SCHEMA))
    sent = server.requests[0].body
    assert sent["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "The weather of a town",
                "parameters": dict(WEATHER.parameters),
            },
        }
    ]
    assert "response_format" not in sent  # one grammar for a completion: the format is asked for in words
    assert reply.text == ""
    assert reply.tool_calls == (
        ToolCall("call_0", "weather", {"town": '<Köln> "&"', "id": 123456789012345678901234567890}),
        ToolCall("call_1", "nobody", {}),
    )


@pytest.mark.parametrize("written", ['{"town": "Kö', "[1]", "null", "town=Köln"])
async def test_broken_arguments_are_handed_on_as_they_came_and_shown_to_the_model_again(written: str) -> None:
    async with chatting(ChatAnswer(text="", calls=(("weather", written),)), "sorry") as (model, server):
        first = await model.complete(Prompt(text="?", tools=(WEATHER,)))
        assert first.tool_calls[0].arguments == {RAW: written}
        failed = ToolResult("call_0", "weather", "no JSON object", is_error=True)
        step = ToolRound(first.tool_calls, (failed,), echo=first.echo)
        await model.complete(Prompt(text="?", tools=(WEATHER,), rounds=(step,)))
    said, result = server.requests[1].messages[1:]
    assert said["tool_calls"][0]["function"]["arguments"] == written
    assert result == {"role": "tool", "tool_call_id": "call_0", "content": "Error: no JSON object"}


async def test_rounds_follow_the_tail_with_reasoning_and_pictures() -> None:
    thought = {"reasoning_content": "hm"}
    async with chatting(ChatAnswer(text="", calls=(("a", "{}"), ("b", "{}")), extra=thought), "done") as (
        model,
        server,
    ):
        first = await model.complete(Prompt(text="?", tools=(WEATHER,)))
        results = (ToolResult("call_0", "a", "one", pictures=(PIXEL,)), ToolResult("call_1", "b", "two"))
        step = ToolRound(first.tool_calls, results, "I look.", first.echo)
        reply = await model.complete(Prompt(text="?", tools=(WEATHER,), rounds=(step,)), [Message("assistant", "hm?")])
    assert reply.text == "done"
    messages = server.requests[1].messages
    assert [message["role"] for message in messages[2:]] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[3]["content"] == "I look."
    assert messages[3]["reasoning_content"] == "hm"
    assert messages[6]["content"][0]["type"] == "image_url"


async def test_another_providers_echo_is_left_out() -> None:
    foreign = ToolRound((), (), "hm", {"by": "deepseek", "reasoning": {"reasoning_content": "secret"}})
    async with chatting("ok") as (model, server):
        await model.complete(Prompt(text="?", rounds=(foreign,)))
    assert "secret" not in json.dumps(server.requests[0].messages)


async def test_usage_counts_what_was_cached() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 5}}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, **details}
    async with chatting(ChatAnswer(usage=usage), ChatAnswer(usage={"prompt_cache_hit_tokens": 7, **usage})) as (
        model,
        _,
    ):
        counted = (await model.complete(Prompt(text="hi"))).usage
    assert (counted.input_tokens, counted.cached_tokens, counted.output_tokens) == (100, 60, 20)
    assert (counted.reasoning_tokens, counted.calls) == (5, 1)


async def test_a_usage_that_is_not_told_is_estimated_and_costs() -> None:
    async with chatting(ChatAnswer(text="x" * 300, usage=None), provider="openrouter", model="nobody/new") as (
        model,
        _,
    ):
        usage = (await model.complete(Prompt(text="y" * 3000))).usage
    assert usage.input_tokens >= 1000
    assert usage.output_tokens >= 100
    assert usage.cost_usd > 0


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ChatAnswer(status=401), BadKey),
        (ChatAnswer(status=402), QuotaUsedUp),
        (ChatAnswer(status=404), BadRequest),
        (ChatAnswer(status=429, headers={"retry-after": "900"}), RateLimited),
        (ChatAnswer(status=500), ServerFailed),
        (ChatAnswer(body=b'{"error": {"code": 429, "message": "slow down"}}'), RateLimited),
        (ChatAnswer(body=b'{"error": {"code": 502, "message": "down"}}'), ServerFailed),
        (ChatAnswer(body=b'{"error": "down"}'), ServerFailed),
        (ChatAnswer(body=b'{"choices": [{"finish_reason": "error", "error": {"code": 502}}]}'), ServerFailed),
        (ChatAnswer(text="", finish="content_filter"), Refused),
        (ChatAnswer(text="", extra={"refusal": "I can't."}), Refused),
        (ChatAnswer(text=""), BadAnswer),
        (ChatAnswer(text="<think>on and on"), BadAnswer),
        (ChatAnswer(body=b"[]"), BadAnswer),
        (ChatAnswer(body=b'{"choices": 3}'), BadAnswer),
        (ChatAnswer(body=b"<html>"), BadAnswer),
    ],
)
async def test_failures_are_told_apart(answer: ChatAnswer, error: type[Exception]) -> None:
    async with chatting(answer, provider="openrouter") as (model, _server):
        with pytest.raises(error) as caught:
            await model.complete(Prompt(text="hi", timeout=5.0))
    assert getattr(caught.value, "provider", "") == "openrouter"


async def test_a_key_is_checked_without_a_completion() -> None:
    async with chatting("hello") as (model, server):
        await model.check()
    assert not server.requests


async def test_what_stands_on_the_own_machine_is_free_and_what_does_not_is_not() -> None:
    models = [build_model(name, model="m", api_key="") for name in ENDPOINTS]
    free = {model.name for model in models if model.free}
    for model in models:
        await model.aclose()
    assert free == {"ollama/m", "llamacpp/m", "lmstudio/m", "vllm/m"}


async def test_the_owners_prices_hold() -> None:
    async with chatting("hello", provider="openrouter", rates=Rates(10.0, 100.0)) as (model, _server):
        assert (await model.complete(Prompt(text="hi"))).usage.cost_usd == pytest.approx(0.003)


BEGUN = Prompt(
    text="", system="sys", prefill="Claude: I think \n", stop=("User1:", "\n\n", "Ann:", "Bo:", "Cy:", "Di:")
)
FILE = [Message("user", "<cmd>cat untitled.txt</cmd>"), Message("assistant", "User1: Hello\n\n", cache=True)]


@pytest.mark.parametrize(
    ("provider", "marks"),
    [
        ("llamacpp", {}),
        ("deepseek", {"prefix": True}),
        ("mistral", {"prefix": True}),
        ("qwen", {"partial": True}),
        ("vllm", {}),
    ],
)
async def test_a_begun_answer_is_sent_in_the_servers_way(provider: str, marks: dict[str, Any]) -> None:
    async with chatting(" so.", provider=provider) as (model, server):
        reply = await model.complete(BEGUN, FILE)
    sent = server.requests[0].body
    assert server.requests[0].path == "/chat/completions"
    assert sent["messages"][1:] == [
        {"role": "user", "content": "<cmd>cat untitled.txt</cmd>"},
        {"role": "assistant", "content": "User1: Hello\n\nClaude: I think", **marks},
    ]
    assert sent.get("continue_final_message") is (True if provider == "vllm" else None)
    assert len(sent["stop"]) == (5 if provider in ("llamacpp", "vllm", "deepseek") else 4)  # none of mere whitespace
    assert reply.text == " so."


async def test_plain_completions_take_one_text() -> None:
    own = Endpoint(name="base", base_url="http://127.0.0.1:9/v1", prefill="completions")
    async with chatting(ChatAnswer(text=" so.\n\nAnn: no"), provider="base", endpoint=own) as (model, server):
        begun = await model.complete(BEGUN, FILE)
        await model.complete(Prompt(text="hello"))
    assert [request.path for request in server.requests] == ["/completions", "/chat/completions"]
    prompt = "sys\n\n<cmd>cat untitled.txt</cmd>\n\nUser1: Hello\n\nClaude: I think"
    assert server.requests[0].body["prompt"] == prompt
    assert begun.text == " so."


async def test_claude_behind_a_gateway_gets_its_cache_marks() -> None:
    prompt = Prompt(text="tail", system="stable", cache_ttl="1h")
    async with chatting("ok", provider="openrouter", model="anthropic/claude-haiku-5.5") as (model, server):
        await model.complete(prompt, [Message("user", "old", cache=True)])
    mark = {"type": "ephemeral", "ttl": "1h"}
    system, user = server.requests[0].messages
    assert system["content"] == [{"type": "text", "text": "stable", "cache_control": mark}]
    assert user["content"] == [{"type": "text", "text": "old", "cache_control": mark}, {"type": "text", "text": "tail"}]
