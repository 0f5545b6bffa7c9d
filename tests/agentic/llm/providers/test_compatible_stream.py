"""Streamed chat completions: the same reply as in one piece, heard as it grows."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.llm.errors import BadAnswer, ConnectionFailed, RateLimited
from agentic.llm.http import MAX_STREAM_BYTES, Decoder
from agentic.llm.providers.compatible import MAX_CHARACTERS, StreamedCompletion, gather
from agentic.llm.types import Prompt
from agentic.turn.streaming import StreamFilter
from tests.support.models.chat_api import ChatAnswer, ChatRequest, pieces, whole, written
from tests.support.models.chat_doubles import chatting

ANSWER = ChatAnswer(
    text="Grüße aus <Köln> 🙃, heute.",
    calls=(("weather", '{"town": "Köln", "n": 12345678901234567890}'), ("time", "{}")),
    extra={"reasoning_content": "hm"},
    finish="tool_calls",
)
REQUEST = ChatRequest("/chat/completions", {"stream": True}, {})


async def test_a_streamed_reply_is_the_same_and_is_heard_as_it_grows() -> None:
    heard: list[str] = []
    async with chatting(ANSWER) as (model, server):
        streamed = await model.complete(Prompt(text="hi", on_text=heard.append))
        at_once = await model.complete(Prompt(text="hi"))
    assert (server.requests[0].body["stream"], server.requests[0].body["stream_options"]) == (
        True,
        {"include_usage": True},
    )
    assert (streamed.text, streamed.tool_calls, streamed.usage) == (at_once.text, at_once.tool_calls, at_once.usage)
    assert (streamed.stop, streamed.echo) == (at_once.stop, at_once.echo)
    assert heard[0] == ""
    assert heard[-1] == ANSWER.text
    assert len(heard) > 3
    assert all(ANSWER.text.startswith(text) for text in heard)


async def test_plain_completions_stream_too_and_nothing_of_a_stop_sequence_is_heard() -> None:
    heard: list[str] = []
    prompt = Prompt(text="", prefill="Claude:", stop=("User1:",), on_text=heard.append)
    said = ChatAnswer(text=" Hi there\n\nUser1: hello")
    async with chatting(said, provider="llamacpp") as (model, _server):
        reply = await model.complete(prompt)
    assert reply.text == " Hi there\n\n"
    assert all(reply.text.startswith(text) for text in heard)


@pytest.mark.parametrize(
    "said", ["<think>secret</think>Yes.", "[THINK]secret[/THINK]Yes.", "<think>secret\n</think>\n\nYes.<think>secret"]
)
async def test_reasoning_is_not_heard(said: str) -> None:
    heard: list[str] = []
    async with chatting(ChatAnswer(text=said), said) as (model, _server):
        streamed = await model.complete(Prompt(text="hi", on_text=heard.append))
        at_once = await model.complete(Prompt(text="hi"))
    assert streamed.text == at_once.text == "Yes."
    assert streamed.reasoning == at_once.reasoning
    assert at_once.reasoning.startswith("secret")
    assert not any("s" in text.replace("Yes", "") or "<" in text or "[" in text for text in heard)


async def test_reasoning_that_the_chat_template_opened_is_not_the_answer() -> None:
    async with chatting("secret</think>Yes.") as (model, _server):
        reply = await model.complete(Prompt(text="hi"))
    assert (reply.text, reply.reasoning) == ("Yes.", "secret")


@pytest.mark.parametrize(
    "extra",
    [
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "h"}, {"type": "reasoning.summary", "summary": "m"}]},
    ],
)
async def test_reasoning_in_a_field_is_kept_whatever_the_server_calls_it(extra: dict[str, Any]) -> None:
    async with chatting(ChatAnswer(text="Yes.", extra=extra)) as (model, _server):
        at_once = await model.complete(Prompt(text="hi"))
        streamed = await model.complete(Prompt(text="hi", on_text=lambda _: None))
    assert [(reply.text, reply.reasoning) for reply in (at_once, streamed)] == [("Yes.", "hm")] * 2


async def test_a_stream_that_is_cut_is_begun_again() -> None:
    heard: list[str] = []
    async with chatting(ChatAnswer(text="half an answer", cut=200), "whole") as (model, server):
        reply = await model.complete(Prompt(text="hi", on_text=heard.append))
    assert reply.text == "whole"
    assert len(server.requests) == 2
    assert heard.count("") == 2


async def test_a_stream_that_ends_without_an_end_is_a_failed_connection() -> None:
    body = b'data: {"choices": [{"delta": {"content": "half"}}]}\n\n'
    async with chatting(ChatAnswer(body=body)) as (model, _server):
        with pytest.raises(ConnectionFailed):
            await model.complete(Prompt(text="hi", on_text=lambda _text: None))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'data: {"error": {"code": 429}}\n\n', RateLimited),
        (b"data: <html>\n\n", BadAnswer),
        (b"data: [1]\n\n", BadAnswer),
    ],
)
async def test_what_goes_wrong_within_a_stream_is_told(body: bytes, error: type[Exception]) -> None:
    async with chatting(ChatAnswer(body=body)) as (model, _server):
        with pytest.raises(error):
            await model.complete(Prompt(text="hi", on_text=lambda _text: None))


async def test_a_model_that_does_not_end_is_cut() -> None:
    heard: list[str] = []
    chunk = json.dumps({"choices": [{"delta": {"content": "x" * 20_000}}]})
    async with chatting(ChatAnswer(body=f"data: {chunk}\n\n".encode() * 20)) as (model, _server):
        reply = await model.complete(Prompt(text="hi", on_text=heard.append))
    assert reply.stop == "length"
    assert MAX_CHARACTERS < len(reply.text) <= MAX_CHARACTERS + 20_000


@pytest.mark.parametrize("written", [str, lambda text: [{"type": "text", "text": text}]])
@pytest.mark.promise(569)
async def test_a_long_answer_in_small_pieces_takes_linear_time(written: Callable[[str], object]) -> None:
    async def growing(size: int) -> AsyncIterator[dict[str, object]]:
        for _ in range(size // 4):
            yield {"choices": [{"delta": {"content": written("a `b")}}]}
        yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}

    async def seconds(size: int) -> float:
        began = time.thread_time()
        await gather(growing(size), StreamFilter(lambda _: None, ()).listener(lambda text: text))
        return time.thread_time() - began

    short, long = await seconds(4_000), await seconds(32_000)
    assert long < 3 * 8 * short


def test_a_stream_without_end_is_a_bad_answer() -> None:
    decoder, babble = Decoder(), b": keep-alive\n" * 80_000
    for _ in range(MAX_STREAM_BYTES // len(babble)):
        assert not list(decoder.feed(babble))
    with pytest.raises(BadAnswer):
        list(decoder.feed(babble))


@given(st.lists(st.integers(0, 3000), max_size=20))
def test_bytes_may_be_split_anywhere(cuts: list[int]) -> None:
    body, _kind = written(REQUEST, ANSWER)
    bounds = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    decoder, gathering = Decoder(), StreamedCompletion()
    for start, end in itertools.pairwise(bounds):
        for data in decoder.feed(body[start:end]):
            if data != "[DONE]":
                gathering.add(json.loads(data))
    message = gathering.answer["choices"][0]["message"]
    told = whole(REQUEST, ANSWER)["choices"][0]["message"]
    assert message["content"] == told["content"]
    assert [call["function"] for call in message["tool_calls"]] == [call["function"] for call in told["tool_calls"]]


@given(st.integers(0, 60))
def test_what_came_before_a_cut_is_the_beginning_of_the_answer(count: int) -> None:
    gathering = StreamedCompletion()
    for piece in list(pieces(REQUEST, ANSWER))[:count]:
        gathering.add(piece)
    assert ANSWER.text.startswith(gathering.said)


def test_calls_without_an_index_are_told_apart_by_their_id() -> None:
    gathering = StreamedCompletion()
    for call in (
        {"id": "a", "function": {"name": "one", "arguments": '{"x":'}},
        {"function": {"arguments": " 1}"}},
        {"id": "b", "function": {"name": "two", "arguments": {"y": 2}}},
    ):
        gathering.add({"choices": [{"delta": {"tool_calls": [call]}}]})
    calls = gathering.answer["choices"][0]["message"]["tool_calls"]
    assert [call["function"] for call in calls] == [
        {"name": "one", "arguments": '{"x": 1}'},
        {"name": "two", "arguments": {"y": 2}},
    ]
