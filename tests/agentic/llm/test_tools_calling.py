"""Function calls of the four providers, over real sockets: what is offered, what is called, what goes back."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.llm.errors import BadAnswer
from agentic.llm.provider_table import profile_of
from agentic.llm.turns import RAW, arguments_of, arguments_text, function_of, is_strict, written_calls
from agentic.llm.types import Message, Picture, Prompt, Reply, Tool, ToolCall, ToolResult, ToolRound
from tests.support.models.model_doubles import SCHEMA, talking
from tests.support.models.wire.values import SMALL_PNG, Answer

PIXEL = Picture(SMALL_PNG, "image/png")
WEATHER = Tool(
    "weather",
    "The weather of a town.",
    {"$schema": "x", "type": "object", "properties": {"town": {"type": "string", "default": "Köln"}}},
)
CLOSED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
TIME = Tool("time", "The time.", CLOSED)
ODD = {"town": 'Köln <b>"quoted"</b> \\ 🙃\n', "n": 123456789012345678901234567890, "deep": {"list": [1.5, None]}}
CALLS = (("weather", json.dumps(ODD)), ("time", "{}"))
TOOLS = (WEATHER, TIME)


def answered(reply: Reply, *texts: str, **changes: Any) -> ToolRound:
    results = [
        ToolResult(call.id, call.name, text, **changes) for call, text in zip(reply.tool_calls, texts, strict=True)
    ]
    return ToolRound(reply.tool_calls, tuple(results), reply.text, reply.echo)


async def test_tools_are_offered_and_calls_come_side_by_side_without_a_text(provider: str) -> None:
    async with talking(provider, Answer(text="", calls=CALLS)) as (model, server):
        reply = await model.complete(Prompt(text="rain?", tools=TOOLS))
    assert server.requests[0].tools == ("weather", "time")
    sent = json.dumps(dict(server.requests[0].raw), ensure_ascii=False)
    assert "The weather of a town." in sent
    assert '"default": "Köln"' in sent
    assert "$schema" not in sent
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("weather", ODD), ("time", {})]
    assert len({call.id for call in reply.tool_calls}) == 2
    assert (reply.text, reply.stop) == ("", "stop")


async def test_a_name_that_is_no_tool_and_a_text_beside_the_call_come_through(provider: str) -> None:
    answer = Answer(text="Let me see.", calls=(("no_such_tool", '{"x": 1}'),))
    async with talking(provider, answer) as (model, _server):
        reply = await model.complete(Prompt(text="?", tools=TOOLS))
    assert reply.text == "Let me see."
    assert [call.name for call in reply.tool_calls] == ["no_such_tool"]


@pytest.mark.parametrize(
    "written",
    [
        '```json\n{"name": "weather", "arguments": {"town": "Köln"}}\n```',
        '```{"name": "weather", "arguments": {"town": "Köln"}}```',
        ' {"name": "weather", "parameters": {"town": "Köln"}}\n',
        '[{"type": "function", "name": "weather", "arguments": "{\\"town\\": \\"Köln\\"}"}]',
        '<tool_call>\n{"name": "weather", "arguments": {"town": "Köln"}}\n</tool_call>',
    ],
)
async def test_a_call_that_is_written_as_the_answer_is_made(provider: str, written: str) -> None:
    async with talking(provider, Answer(text=written), Answer(text="Rain.")) as (model, server):
        reply = await model.complete(Prompt(text="rain?", tools=TOOLS))
        assert (reply.text, [(call.name, call.arguments) for call in reply.tool_calls]) == (
            "",
            [("weather", {"town": "Köln"})],
        )
        await model.complete(Prompt(text="rain?", tools=TOOLS, rounds=(answered(reply, "wet"),)))
    assert "wet" in json.dumps(dict(server.requests[1].raw))


def test_calls_may_be_written_one_after_the_other() -> None:
    call = '```json\n{"name": "time", "arguments": {"n": %d}}\n```'
    assert [made.arguments for made in written_calls(f"{call % 1}\n\n{call % 2}", TOOLS)] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    "said",
    [
        "",
        "Sunny.",
        'Like this: {"name": "weather", "arguments": {}}',
        '```json\n{"name": "weather", "arguments": {}}\n```\nThat is how it works.',
        '{"name": "no_such_tool", "arguments": {}}',
        '{"name": "weather", "arguments": {}, "text": "Hello"}',
        '{"name": "weather"}',
        '{"name": ["weather"], "arguments": {}}',
        '{"skip": false, "text": "Hello"}',
        '{"name": "weather", "arguments": {"town": "Kö',
    ],
)
def test_an_answer_with_anything_else_is_no_call(said: str) -> None:
    assert written_calls(said, TOOLS) == ()


async def test_without_tools_a_request_is_as_it_was(provider: str) -> None:
    async with talking(provider, "ok") as (model, server):
        await model.complete(Prompt(text="hi"))
    assert not {"tools", "toolConfig", "include"} & server.requests[0].raw.keys()


async def test_rounds_follow_the_tail_in_their_order_with_the_models_own_words(provider: str) -> None:
    first, second = Answer(text="Hm.", calls=CALLS, thinking="secret"), Answer(text="", calls=CALLS[:1])
    prompt = Prompt(text="tail", system="stable", tools=TOOLS, cache_key="k")
    history = [Message("user", "old", cache=True)]
    async with talking(provider, first, second, "done") as (model, server):
        one = await model.complete(prompt, history)
        prompt = replace(prompt, rounds=(answered(one, "rain", "noon"),))
        two = await model.complete(prompt, history)
        prompt = replace(prompt, rounds=(*prompt.rounds, answered(two, "again <rain>")))
        assert (await model.complete(prompt, history)).text == "done"
    last = server.requests[2]
    assert last.texts[:2] == ("old", "tail")
    assert [text for _, text in last.results] == ["rain", "noon", "again <rain>"]
    ids = [call.id for reply in (one, two) for call in reply.tool_calls]
    assert [call for call, _ in last.results] == ids
    sent = json.dumps(dict(last.raw), ensure_ascii=False)
    assert "123456789012345678901234567890" in sent


@pytest.mark.parametrize(
    ("provider", "sealed"),
    [
        ("openai", '"encrypted_content": "c2VhbGVk"'),
        ("xai", '"encrypted_content": "c2VhbGVk"'),
        ("anthropic", '"signature": "c2ln"'),
        ("google", '"thoughtSignature": "c2lnbmF0dXJl"'),
    ],
)
async def test_what_a_model_sealed_goes_back_to_itself_only(provider: str, sealed: str) -> None:
    async with talking(provider, Answer(text="", calls=CALLS, thinking="secret"), "done") as (model, server):
        reply = await model.complete(Prompt(text="?", tools=TOOLS))
        own = answered(reply, "a", "b")
        await model.complete(Prompt(text="?", tools=TOOLS, rounds=(own,)))
        foreign = replace(own, echo={"by": "somebody/else", "content": [{"type": "alien"}]})
        await model.complete(Prompt(text="?", tools=TOOLS, rounds=(foreign, replace(foreign, echo=None))))
    mine, anothers = (json.dumps(dict(request.raw)) for request in server.requests[1:])
    assert sealed in mine
    assert "secret" not in reply.text
    assert sealed not in anothers
    assert "alien" not in anothers
    assert len(server.requests[2].results) == 4


async def test_calls_of_another_model_get_ids_of_their_own(provider: str) -> None:
    step = ToolRound((ToolCall("call_0", "time", {}),), (ToolResult("call_0", "time", "noon"),), "Let me see.")
    async with talking(provider, "ok") as (model, server):
        await model.complete(Prompt(text="?", tools=TOOLS, rounds=(step, step)))
    ids = [call for call, _ in server.requests[0].results]
    assert len(set(ids)) == 2
    assert "Let me see." in server.requests[0].texts


async def test_a_call_without_a_result_is_told_of(provider: str) -> None:
    step = ToolRound((ToolCall("a", "time", {}), ToolCall("b", "time", {})), (ToolResult("b", "time", "noon"),))
    async with talking(provider, "ok") as (model, server):
        await model.complete(Prompt(text="?", tools=TOOLS, rounds=(step,)))
    assert [text.removeprefix("Error: ") for _, text in server.requests[0].results] == ["this call was not run", "noon"]


async def test_a_result_that_is_an_error_says_so(provider: str) -> None:
    step = ToolRound((ToolCall("a", "time", {}),), (ToolResult("a", "time", "no clock", is_error=True),))
    async with talking(provider, "ok") as (model, server):
        await model.complete(Prompt(text="?", tools=TOOLS, rounds=(step,)))
    sent = json.dumps(dict(server.requests[0].raw))
    sign = {"anthropic": '"is_error": true', "google": '{"error": "no clock"}'}.get(provider, "Error: no clock")
    assert sign in sent


async def test_pictures_of_results_are_seen_and_what_cannot_be_seen_is_told_of(provider: str) -> None:
    result = ToolResult("a", "time", "", (PIXEL, Picture(b"x", "image/tiff"), PIXEL))
    step = ToolRound((ToolCall("a", "time", {}),), (result,))
    async with talking(provider, "ok") as (model, server):
        await model.complete(Prompt(text="?", tools=TOOLS, rounds=(step,)))
    assert server.requests[0].pictures == 2
    assert "1 picture came with this" in server.requests[0].results[0][1]


async def test_a_picture_of_a_result_that_is_not_accepted_costs_the_picture_not_the_answer(provider: str) -> None:
    step = ToolRound((ToolCall("a", "time", {}),), (ToolResult("a", "time", "seen", (PIXEL,)),))
    async with talking(provider, Answer(status=400), "words") as (model, server):
        reply = await model.complete(Prompt(text="?", tools=TOOLS, rounds=(step,)))
    assert reply.text == "words"
    assert [request.pictures for request in server.requests] == [1, 0]


async def test_tools_stand_beside_search_and_structured_output(provider: str) -> None:
    async with talking(provider, "{}") as (model, server):
        await model.complete(Prompt(text="?", tools=TOOLS, search=True, schema=SCHEMA))
        await model.complete(Prompt(text="?", tools=TOOLS, schema=SCHEMA))
    both, alone = server.requests
    assert both.tools[1:] == ("weather", "time")
    assert alone.has_schema
    if provider == "google":
        assert both.raw["toolConfig"] == {"includeServerSideToolInvocations": True}
    if provider == "xai":
        assert set(both.raw["include"]) == {"no_inline_citations", "reasoning.encrypted_content"}


async def test_an_older_gemini_gets_our_tools_without_its_search_and_the_format_in_words() -> None:
    async with talking("google", "{}", model="gemini-2.5-flash") as (model, server):
        await model.complete(Prompt(text="?", tools=TOOLS, search=True, schema=SCHEMA))
    assert server.requests[0].tools == ("weather", "time")
    assert not server.requests[0].has_schema
    assert "react_emoji" in server.requests[0].tail


async def test_cache_marks_are_where_they_are_without_rounds() -> None:
    history = [Message("user", "old", cache=True), Message("user", "new")]
    step = ToolRound((ToolCall("a", "time", {}),), (ToolResult("a", "time", "noon"),))
    prompt = Prompt(text="tail", system="stable", tools=TOOLS)
    async with talking("anthropic", "ok") as (model, server):
        await model.complete(prompt, history)
        await model.complete(replace(prompt, rounds=(step,)), history)
    plain, longer = (request.raw for request in server.requests)
    assert longer["messages"][: len(plain["messages"])] == plain["messages"]
    assert (longer["system"], longer["tools"]) == (plain["system"], plain["tools"])


async def test_a_call_that_the_length_limit_cut_is_none() -> None:
    cut = {"type": "function_call", "call_id": "c", "name": "time", "arguments": '{"n', "status": "incomplete"}
    told = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [cut]}
    async with talking("openai", Answer(body=json.dumps(told).encode())) as (model, _server):
        with pytest.raises(BadAnswer, match="cut off"):
            await model.complete(Prompt(text="?", tools=TOOLS))
    blocks = [{"type": "tool_use", "id": "c", "name": "time", "input": {}}]
    body = json.dumps({"stop_reason": "max_tokens", "content": blocks}).encode()
    async with talking("anthropic", Answer(body=body)) as (model, _server):
        with pytest.raises(BadAnswer, match="cut off"):
            await model.complete(Prompt(text="?", tools=TOOLS))


async def test_a_blank_text_beside_a_call_does_not_go_back_to_claude() -> None:
    blocks = [{"type": "text", "text": "\n"}, {"type": "tool_use", "id": "c", "name": "time", "input": {}}]
    body = json.dumps({"stop_reason": "tool_use", "content": blocks}).encode()
    async with talking("anthropic", Answer(body=body), "ok") as (model, server):
        reply = await model.complete(Prompt(text="?", tools=TOOLS))
        await model.complete(Prompt(text="?", tools=TOOLS, rounds=(answered(reply, ""),)))
    assert server.requests[1].raw["messages"][1]["content"] == blocks[1:]
    assert "content" not in server.requests[1].raw["messages"][2]["content"][0]


@pytest.mark.parametrize(
    "said",
    ['{"town": "Kö', "[1]", "null", "town=Köln", '{"n": NaN}', '{"s": "\\ud83d"}', '{"a":' * 99_999],
    ids=["open", "list", "null", "words", "nan", "half a pair", "deep"],
)
async def test_arguments_that_are_no_object_are_shown_to_the_model_as_it_wrote_them(said: str) -> None:
    async with talking("openai", Answer(text="", calls=(("weather", said),)), "sorry") as (model, server):
        reply = await model.complete(Prompt(text="?", tools=TOOLS))
        assert reply.tool_calls[0].arguments == {RAW: said}
        await model.complete(Prompt(text="?", tools=TOOLS, rounds=(replace(answered(reply, "what?"), echo=None),)))
    sent = [item for item in server.requests[1].raw["input"] if item.get("type") == "function_call"]
    assert [item["arguments"] for item in sent] == [said]


@given(st.dictionaries(st.text(), st.recursive(st.integers() | st.text() | st.none(), st.lists, max_leaves=5)))
def test_arguments_survive_the_way_there_and_back(arguments: dict[str, Any]) -> None:
    assert arguments_of(arguments_text(arguments)) == arguments


def test_strict_is_asked_for_only_where_it_changes_nothing() -> None:
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert is_strict(CLOSED)
    assert is_strict({**CLOSED, "properties": {"n": nullable}})
    assert not is_strict({**CLOSED, "required": []})
    assert not is_strict({**CLOSED, "properties": {"n": {"type": "object"}}})
    assert not is_strict({**CLOSED, "properties": {"n": {"type": "string", "pattern": "a"}}})
    assert not is_strict({**CLOSED, "additionalProperties": True})


def test_parameters_are_one_plain_object_at_the_top() -> None:
    one = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    two = {"properties": {"$schema": {"type": "string", "$id": "x"}}, "required": ["$schema"]}
    profile = profile_of("openai", "gpt-6-luna")

    def parameters_of(schema: dict[str, Any]) -> Any:
        return function_of(Tool("t", "", schema), profile)["parameters"]

    either = parameters_of({"anyOf": [one, two]})
    assert either == {"type": "object", "properties": {"a": {"type": "string"}, "$schema": {"type": "string"}}}
    assert parameters_of({"allOf": [one, two]})["required"] == ["a", "$schema"]
    assert parameters_of({}) == {"type": "object", "properties": {}}
