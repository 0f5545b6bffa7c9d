"""Costs in US dollars."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import Usage as TableUsage

from agentic.llm.pricing import Rates, is_local, list_price, picture_price, price
from agentic.llm.provider_table import PROVIDERS
from agentic.llm.registry import build_model
from agentic.llm.types import Usage

MILLION = 1_000_000
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("provider", "model", "usd"),
    [
        ("openai", "gpt-6.1-sol", 0.5 * 2 + 0.5 * 0.1 + 10),
        ("anthropic", "claude-opus-5-5", 0.5 * 4 + 0.5 * 0.2 + 20),
        ("google", "gemini-3.8-flash", 0.5 * 0.75 + 0.5 * 0.075 + 3.75),
    ],
)
def test_tokens_cost_what_the_table_says_and_cached_ones_less(provider: str, model: str, usd: float) -> None:
    # By thousands, below the prices of long prompts.
    usage = Usage(input_tokens=MILLION // 1000, cached_tokens=MILLION // 2000, output_tokens=MILLION // 1000)
    assert price(provider, model, usage, now=NOW).text_cost_usd * 1000 == pytest.approx(usd)


def test_dated_prices_follow_the_date() -> None:
    usage = Usage(input_tokens=1000, output_tokens=1000)
    later = price("google", "gemini-3.8-flash", usage, now=datetime(2027, 2, 1, tzinfo=UTC))
    assert later.cost_usd > price("google", "gemini-3.8-flash", usage, now=NOW).cost_usd


COUNTS = [(1, 0, 0, 1), (900, 0, 100, 30), (200_001, 150_000, 20_000, 4000), (300_000, 300_000, 0, 0), (0, 0, 0, 50)]


@pytest.mark.promise(52)
@pytest.mark.parametrize("seller", ["openai", "anthropic", "google", "x-ai"])
def test_every_model_costs_what_the_table_says(seller: str) -> None:
    provider = next(each for each in get_snapshot().providers if each.id == seller)
    for info in filter(lambda each: each.is_match(each.id), provider.models):
        for tokens, cached, written, output in COUNTS:
            asked = TableUsage(
                input_tokens=tokens, cache_read_tokens=cached, cache_write_tokens=written, output_tokens=output
            )
            said = info.calc_price(asked, provider, genai_request_timestamp=NOW).total_price
            usage = Usage(input_tokens=tokens, cached_tokens=cached, cache_write_tokens=written, output_tokens=output)
            assert price(seller, info.id, usage, now=NOW).text_cost_usd == pytest.approx(float(said)), (info.id, usage)


def test_every_default_model_has_a_price_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    for provider, models in PROVIDERS.items():
        if not models.model:
            continue
        assert price(provider, models.model, Usage(input_tokens=100, output_tokens=100)).text_cost_usd > 0
        if models.image_model:
            assert price(provider, models.image_model, Usage(pictures=1)).picture_cost_usd > 0
    assert not caplog.records


def test_a_provider_without_prices_costs_as_the_most_expensive_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    new = replace(PROVIDERS["openai"], name="new", price_list="", search_prices=(), picture_prices=())
    monkeypatch.setitem(PROVIDERS, "new", new)  # type: ignore[arg-type]
    usage = Usage(input_tokens=1000, output_tokens=1000)
    assert price("new", "model", usage).cost_usd == price("unknown", "model", usage).cost_usd > 0


def test_searches_cost_per_call() -> None:
    assert price("openai", "gpt-6-luna", Usage(searches=3)).cost_usd == pytest.approx(0.03)
    assert price("google", "gemini-3.8-flash", Usage(searches=3)).cost_usd == pytest.approx(0.042)


@pytest.mark.promise(52)
def test_an_unknown_model_costs_as_the_dearest_and_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    usage = Usage(input_tokens=1000, output_tokens=1000)
    unknown = [price("anthropic", "brand-new-1", usage).cost_usd for _ in range(3)]
    assert unknown[0] > price("anthropic", "claude-opus-5-5", usage).cost_usd
    assert price("openai", "brand-new-picture", Usage(pictures=1)).cost_usd > 0.1
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("openrouter", "meta-llama/llama-4-maverick"),
        ("deepseek", "deepseek-chat"),
    ],
)
def test_gateways_have_prices_of_their_own(provider: str, model: str, caplog: pytest.LogCaptureFixture) -> None:
    assert price(provider, model, Usage(input_tokens=1000, output_tokens=1000)).cost_usd > 0
    assert not caplog.records


@pytest.mark.parametrize("provider", ["bedrock", "openrouter", "qwen", "my-server"])
def test_an_unknown_model_of_any_address_is_as_dear_as_the_dearest(provider: str) -> None:
    usage = Usage(input_tokens=1000, output_tokens=1000)
    assert price(provider, "brand-new-2", usage).cost_usd >= price("anthropic", "claude-opus-5-5", usage).cost_usd


@pytest.mark.promise(52)
def test_an_unknown_provider_is_expensive_not_free() -> None:
    assert price("somebody", "something", Usage(input_tokens=1000, output_tokens=1000)).cost_usd > 0.01


def test_a_free_address_costs_nothing() -> None:
    usage = Usage(input_tokens=1000, output_tokens=1000, pictures=1)
    assert price("openai", "gpt-6-luna", usage, free=True).cost_usd == 0


def test_pictures_cost_by_tokens_where_they_are_counted_and_each_where_not() -> None:
    counted = price("openai", "gpt-image-2.6-flare", Usage(pictures=1, input_tokens=1000, output_tokens=1000))
    assert counted.picture_cost_usd == pytest.approx(0.035)
    assert price("xai", "grok-imagine-image", Usage(pictures=2)).picture_cost_usd == pytest.approx(0.04)


@pytest.mark.promise(52)
def test_odd_counts_do_not_break_a_price() -> None:
    usage = Usage(input_tokens=10, cached_tokens=500, cache_write_tokens=500, output_tokens=1)
    assert price("openai", "gpt-6-luna", usage).cost_usd > 0


@pytest.mark.parametrize(
    ("base_url", "free"),
    [
        (None, False),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
        ("https://localhost.example.com/v1", False),
        ("https://127.0.0.1.example.com/v1", False),
        ("https://127.0.0.1@example.com/v1", False),
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost:11434", True),
        ("http://[::1]:8000", True),
        ("http://192.168.1.5/v1", True),
        ("http://10.0.0.2", True),
        ("http://gpu.local:8000", True),
    ],
)
def test_an_address_on_an_own_machine_or_network_is_free(base_url: str | None, free: bool) -> None:
    assert is_local(base_url) is free


def test_an_owners_prices_stand_in_for_the_tables() -> None:
    usage = Usage(input_tokens=2_000_000, output_tokens=1_000_000)
    assert price("compatible", "anything", usage, rates=Rates(0.5, 2.0)).cost_usd == pytest.approx(3.0)


@pytest.mark.parametrize(("terms", "usd"), [({"free": True}, 0.0), ({"rates": Rates(0.5, 2.0)}, 0.0045)])
async def test_a_model_prices_its_calls_by_the_terms_it_was_built_with(terms: dict[str, Any], usd: float) -> None:
    model = build_model("openai", api_key="k", model="mine", base_url="http://127.0.0.1:9/v1", **terms)
    assert model._priced(Usage(input_tokens=1000, output_tokens=2000), "mine").cost_usd == pytest.approx(usd)
    assert model.free is bool(terms.get("free"))
    await model.aclose()


def test_a_search_of_an_unknown_provider_is_as_dear_as_the_dearest() -> None:
    dearest = max(price(name, "gemini-2.5", Usage(searches=1), now=NOW).text_cost_usd for name in ("google", "xai"))
    assert price("somebody", "else", Usage(searches=2), now=NOW).text_cost_usd == pytest.approx(2 * dearest)


def test_what_is_kept_in_a_cache_for_an_hour_costs_more() -> None:
    written = Usage(input_tokens=MILLION, cache_write_tokens=MILLION)
    plain = price("anthropic", "claude-opus-5-5", written, now=NOW).text_cost_usd
    hour = Usage(input_tokens=MILLION, cache_write_tokens=MILLION, hour_write_tokens=MILLION)
    assert price("anthropic", "claude-opus-5-5", hour, now=NOW).text_cost_usd > plain


def test_people_read_the_prices_that_calls_are_counted_with() -> None:
    thousand = Usage(input_tokens=1_000, output_tokens=1_000)
    listed = list_price("anthropic", "claude-opus-5-5", now=NOW)
    assert (listed.input, listed.cached, listed.output) == pytest.approx((4, 0.2, 20))
    assert listed.input + listed.output == pytest.approx(
        price("anthropic", "claude-opus-5-5", thousand, now=NOW).cost_usd * 1000
    )
    unknown = list_price("openai", "gpt-of-nobody", now=NOW)
    assert not unknown.known
    assert unknown.output * 0.001 == pytest.approx(
        price("openai", "gpt-of-nobody", Usage(output_tokens=1_000), now=NOW).cost_usd
    )
    assert list_price("openai", "gpt-6-luna", free=True).input == 0
    assert list_price("openai", "gpt-6-luna", rates=Rates(3, 5)).output == 5
    assert picture_price("xai", "grok-imagine-image").each == 0.02
