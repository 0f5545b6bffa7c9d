"""All four official SDKs, unpatched, over real sockets: what is asked and what comes back."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from agentic.llm.errors import BadAnswer, BadRequest, CannotDraw, RateLimited, Refused, ServerFailed
from agentic.llm.provider_table import PROVIDERS
from agentic.llm.types import Message, Picture, Prompt, Source, Thinking
from tests.support.models.model_doubles import KEY, SCHEMA, talking
from tests.support.models.wire.values import SMALL_PNG, Answer

PIXEL = Picture(SMALL_PNG, "image/png")
DRAWING = [name for name, known in PROVIDERS.items() if known.image_model]


async def test_the_request_has_system_history_and_tail_in_order(provider: str) -> None:
    history = [Message("user", "one"), Message("user", "two"), Message("assistant", "three"), Message("user", "four")]
    async with talking(provider, "hello") as (model, server):
        reply = await model.complete(Prompt(text="tail", system="be kind"), history)
    request = server.requests[0]
    assert reply.text == "hello"
    assert reply.model == model.name == f"{provider}/{request.model}"
    assert request.system == "be kind"
    assert request.texts == ("one", "two", "three", "four", "tail")
    assert request.roles == ("user", "user", "assistant", "user", "user")
    assert not request.has_schema
    assert not request.tools


async def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with talking(provider, "hello") as (model, _):
        assert (await model.complete(Prompt(text="tail"))).text == "hello"


async def test_a_history_that_begins_with_the_model_is_accepted(provider: str) -> None:
    async with talking(provider, "hello") as (model, server):
        await model.complete(Prompt(text="tail"), [Message("assistant", "first"), Message("user", "  ")])
    assert server.requests[0].texts[-2:] == ("first", "tail")


async def test_pictures_are_sent_also_those_of_the_model_itself(provider: str) -> None:
    history = [Message("assistant", "look", (PIXEL,))]
    async with talking(provider, "nice") as (model, server):
        await model.complete(Prompt(text="tail", pictures=(PIXEL, PIXEL)), history)
    assert server.requests[0].pictures == 3
    assert base64.b64encode(SMALL_PNG).decode() in json.dumps(dict(server.requests[0].raw))


async def test_a_picture_that_the_provider_does_not_accept_costs_the_picture_not_the_answer(provider: str) -> None:
    history = [Message("user", "look", (PIXEL,), cache=True), Message("user", "well?")]
    async with talking(provider, Answer(status=400, error_code="invalid_image"), "words") as (model, server):
        reply = await model.complete(Prompt(text="tail"), history)
    assert reply.text == "words"
    assert [request.pictures for request in server.requests] == [1, 0]
    assert server.requests[1].texts == ("look", "well?", "tail")


async def test_an_unknown_model_is_not_asked_again_without_pictures(provider: str) -> None:
    async with talking(provider, Answer(status=404)) as (model, server):
        with pytest.raises(BadRequest):
            await model.complete(Prompt(text="tail", pictures=(PIXEL,)))
    assert len(server.requests) == 1


async def test_a_schema_becomes_structured_output(provider: str) -> None:
    async with talking(provider, "{}") as (model, server):
        await model.complete(Prompt(text="decide", schema=SCHEMA))
    request = server.requests[0]
    assert request.has_schema
    assert request.tail == "decide"
    assert '"additionalProperties": false' in json.dumps(dict(request.raw))


async def test_search_offers_the_providers_own_tool_and_returns_sources_once(provider: str) -> None:
    pages = (("A page", "https://a.example/"), ("A page", "https://a.example/"), ("B", "https://b.example/"))
    async with talking(provider, Answer(text="found", searches=2, sources=pages)) as (model, server):
        reply = await model.complete(Prompt(text="what is new?", search=True))
    assert server.requests[0].tools in [("web_search",), ("googleSearch",)]
    assert reply.sources == (Source("A page", "https://a.example/"), Source("B", "https://b.example/"))
    assert reply.usage.searches == 2
    assert reply.text == "found"


async def test_with_search_the_format_is_asked_for_in_words_only_where_it_must(provider: str) -> None:
    async with talking(provider, "{}") as (model, server):
        await model.complete(Prompt(text="decide", schema=SCHEMA, search=True))
    request = server.requests[0]
    in_words = provider == "anthropic"
    assert request.has_schema is not in_words
    assert ("react_emoji" in request.tail) is in_words


async def test_an_older_gemini_gets_the_format_in_words_next_to_search() -> None:
    async with talking("google", "{}", model="gemini-2.5-flash") as (model, server):
        await model.complete(Prompt(text="decide", schema=SCHEMA, search=True))
    assert not server.requests[0].has_schema
    assert "react_emoji" in server.requests[0].tail


async def test_usage_is_complete_and_priced(provider: str) -> None:
    answer = Answer(input_tokens=10_000, cached_tokens=4_000, output_tokens=1_000, reasoning_tokens=300)
    async with talking(provider, answer) as (model, _server):
        usage = (await model.complete(Prompt(text="hi"))).usage
    assert (usage.calls, usage.input_tokens, usage.cached_tokens) == (1, 10_000, 4_000)
    assert (usage.output_tokens, usage.reasoning_tokens) == (1_000, 300)
    dear = {"openai": 0.00114, "anthropic": 0.00114, "google": 0.00855, "xai": 0.02}[provider]
    assert usage.cost_usd == pytest.approx(dear, rel=0.01)
    assert usage.picture_cost_usd == 0


@pytest.mark.promise(4)
async def test_reasoning_is_never_in_the_text(provider: str) -> None:
    async with talking(provider, Answer(text="the answer", thinking="hidden thoughts")) as (model, _server):
        reply = await model.complete(Prompt(text="hi"))
    assert (reply.text, reply.reasoning) == ("the answer", "hidden thoughts")
    assert "hidden" not in repr(reply)


def adaptive(effort: str) -> dict[str, Any]:
    return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}


def gemini(level: str, **more: Any) -> dict[str, Any]:
    return {"thinkingConfig": {"thinkingLevel": level, **more}}


@pytest.mark.parametrize(
    ("maker", "model", "level", "sent"),
    [
        ("openai", "gpt-6-luna", None, {"reasoning": {"effort": "low"}}),
        ("openai", "gpt-6-luna", "none", {"reasoning": {"effort": "none"}}),
        ("openai", "gpt-5.4", "high", {"reasoning": {"effort": "high"}}),
        ("openai", "o3", "none", {"reasoning": {"effort": "low"}}),
        ("openai", "gpt-4.1-mini", "high", {}),
        ("anthropic", "claude-haiku-5-5", None, {}),
        ("anthropic", "claude-haiku-5-5", "none", {"thinking": {"type": "disabled"}}),
        ("anthropic", "claude-sonnet-5-5", "medium", adaptive("medium")),
        ("anthropic", "claude-opus-5-5", "none", {}),
        ("anthropic", "claude-opus-5-5", "high", adaptive("high")),
        ("anthropic", "claude-haiku-4-5", "high", {}),
        ("google", "gemini-3.8-flash", None, gemini("LOW")),
        ("google", "gemini-3.8-flash", "none", gemini("LOW")),
        ("google", "gemini-3.8-flash", "high", gemini("HIGH", includeThoughts=True)),
        ("google", "gemini-2.5-flash", "high", {}),
        ("xai", "grok-4.7", None, {}),
        ("xai", "grok-4.7", "high", {"reasoning": {"effort": "high"}}),
        ("xai", "grok-4.7", "none", {}),
        ("xai", "grok-4.3", "none", {"reasoning": {"effort": "none"}}),
        ("xai", "grok-4.20-reasoning", "high", {}),
        ("xai", "grok-4-fast", "high", {}),
    ],
)
async def test_a_thinking_level_is_sent_in_the_models_words_and_one_it_lacks_is_left_out(
    maker: str, model: str, level: Thinking | None, sent: dict[str, Any]
) -> None:
    async with talking(maker, "ok", model=model) as (talker, server):
        await talker.complete(Prompt(text="hi", thinking=level))
    raw = server.requests[0].raw
    everything = {**raw, **raw.get("generationConfig", {})}
    fields = ("reasoning", "thinking", "output_config", "thinkingConfig")
    assert {name: everything[name] for name in fields if name in everything} == sent


async def test_what_claude_says_before_it_searches_is_not_the_answer() -> None:
    async with talking("anthropic", Answer(text="It rains.", searches=1)) as (model, _server):
        reply = await model.complete(Prompt(text="weather?", search=True))
    assert reply.text == "It rains."


@pytest.mark.promise(4)
async def test_commentary_of_gpt_is_not_the_answer() -> None:
    def message(phase: str, text: str) -> dict[str, object]:
        return {"type": "message", "phase": phase, "content": [{"type": "output_text", "text": text}]}

    output = [message("commentary", "Let me see."), message("final_answer", "Yes.")]
    body = json.dumps({"status": "completed", "output": output}).encode()
    async with talking("openai", Answer(body=body)) as (model, _server):
        assert (await model.complete(Prompt(text="?"))).text == "Yes."


@pytest.mark.promise(96)
async def test_an_answer_at_the_length_limit_says_so(provider: str) -> None:
    async with talking(provider, Answer(text="half an ans", stop="length")) as (model, server):
        reply = await model.complete(Prompt(text="hi", max_output_tokens=77))
    assert (reply.text, reply.stop) == ("half an ans", "length")
    assert "77" in json.dumps(dict(server.requests[0].raw))


@pytest.mark.promise(95)
async def test_a_refusal_is_refused_and_its_cost_known(provider: str) -> None:
    async with talking(provider, Answer(text="I can't.", stop="refusal")) as (model, server):
        with pytest.raises(Refused) as caught:
            await model.complete(Prompt(text="hi"))
    assert len(server.requests) == 1
    assert caught.value.usage is not None
    assert caught.value.usage.cost_usd > 0


@pytest.mark.promise(95)
async def test_a_blocked_prompt_is_refused() -> None:
    body = json.dumps({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}).encode()
    async with talking("google", Answer(body=body)) as (model, _server):
        with pytest.raises(Refused, match="PROHIBITED_CONTENT"):
            await model.complete(Prompt(text="hi"))


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("rate_limit_exceeded", RateLimited),
        ("server_error", ServerFailed),
        ("bio_policy", Refused),
        ("invalid_prompt", BadRequest),
    ],
)
async def test_a_response_that_failed_after_200_is_an_error(code: str, error: type[Exception]) -> None:
    body = json.dumps({"status": "failed", "error": {"code": code, "message": "x"}, "output": []}).encode()
    async with talking("openai", Answer(body=body)) as (model, _server):
        with pytest.raises(error):
            await model.complete(Prompt(text="hi"))


@pytest.mark.promise(12, 95)
async def test_an_empty_answer_is_a_bad_answer(provider: str) -> None:
    async with talking(provider, Answer(text=" \n", thinking="hm")) as (model, server):
        with pytest.raises(BadAnswer, match="empty"):
            await model.complete(Prompt(text="hi"))
    assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"[]", b"{}", b"<html>", b"", b'{"output": 3, "content": "x", "candidates": [{}]}'])
async def test_an_answer_of_an_odd_shape_is_a_bad_answer(provider: str, body: bytes) -> None:
    async with talking(provider, Answer(body=body)) as (model, _server):
        with pytest.raises(BadAnswer):
            await model.complete(Prompt(text="hi"))


async def test_a_paused_turn_of_claude_goes_on_and_counts_every_call() -> None:
    pause = Answer(stop="pause", searches=1)
    async with talking("anthropic", pause, pause, "done") as (model, server):
        reply = await model.complete(Prompt(text="search", search=True))
    assert reply.text == "done"
    assert (reply.usage.calls, reply.usage.searches) == (3, 2)
    roles = [message["role"] for message in server.requests[2].raw["messages"]]
    assert roles == ["user", "assistant"]


async def test_a_turn_of_claude_that_always_pauses_ends() -> None:
    async with talking("anthropic", Answer(stop="pause", searches=1)) as (model, server):
        with pytest.raises(BadAnswer):
            await model.complete(Prompt(text="search", search=True))
    assert len(server.requests) == 4


async def test_cache_marks_reach_openai_and_anthropic() -> None:
    history = [Message("user", "old"), Message("assistant", "mine", cache=True), Message("user", "new")]
    prompt = Prompt(text="tail", system="stable", cache_key="claude:1")
    async with talking("openai", "ok") as (model, server):
        await model.complete(prompt, history)
        sent = server.requests[0].raw
    assert sent["prompt_cache_key"] == "claude:1"
    assert sent["prompt_cache_options"] == {"mode": "explicit"}
    assert sent["input"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert sent["store"] is False
    async with talking("anthropic", "ok") as (model, server):
        await model.complete(prompt, history)
        sent = server.requests[0].raw
    assert sent["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert sent["messages"][1]["content"][0]["cache_control"] == {"type": "ephemeral"}


async def test_the_system_prompt_and_history_are_the_same_bytes_from_call_to_call(provider: str) -> None:
    history = [Message("user", "one"), Message("assistant", "two", cache=True)]
    async with talking(provider, "ok") as (model, server):
        await model.complete(Prompt(text="tail 1", system="stable", schema=SCHEMA), history)
        await model.complete(Prompt(text="tail 2", system="stable", schema=SCHEMA), history)
    one, two = (json.dumps(dict(request.raw)) for request in server.requests)
    assert one.replace("tail 1", "tail 2") == two


@pytest.mark.parametrize("provider", DRAWING)
async def test_a_picture_comes_with_its_type_and_its_cost(provider: str) -> None:
    async with talking(provider, Answer(input_tokens=50, output_tokens=1_000)) as (model, server):
        assert model.can_draw
        drawing = await model.draw("a red cat")
    assert server.requests[0].kind == "picture"
    assert server.requests[0].tail == "a red cat"
    assert drawing.picture == PIXEL
    assert drawing.usage.pictures == 1
    assert drawing.usage.picture_cost_usd > 0.01
    assert drawing.usage.text_cost_usd == 0


async def test_a_picture_that_is_none_is_a_bad_answer() -> None:
    async with talking("openai", Answer(picture=b"<svg>")) as (model, _server):
        with pytest.raises(BadAnswer):
            await model.draw("a cat")


async def test_a_picture_that_googles_filter_held_back_is_refused() -> None:
    async with talking("google", Answer(stop="refusal")) as (model, _server):
        with pytest.raises(Refused):
            await model.draw("a cat")


async def test_who_has_no_picture_model_cannot_draw(provider: str) -> None:
    async with talking(provider, "ok", image_model="") as (model, server):
        assert not model.can_draw
        with pytest.raises(CannotDraw):
            await model.draw("a cat")
    assert not server.requests


async def test_claude_cannot_draw() -> None:
    async with talking("anthropic", "ok", image_model="something") as (model, _server):
        assert not model.can_draw
        with pytest.raises(CannotDraw):
            await model.draw("a cat")


async def test_the_key_and_nothing_of_another_provider_is_sent(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = {
        "OPENAI_ORG_ID": "org-canary",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
        "GOOGLE_API_KEY": "google-canary",
    }
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    async with talking(provider, "ok") as (model, server):
        await model.complete(Prompt(text="hi"))
    sent = " ".join(server.requests[0].headers.values())
    assert KEY in sent
    assert not [name for name in server.requests[0].headers if name.lower() == "x-stainless-os"]
    assert "google-canary" not in sent
    assert ("org-canary" in sent) is (provider == "openai")
