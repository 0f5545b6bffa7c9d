"""Streamed answers of the four providers: the same reply as in one piece, heard as it grows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.llm import http
from agentic.llm.errors import (
    BadAnswer,
    BadRequest,
    ConnectionFailed,
    ModelError,
    RateLimited,
    Refused,
    ServerFailed,
    TimedOut,
)
from agentic.llm.model import StreamListener
from agentic.llm.providers import anthropic as anthropic_stream
from agentic.llm.providers import gemini as gemini_stream
from agentic.llm.providers import openai as openai_stream
from agentic.llm.registry import LazyModel, build_model
from agentic.llm.types import Message, Picture, Prompt, Reply, Usage
from tests.support.models.model_doubles import Script, talking
from tests.support.models.model_server import ModelServer
from tests.support.models.wire import anthropic, google, openai, streams
from tests.support.models.wire.values import SMALL_PNG, Answer, ModelRequest

TEXT = 'Grüße aus <Köln> 🙃, \u2028heute "hier".'
CALLS = (("weather", '{"town": "Köln <b>", "n": 123456789012345678901234567890}'), ("time", "{}"))
FULL = Answer(
    text=TEXT,
    thinking="secret thoughts 🙃",
    calls=CALLS,
    sources=(("A", "https://a.example/"), ("B", "https://b.example/")),
    searches=1,
    input_tokens=1000,
    cached_tokens=400,
    output_tokens=70,
    reasoning_tokens=30,
)


async def streamed(provider: str, *answers: str | Answer, **options: Any) -> tuple[Reply, list[str]]:
    heard: list[str] = []
    async with talking(provider, *answers) as (model, _server):
        reply = await model.complete(Prompt(text="hi", on_text=heard.append, **options))
    return reply, heard


async def test_a_streamed_reply_is_the_same_as_one_in_one_piece(provider: str) -> None:
    heard: list[str] = []
    async with talking(provider, FULL) as (model, server):
        at_once = await model.complete(Prompt(text="hi", search=True))
        server._count = 0  # the same ids
        streamed = await model.complete(Prompt(text="hi", search=True, on_text=heard.append))
    assert streamed == at_once
    assert streamed.echo == at_once.echo is not None
    assert (streamed.text, len(streamed.tool_calls), len(streamed.sources)) == (TEXT, 2, 2)
    assert streamed.usage.cost_usd > 0
    assert server.requests[1].raw["stream"] is True
    assert "stream" not in server.requests[0].raw


async def test_the_text_is_heard_as_it_grows_and_nothing_of_the_thinking(provider: str) -> None:
    reply, heard = await streamed(provider, Answer(text=TEXT, thinking="secret thoughts"))
    assert heard[0] == ""
    assert heard[-1] == reply.text == TEXT
    assert len(heard) > 3
    assert all(TEXT.startswith(text) for text in heard)


async def test_an_answer_at_the_length_limit_says_so_when_streamed(provider: str) -> None:
    reply, heard = await streamed(provider, Answer(text="half an ans", stop="length"))
    assert (reply.stop, heard[-1]) == ("length", "half an ans")


async def test_a_refusal_in_a_stream_is_refused_and_its_cost_known(provider: str) -> None:
    with pytest.raises(Refused) as caught:
        await streamed(provider, Answer(text="I can't.", stop="refusal"))
    assert caught.value.usage is not None
    assert caught.value.usage.cost_usd > 0


async def test_an_error_before_the_stream_is_what_it_is_without(provider: str) -> None:
    with pytest.raises(BadRequest):
        await streamed(provider, Answer(status=404))
    reply, heard = await streamed(provider, Answer(status=503), "then")
    assert (reply.text, heard.count("")) == ("then", 2)


async def test_a_broken_picture_costs_the_picture_when_streamed_too(provider: str) -> None:
    picture = (Picture(SMALL_PNG, "image/png"),)
    reply, _heard = await streamed(provider, Answer(status=400, error_code="invalid_image"), "words", pictures=picture)
    assert reply.text == "words"


@pytest.mark.parametrize("after", [0, 1, 400, 900])
async def test_a_stream_that_is_cut_is_begun_again(provider: str, after: int) -> None:
    reply, heard = await streamed(provider, Answer(text=TEXT * 20, cut=after or 1), "whole")
    assert reply.text == "whole"
    assert heard.count("") == 2
    assert heard[-1] == "whole"


async def test_what_a_cut_stream_is_known_to_have_cost_is_booked() -> None:
    """Anthropic and Google tell the prompt's tokens at the beginning."""
    for provider in ("anthropic", "google"):
        cut = Answer(text=TEXT * 20, cut=2000, input_tokens=1000)
        reply, _heard = await streamed(provider, cut, Answer(text="whole", input_tokens=1000))
        assert (reply.usage.calls, reply.usage.input_tokens) == (2, 2000)
        with pytest.raises(ConnectionFailed) as caught:
            await streamed(provider, cut)
        assert caught.value.usage is not None
        assert (caught.value.usage.calls, caught.value.usage.input_tokens) == (3, 3000)
        assert caught.value.usage.cost_usd > 0


async def test_what_a_stream_cost_that_ran_out_of_time_is_known() -> None:
    begun: dict[str, Any] = {"type": "message_start", "message": {"usage": {"input_tokens": 500}}}
    with pytest.raises(TimedOut) as caught:
        await streamed("anthropic", Answer(body=streams.encoded([begun]), stalls=True), timeout=0.3)
    assert caught.value.usage is not None
    assert caught.value.usage.input_tokens == 500


async def test_an_answer_that_is_whole_does_not_wait_for_the_connection_to_end(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "REST_SECONDS", 0.01)
    reply, _heard = await streamed(provider, Answer(text="whole", stalls=True))
    assert reply.text == "whole"


@pytest.mark.parametrize("body", [b"", b": nothing\n\n", b"data: {}\n\n"])
async def test_a_stream_that_ends_without_an_end_is_a_failed_connection(provider: str, body: bytes) -> None:
    with pytest.raises(ConnectionFailed):
        await streamed(provider, Answer(body=body))


@pytest.mark.parametrize("body", [b"data: <html>\n\n", b"data: [1]\n\n", b"data: " + b"[" * 100_000 + b"\n\n"])
async def test_a_stream_of_something_else_is_a_bad_answer(provider: str, body: bytes) -> None:
    with pytest.raises(BadAnswer):
        await streamed(provider, Answer(body=body))


async def test_a_line_without_end_is_cut_at_a_bound(provider: str) -> None:
    with pytest.raises(BadAnswer, match="without end"):
        await streamed(provider, Answer(body=b"data: " + b"x" * 3_000_000))


async def test_events_of_odd_shapes_are_passed_over(provider: str) -> None:
    odd: list[Mapping[str, Any]] = [
        {"type": 3},
        {"type": "of the future", "index": -1, "output_index": "x"},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "of the future"}},
        {"type": "content_block_stop", "index": 77},
        {"candidates": [{"content": {"parts": "x"}}, 3], "promptFeedback": None},
        {"type": "response.output_text.delta", "delta": 3},
    ]
    writers = {"anthropic": anthropic.write_message, "google": google.write_content}
    split = {"anthropic": streams.message, "google": streams.content}
    written = writers.get(provider, openai.write_responses)(
        ModelRequest(provider=provider, model="m"), Answer(text="ok"), 1
    )
    events = [*odd, *split.get(provider, streams.responses)(written)]
    reply, _heard = await streamed(provider, Answer(body=streams.encoded(events)))
    assert reply.text == "ok"


@pytest.mark.parametrize(
    ("provider", "event", "error"),
    [
        ("openai", {"type": "error", "code": "rate_limit_exceeded", "message": "x"}, RateLimited),
        ("openai", {"type": "response.failed", "response": {"error": {"code": "server_error"}}}, ServerFailed),
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, ServerFailed),
        ("anthropic", {"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}, RateLimited),
        ("google", {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, RateLimited),
        ("google", {"error": {"code": 503, "status": "UNAVAILABLE"}}, ServerFailed),
        ("google", {"promptFeedback": {"blockReason": "SAFETY"}}, Refused),
    ],
)
async def test_an_error_within_a_stream_is_what_its_status_would_be(
    provider: str, event: Mapping[str, Any], error: type[ModelError]
) -> None:
    with pytest.raises(error):
        await streamed(provider, Answer(body=streams.encoded([event])))


async def test_a_search_of_claude_begins_the_text_anew() -> None:
    reply, heard = await streamed("anthropic", Answer(text="It rains.", searches=1), search=True)
    assert reply.text == heard[-1] == "It rains."
    assert "Let me look that up." in heard
    assert "" in heard[heard.index("Let me look that up.") :]


async def test_a_paused_turn_of_claude_goes_on_in_the_stream() -> None:
    reply, heard = await streamed("anthropic", Answer(stop="pause", searches=1), "done", search=True)
    assert (reply.text, heard[-1], reply.usage.calls, reply.usage.searches) == ("done", "done", 2, 1)


async def test_commentary_of_gpt_is_not_heard() -> None:
    def item(place: int, phase: str, text: str) -> list[dict[str, Any]]:
        message = {"type": "message", "phase": phase, "content": [{"type": "output_text", "text": text}]}
        return [
            {"type": "response.output_item.added", "output_index": place, "item": {**message, "content": []}},
            {"type": "response.output_text.delta", "output_index": place, "content_index": 0, "delta": text},
            {"type": "response.output_item.done", "output_index": place, "item": message},
        ]

    events = [*item(0, "commentary", "Let me see."), *item(1, "final_answer", "Yes.")]
    done = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    reply, heard = await streamed("openai", Answer(body=streams.encoded([*events, done])))
    assert reply.text == "Yes."
    assert heard == ["", "Yes."]


async def test_nothing_of_a_stop_sequence_is_heard(provider: str) -> None:
    reply, heard = await streamed(provider, "Hi there\n\nUser1: hello", stop=("User1:",))
    assert reply.text == "Hi there\n\n"
    assert all(reply.text.startswith(text) for text in heard)


async def test_a_connection_serves_again_after_a_stream(provider: str) -> None:
    async with talking(provider, FULL) as (model, server):
        for _ in range(3):
            await model.complete(Prompt(text="hi", on_text=lambda _text: None))
        assert server._runner is not None
        assert server._runner.server is not None
        assert len(server._runner.server.connections) == 1


async def test_a_lazy_model_streams() -> None:
    heard: list[str] = []
    async with ModelServer(Script("hello")) as server:
        address = server.base_url("openai")
        model = LazyModel("openai/x", lambda: build_model("openai", api_key="k", base_url=address), can_draw=False)
        reply = await model.complete(Prompt(text="hi", on_text=heard.append), [Message("user", "old")])
        await model.aclose()
    assert reply.text == heard[-1] == "hello"


# --- bytes split and cut anywhere -----------------------------------------------------------------------------------

Gather = Callable[[AsyncIterator[bytes], StreamListener], Any]
REQUEST = ModelRequest(provider="any", model="m")


def _claude(chunks: AsyncIterator[bytes], hearing: StreamListener) -> Any:
    return anthropic_stream.gather(chunks, hearing, Usage(), ())


PLAIN = replace(FULL, searches=0)
WHOLE = {
    "openai": openai.write_responses(REQUEST, PLAIN, 1),
    "anthropic": anthropic.write_message(REQUEST, PLAIN, 1),
    "google": google.write_content(REQUEST, PLAIN, 1),
}
BODIES = {
    "openai": streams.encoded(streams.responses(WHOLE["openai"])),
    "anthropic": streams.encoded(streams.message(WHOLE["anthropic"])),
    "google": streams.encoded(streams.content(WHOLE["google"])),
}
GATHER: dict[str, Gather] = {"openai": openai_stream.gather, "anthropic": _claude, "google": gemini_stream.gather}


async def _split(body: bytes, sizes: list[int]) -> AsyncIterator[bytes]:
    start = 0
    for size in sizes:
        yield body[start : start + size]
        start += size
    yield body[start:]


@pytest.mark.parametrize("name", list(BODIES))
@given(sizes=st.lists(st.integers(0, 40), max_size=200))
def test_bytes_may_be_split_anywhere(name: str, sizes: list[int]) -> None:
    heard: list[str] = []
    answer = asyncio.run(GATHER[name](_split(BODIES[name], sizes), StreamListener(heard.append)))
    assert all(TEXT.startswith(text) for text in heard)
    whole = WHOLE[name]
    for key in ("output", "content", "candidates"):
        assert json.dumps(answer.get(key), sort_keys=True) == json.dumps(whole.get(key), sort_keys=True)


@pytest.mark.parametrize("name", list(BODIES))
@given(data=st.data())
def test_what_was_heard_before_a_cut_is_the_beginning_of_the_answer(name: str, data: st.DataObject) -> None:
    body = BODIES[name].rstrip()
    cut = data.draw(st.integers(0, len(body) * 9 // 10))
    heard: list[str] = []
    with pytest.raises(ConnectionFailed):
        asyncio.run(GATHER[name](_split(body[:cut], [7, 100]), StreamListener(heard.append)))
    assert all(TEXT.startswith(text) for text in heard)
