"""The tool loop with real SDKs whose servers send no ids for calls, repeat them, or write HTML into arguments: every
result goes back to its own call."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agentic.llm.types import Prompt
from agentic.tools.tool import collect_tools
from tests.support.models.chat_api import ChatAnswer
from tests.support.models.chat_doubles import chatting
from tests.support.models.model_doubles import talking
from tests.support.models.wire.values import Answer
from tests.support.tools.tool_doubles import CONTEXT, FakeTool, run_tools

SEARCH = FakeTool("web_search", lambda arguments: f"found {arguments['q']}")
FETCH = FakeTool("web_fetch", lambda arguments: f"page {arguments['q']}")
LATER = replace(CONTEXT, deadline=4_000_000_000.0)
QUERIES = ("a", "b", "c", "d")


async def run(model: Any, *tools: FakeTool, **prompt: Any) -> str:
    box, _ = collect_tools(tools or (SEARCH, FETCH))
    return (await run_tools(model.complete, Prompt(text="?", **prompt), box, context=LATER)).reply.text


def query(text: str) -> str:
    return json.dumps({"q": text})


async def test_two_rounds_of_ollama_get_their_own_results() -> None:
    first, second = (("web_search", query("a")),), (("web_fetch", query("b")), ("web_search", query("c")))
    answers = (ChatAnswer(text="", calls=first), ChatAnswer(text="", calls=second), "done")
    async with chatting(*answers, provider="ollama") as (model, server):
        assert await run(model) == "done"
    results = [each for each in server.requests[-1].messages if each["role"] == "tool"]
    assert [(each["tool_name"], each["content"]) for each in results] == [
        ("web_search", "found a"),
        ("web_fetch", "page b"),
        ("web_search", "found c"),
    ]


@pytest.mark.promise(537)
@pytest.mark.parametrize("call_id", ["", None, "call_0", "functions.web_search:0"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_ids_that_a_compatible_server_leaves_out_or_repeats_are_made_unique(
    call_id: str | None, streamed: bool
) -> None:
    def calling(*queries: str) -> ChatAnswer:
        calls = [
            {"id": call_id, "index": place, "function": {"name": "web_search", "arguments": query(text)}}
            for place, text in enumerate(queries)
        ]
        return ChatAnswer(text="", extra={"tool_calls": calls}, finish="tool_calls")

    listening = {"on_text": lambda _: None} if streamed else {}
    async with chatting(calling("a", "b"), calling("c", "d"), "done", provider="mistral") as (model, server):
        assert await run(model, **listening) == "done"
    messages = server.requests[-1].messages
    called = {call["id"]: call for each in messages for call in each.get("tool_calls", ())}
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    assert len(called) == len(results) == 4
    for name, call in called.items():
        assert results[name] == f"found {json.loads(call['function']['arguments'])['q']}"
    ours = [name for name in called if name != call_id]
    assert all(len(name) == 9 and name.isalnum() for name in ours), "Mistral takes no other ids"


async def test_calls_of_a_stream_that_all_have_the_index_0_stay_apart() -> None:
    calls = [
        {"id": "", "index": 0, "function": {"name": "web_search", "arguments": query(text)}} for text in ("a", "b")
    ]
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    async with chatting(ChatAnswer(body=body), "done") as (model, server):
        assert await run(model, on_text=lambda _: None) == "done"
    results = [each["content"] for each in server.requests[-1].messages if each["role"] == "tool"]
    assert results == ["found a", "found b"]


def with_id(call_id: str | None) -> Any:
    """Give every call of an answer the same id, in each provider's own shape. None takes the ids away."""

    def edit(answer: dict[str, Any]) -> None:
        parts = [part for one in answer.get("candidates", ()) for part in one["content"]["parts"]]
        calls = [(part["functionCall"], "id") for part in parts if "functionCall" in part]
        calls += [(each, "call_id") for each in answer.get("output", ()) if each["type"] == "function_call"]
        calls += [(each, "id") for each in answer.get("content", ()) if each["type"] == "tool_use"]
        assert calls
        for call, key in calls:
            call[key] = call_id
            if call_id is None:
                del call[key]

    return edit


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google", "xai"])
@pytest.mark.parametrize("call_id", ["", None, "same"])
async def test_every_provider_gets_each_result_with_the_id_of_its_call(provider: str, call_id: str | None) -> None:
    rounds = [
        Answer(text="", calls=tuple(("web_search", query(text)) for text in texts), edit=with_id(call_id))
        for texts in (("a", "b"), ("c", "d"))
    ]
    async with talking(provider, *rounds, "done") as (model, server):
        assert await run(model) == "done"
    results = server.requests[-1].results
    assert [text for _, text in results] == [f"found {text}" for text in QUERIES]
    if provider == "google":  # pairs by order; a response has the id of its call, if the call has one
        assert {given for given, _ in results} == {call_id or ""}
    else:
        assert len({given for given, _ in results}) == 4


ESCAPED = json.dumps(
    {"q": "Tom &amp; Jerry &lt;3", "in": [{"url": "https://x.org/?a=1&amp;b=2&copy=3"}, "&#39;&quot;"]}
)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("xai", "grok-4.6"),
        ("openrouter", "x-ai/grok-4.6"),
        ("openrouter", "xai/grok-4.6"),
        ("openai", "gpt-6.1"),
        ("openrouter", "openai/gpt-6.1"),
    ],
)
async def test_entities_in_arguments_are_decoded_for_grok_alone(provider: str, model: str) -> None:
    tool = FakeTool("web_search", lambda _: "found")
    if provider == "openrouter":
        talk: Any = chatting(
            ChatAnswer(text="", calls=(("web_search", ESCAPED),)), "done", provider=provider, model=model
        )
    else:
        talk = talking(provider, Answer(text="", calls=(("web_search", ESCAPED),)), "done", model=model)
    async with talk as (asked, _):
        assert await run(asked, tool) == "done"
    plain = {"q": "Tom & Jerry <3", "in": [{"url": "https://x.org/?a=1&b=2&copy=3"}, "'\""]}
    assert tool.ran == [plain if "grok" in model else json.loads(ESCAPED)]


async def test_arguments_that_grok_escapes_as_a_whole_are_read() -> None:
    tool = FakeTool("web_search", lambda _: "found")
    asked = ChatAnswer(text="", calls=(("web_search", "{&quot;q&quot;: &quot;Tom &amp;amp; Jerry&quot;}"),))
    async with chatting(asked, "done", provider="openrouter", model="x-ai/grok-4.6") as (model, _):
        assert await run(model, tool) == "done"
    assert tool.ran == [{"q": "Tom &amp; Jerry"}]
