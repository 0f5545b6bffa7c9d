"""The embedding model of the process, on the books: its calls are reserved and settled as replays are.

They count for the day's budget and for that of the first agent in the settings, since what is embedded belongs to no
turn. A model on the owner's machine costs nothing, and is asked without Redis.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from agent_config import ModelSettings, Settings
from agentic.agent.cheap_model import tariff_of
from agentic.llm.embeddings import Embedded, Embedder, Vector, expected
from agentic.llm.errors import ModelError
from agentic.llm.pricing import price
from agentic.llm.types import Usage
from agentic.state.replay_costs import ReplayCosts
from agentic.wire.entries import ReplayNote
from agentic.wire.link import RedisAway

SECONDS = 30.0  # for a call
SETTLED_AFTER = 60.0  # seconds after it: the call is settled by then, or its process is gone

log = logging.getLogger(__name__)


def meaning_of(
    settings: Settings, embedder: Embedder | None, costs: ReplayCosts, clock: Callable[[], float] = time.time
) -> BookedMeaning | None:
    """The embedding model on the books; None where the process has none."""
    return BookedMeaning(settings, embedder, costs, clock) if embedder is not None else None


class BookedMeaning:
    """Makes vectors as far as there is money (agentic.record.embeddings.Meaning). `clock` gives unix seconds."""

    def __init__(
        self,
        settings: Settings,
        embedder: Embedder,
        costs: ReplayCosts,
        clock: Callable[[], float],
    ) -> None:
        assert settings.embedding is not None
        self._embedder, self._costs, self._clock = embedder, costs, clock
        self._zone, self._agent = settings.timezone, payer_of(settings)
        self._settings: ModelSettings = settings.embedding
        self._problem = ""

    @property
    def model(self) -> str:
        return self._embedder.name

    async def vectors(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        """A vector for each text; None where the model failed or there is no money. Never raises."""
        try:
            made = await (self._embedder.embed(texts, timeout=SECONDS) if self._embedder.free else self._paid(texts))
        except (ModelError, RedisAway) as error:
            self._report(str(error))
            return None
        if made is not None:
            self._problem = ""
        return None if made is None else made.vectors

    async def aclose(self) -> None:
        await self._embedder.aclose()

    async def _paid(self, texts: Sequence[str]) -> Embedded | None:
        most = self._most(texts)
        call_id = f"embedding-{secrets.token_hex(8)}"
        date = datetime.fromtimestamp(self._clock(), self._zone).date().isoformat()
        refused = await self._costs.reserve(self._agent, call_id, date, most.cost_usd, SECONDS + SETTLED_AFTER)
        if refused is not None:
            self._report("the day's budget is used up")
            return None
        spent = most  # where it is cancelled
        try:
            made = await self._embedder.embed(texts, timeout=SECONDS)
            spent = made.usage
            return made
        except ModelError as error:
            spent = error.usage or Usage()
            raise
        finally:
            await self._settle(call_id, date, spent)

    def _most(self, texts: Sequence[str]) -> Usage:
        tariff = tariff_of(self._settings)
        usage = expected(texts)
        return price(tariff.provider, tariff.model, replace(usage, model=self.model), rates=tariff.rates)

    async def _settle(self, call_id: str, date: str, usage: Usage) -> None:
        note = ReplayNote(
            id=call_id,
            at=self._clock(),
            day=date,
            agent=self._agent,
            model=self.model,
            calls=usage.calls,
            input_tokens=usage.input_tokens,
            cost_usd=usage.cost_usd,
        )
        spent = {
            "total_cost": usage.cost_usd,
            "ai_cost": usage.cost_usd,
            "input_tokens": usage.input_tokens,
            "ai_calls": usage.calls,
        }
        try:
            await self._costs.settle(note, spent)
        except RedisAway as away:
            log.error("the cost of an embedding is not booked, its reservation will be: %s", away)

    def _report(self, problem: str) -> None:
        level = logging.DEBUG if problem == self._problem else logging.WARNING
        log.log(level, "%s makes no vectors, memories are found by their words alone: %s", self.model, problem)
        self._problem = problem


def payer_of(settings: Settings) -> str:
    """The agent on whose books embeddings are: the first that runs, else the first of the table."""
    return next((name for name, agent in settings.agents.items() if agent.token), next(iter(settings.agents)))
