"""Embeddings are on the books: reserved, settled and recorded, refused where there is no money, free at home."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent_config import load_settings
from agentic.llm.embeddings import Embedded, vector_of
from agentic.llm.errors import PromptTooLong, ServerFailed
from agentic.llm.types import Usage
from agentic.record.embeddings import Embeddings
from agentic.runtime.services import embedder_of
from agentic.wire.connection import StateUnavailable

NOW = 1_800_000_000.0
TEXTS = ("bees and honey", "trains")


class Embedder:
    def __init__(self, *, free: bool = False, error: Exception | None = None) -> None:
        self.name, self.free, self.error, self.calls = "openai/text-embedding-3-small", free, error, 0

    async def embed(self, texts: Sequence[str], *, timeout: float = 30.0) -> Embedded:  # noqa: ASYNC109
        self.calls += 1
        if self.error is not None:
            raise self.error
        return Embedded(tuple(vector_of([1, 2]) for _ in texts), Usage(calls=1, input_tokens=9, text_cost_usd=0.001))

    async def aclose(self) -> None:
        return None


class Costs:
    """The calls to the books."""

    def __init__(self, refusal: str | None = None, *, away: bool = False) -> None:
        self.refusal, self.away = refusal, away
        self.reserved: list[tuple[str, str, float]] = []
        self.settled: list[tuple[str, str, Usage]] = []

    async def reserve(self, agent: str, call_id: str, date: str, dollars: float, seconds: float) -> str | None:
        if self.away:
            raise StateUnavailable("away")
        self.reserved.append((agent, date, dollars))
        return self.refusal

    async def settle(self, agent: str, call_id: str, date: str, usage: Usage, model: str) -> None:
        self.settled.append((agent, model, usage))


def booked(embedder: Embedder, costs: Any) -> Any:
    given = {"EMBEDDING_MODEL": embedder.name, "OPENAI_API_KEY": "k", "BOT_TOKEN_CLAUDE": "t", "TIMEZONE": "UTC"}
    return Embeddings(load_settings(given, None), embedder, costs, lambda: NOW)


@pytest.mark.promise(413)
async def test_a_call_is_reserved_by_its_most_and_settled_by_what_it_cost() -> None:
    costs, embedder = Costs(), Embedder()
    assert len(await booked(embedder, costs).vectors(TEXTS)) == 2
    ((agent, date, dollars),) = costs.reserved
    assert (agent, date) == ("claude", "2027-01-15")
    assert 0 < dollars < 0.001
    ((agent, model, usage),) = costs.settled
    assert (agent, model, usage.calls, usage.input_tokens) == ("claude", embedder.name, 1, 9)
    assert usage.cost_usd == pytest.approx(0.001)


@pytest.mark.promise(413)
async def test_without_money_no_model_is_called(caplog: pytest.LogCaptureFixture) -> None:
    embedder = Embedder()
    meaning = booked(embedder, Costs("budget"))
    for _ in range(2):
        assert await meaning.vectors(TEXTS) is None
    assert embedder.calls == 0
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


class ShortSighted(Embedder):
    """Reads at most so many characters of a text."""

    def __init__(self, most: int) -> None:
        super().__init__(free=True)
        self.most, self.read = most, list[int]()

    async def embed(self, texts: Sequence[str], *, timeout: float = 30.0) -> Embedded:  # noqa: ASYNC109
        if any(len(text) > self.most for text in texts):
            self.calls += 1
            raise PromptTooLong
        self.read += map(len, texts)
        return await super().embed(texts, timeout=timeout)


@pytest.mark.promise(585)
async def test_a_text_above_the_servers_batch_is_shortened_and_the_others_get_their_vectors() -> None:
    embedder = ShortSighted(2_000)
    made = await booked(embedder, Costs()).vectors(["a" * 100] * 31 + ["b" * 5_000])
    assert [len(vector) for vector in made] == [2] * 32
    assert sorted(embedder.read) == [100] * 31 + [1_250]
    assert embedder.calls == 13, "seven were rejected"


async def test_a_text_that_cannot_be_read_is_skipped_and_noted(caplog: pytest.LogCaptureFixture) -> None:
    made = await booked(ShortSighted(200), Costs()).vectors(["bees", "b" * 5_000])
    assert [len(vector) for vector in made] == [2, 0]
    assert "can't read a text, even cut to 312 characters" in caplog.text


@pytest.mark.parametrize("away", [True, False])
async def test_a_failure_is_no_vectors(away: bool) -> None:
    costs = Costs(away=away)
    assert await booked(Embedder(error=ServerFailed()), costs).vectors(TEXTS) is None
    assert [usage.cost_usd for _, _, usage in costs.settled] == [0.0] * (not away)


async def test_a_model_at_home_costs_nothing_and_needs_no_books() -> None:
    costs = Costs(away=True)
    assert len(await booked(Embedder(free=True), costs).vectors(TEXTS)) == 2
    assert costs.reserved == []


async def test_the_setting_names_the_model_and_none_is_none() -> None:
    embedder = embedder_of(load_settings({"EMBEDDING_MODEL": "ollama/embeddinggemma"}, None))
    assert embedder is not None
    assert (embedder.name, embedder.free) == ("ollama/embeddinggemma", True)
    assert embedder_of(load_settings({}, None)) is None
