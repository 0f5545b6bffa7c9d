"""SavedEvent answers: who takes them, the memory of who did not, and how Anthropic is asked."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from agentic.llm.errors import BadAnswer, PrefillRefused
from agentic.llm.provider_table import PrefillMemory, profile_named
from agentic.llm.types import Message, Picture, Prompt
from tests.support.models.model_doubles import SCHEMA, talking
from tests.support.models.wire.values import SMALL_PNG, Answer

OLD = "claude-sonnet-4-5-20250929"
FILE = [Message("user", "<cmd>cat untitled.txt</cmd>"), Message("assistant", "Ann: Hello\n\n", cache=True)]
BEGUN = Prompt(text="", system="CLI", prefill="Claude:", stop=("Ann:",))


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("anthropic/claude-3-opus-20240229", True),
        ("anthropic/claude-opus-4-20250514", True),
        ("anthropic/claude-opus-4-1-20250805", True),
        ("anthropic/claude-haiku-4-5", True),
        ("anthropic/claude-sonnet-4-5-20250929", True),
        ("anthropic/claude-opus-4-5", True),
        ("anthropic/claude-opus-4-6", False),
        ("anthropic/claude-sonnet-4-6", False),
        ("anthropic/claude-haiku-5-5", False),
        ("anthropic/claude-of-tomorrow", False),
        ("bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("bedrock/arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-haiku-4-5-20251001-v1:0", True),
        ("bedrock/anthropic.claude-opus-4-6-v1", False),
        ("openai/gpt-6-luna", False),
        ("google/gemini-3.8-flash", False),
        ("xai/grok-4.7", False),
        ("openrouter/anthropic/claude-sonnet-4.5", True),
        ("openrouter/anthropic/claude-sonnet-4.6", False),
        ("openrouter/openai/gpt-6-luna", False),
        ("openrouter/x-ai/grok-4.7", False),
        ("openrouter/meta-llama/llama-4-maverick", True),
        ("deepseek/deepseek-chat", True),
        ("mistral/mistral-large-latest", True),
        ("groq/llama-3.3-70b-versatile", True),
        ("qwen/qwen-max", True),
        ("my-own-server/whatever", True),
    ],
)
def test_the_table_knows_who_goes_on_with_a_begun_answer(name: str, takes: bool) -> None:
    assert profile_named(name).prefill is takes
    assert PrefillMemory().takes(name) is takes


def test_who_refused_is_remembered_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    memory = PrefillMemory()
    assert memory.takes("my-server/some/model")
    for _ in range(3):
        memory.refused(PrefillRefused(provider="my-server", model="some/model"))
        assert not memory.takes("my-server/some/model")
        assert not memory.takes("openai/gpt-6-luna")
    assert len(caplog.records) == 2


async def test_the_begun_answer_is_the_last_message_split_only_where_it_must() -> None:
    picture = Message("user", "", (Picture(SMALL_PNG, "image/png"),))
    async with talking("anthropic", " Hi!", model=OLD) as (model, server):
        reply = await model.complete(BEGUN, [*FILE, picture, Message("assistant", "Bo: look\n\n")])
    sent = server.requests[0].raw
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user", "assistant"]
    assert [block["text"] for block in sent["messages"][-1]["content"]] == ["Bo: look\n\n", "Claude:"]
    assert sent["messages"][1]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert sent["stop_sequences"] == ["Ann:"]
    assert reply.text == " Hi!"


async def test_ones_own_last_message_is_gone_on_with_without_its_whitespace() -> None:
    async with talking("anthropic", " and more", model=OLD) as (model, server):
        await model.complete(Prompt(text="", prefill=""), [FILE[0], Message("assistant", "Claude: so \n\n")])
    assert server.requests[0].raw["messages"][-1]["content"][0]["text"] == "Claude: so"


async def test_a_completion_that_goes_on_as_someone_else_is_cut_there_and_nothing_may_be_left() -> None:
    async with talking("anthropic", " Hi!\n\nAnn: me too", "Ann: no", "", model=OLD) as (model, _server):
        texts = [(await model.complete(BEGUN, FILE)).text for _ in range(3)]
    assert texts == [" Hi!\n\n", "", ""]


async def test_an_empty_completion_at_the_length_limit_is_no_wish_to_be_silent() -> None:
    async with talking("anthropic", Answer(text="", stop="length"), model=OLD) as (model, _server):
        with pytest.raises(BadAnswer):
            await model.complete(BEGUN, FILE)


@pytest.mark.parametrize("provider", ["openai", "google", "xai", "anthropic"])
async def test_a_model_of_the_table_refuses_before_anything_is_asked(provider: str) -> None:
    async with talking(provider, "no") as (model, server):
        with pytest.raises(PrefillRefused) as caught:
            await model.complete(BEGUN, FILE)
    assert not server.requests
    assert f"{caught.value.provider}/{caught.value.model}" == model.name


async def test_a_refusal_by_400_is_told_apart_and_not_asked_again_without_pictures() -> None:
    words = "This model does not support assistant message prefill. The conversation must end with a user message."
    refused = Answer(status=400, error_code="invalid_request_error", error_message=words)
    async with talking("anthropic", refused, model=OLD) as (model, server):
        with pytest.raises(PrefillRefused):
            await model.complete(BEGUN, [*FILE, Message("user", "", (Picture(SMALL_PNG, "image/png"),))])
    assert len(server.requests) == 1


async def test_a_temperature_goes_to_those_that_take_one() -> None:
    taken = {}
    for provider, name in (("openai", "gpt-4.1"), ("openai", "gpt-6-luna"), ("google", None), ("anthropic", None)):
        async with talking(provider, "ok", model=name) as (model, server):
            await model.complete(Prompt(text="hi", temperature=0.3))
        sent = server.requests[0].raw
        taken[model.access.model] = sent.get("temperature", sent.get("generationConfig", {}).get("temperature"))
    assert list(taken.values()) == [0.3, None, 0.3, None]


async def test_stop_sequences_go_to_those_that_take_them_and_hold_for_all(provider: str) -> None:
    stops = tuple(f"Name{number}:" for number in range(9))
    async with talking(provider, "Yes. Name8: no") as (model, server):
        reply = await model.complete(Prompt(text="hi", stop=(*stops, "\n", stops[0])))
    sent = server.requests[0].raw
    told = sent.get("stop_sequences", sent.get("generationConfig", {}).get("stopSequences", []))
    assert told == list(stops[: {"anthropic": 9, "google": 5}.get(provider, 0)])
    assert reply.text == "Yes. "


async def test_an_hours_cache_is_asked_for_and_costs_more() -> None:
    body: dict[str, Any] = {
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 0, "cache_creation_input_tokens": 100_000, "output_tokens": 0},
    }
    hour = {**body, "usage": {**body["usage"], "cache_creation": {"ephemeral_1h_input_tokens": 100_000}}}
    history = [Message("user", "old", cache=True)]
    costs = []
    for answer in (body, hour):
        encoded = json.dumps(answer).encode()
        async with talking("anthropic", Answer(body=encoded)) as (model, server):
            reply = await model.complete(Prompt(text="x", system="s", cache_ttl="1h", schema=SCHEMA), history)
        costs.append(reply.usage.cost_usd)
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert server.requests[0].raw["system"][0]["cache_control"] == mark
    assert server.requests[0].raw["messages"][0]["content"][0]["cache_control"] == mark
    assert costs == [pytest.approx(0.0125, rel=0.001), pytest.approx(0.02, rel=0.001)]
