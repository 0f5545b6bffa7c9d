"""Make vectors of messages and summaries in the background, and compare them with a question's vector.

Only the recorder writes vectors, for the newest KEPT messages and summaries. A vector is deleted with its text
(triggers of 0004_memory.sql). Models differ in how similar they find unrelated texts, so a memory is found only if it
is much more similar to the question than the others.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import aiosqlite

from agent_config import Settings
from agentic.llm.embeddings import (
    MAX_CHARACTERS,
    NO_VECTOR,
    Embedded,
    Embedder,
    Vector,
    cosine,
    expected,
    packed,
    unpacked,
)
from agentic.llm.errors import ModelError, PromptTooLong
from agentic.llm.pricing import price
from agentic.llm.types import Usage
from agentic.process.tasks import cancel_and_wait
from agentic.record.recall import PLACES, REACHED, Reach
from agentic.record.writing import transaction
from agentic.state.budgets import ReplayCosts
from agentic.wire.connection import StateUnavailable

CALL_SECONDS = 30.0
SETTLED_AFTER = 60.0  # seconds after a call by which it is settled, unless its process has ended
KEPT = 3_000  # of messages, and of summaries
COMPARED = 1_500  # newest vectors to compare with a question, which takes a tenth of a second
BATCH = 32  # texts in a request
SHORTEST = 300  # characters: a text that is too long is halved down to this, then skipped
MIN_CHARACTERS = 12  # shorter texts have no meaning of their own
LOOK_EVERY = 10.0  # seconds between two looks for texts without a vector
REST = 600.0  # seconds after a failed or unaffordable call
MIN_VECTORS = 30  # with fewer vectors, none can stand out
STANDS_OUT = 3.0  # standard deviations above the others
NEAR = 0.3  # a lower cosine is chance, with any model

_MISSING = f"""
SELECT id, text FROM (
  SELECT * FROM (SELECT message_id AS id, text FROM message_log ORDER BY message_id DESC LIMIT ?2)
  UNION ALL SELECT * FROM (SELECT -message_id AS id, text FROM summaries ORDER BY message_id DESC LIMIT ?2)
) WHERE length(text) >= ?3 AND id NOT IN (SELECT id FROM embeddings WHERE model = ?1) LIMIT {BATCH}
"""
# If the text is still the same.
_KEEP = (
    "INSERT INTO embeddings (id, model, vector) SELECT ?1, ?2, ?3 WHERE EXISTS"
    " (SELECT 1 FROM message_log WHERE message_id = ?1 AND text = ?4"
    " UNION ALL SELECT 1 FROM summaries WHERE message_id = -?1 AND text = ?4)"
    " ON CONFLICT (id) DO UPDATE SET model = excluded.model, vector = excluded.vector"
)
_NEWEST = f"""
WITH {PLACES}, vectors AS (SELECT id, vector FROM embeddings WHERE model = :model AND length(vector) > 0)
SELECT id, vector FROM vectors {REACHED} ORDER BY abs(id) DESC LIMIT {COMPARED}
"""

log = logging.getLogger(__name__)


class Embeddings:
    """Makes vectors within the budgets. `clock`: in unix seconds.

    Calls are reserved and settled as replays are. They count against the daily budget and against that of the first
    agent in the settings, since what is embedded belongs to no turn. A model on the owner's machine costs nothing, and
    is asked without Redis.
    """

    def __init__(self, settings: Settings, embedder: Embedder, costs: ReplayCosts, clock: Callable[[], float]) -> None:
        assert settings.embedding is not None
        self._embedder, self._costs, self._clock = embedder, costs, clock
        self._zone, self._settings = settings.timezone, settings.embedding
        agents = settings.agents  # the first that runs pays, else the first of the table
        self._agent = next((name for name, agent in agents.items() if agent.token), next(iter(agents)))
        self._problem = ""

    @property
    def model(self) -> str:
        """provider/model: vectors of two models cannot be compared."""
        return self._embedder.name

    async def vectors(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        """Return a vector for each text, NO_VECTOR if the model can't read a text even when shortened; None if the
        model fails or the budget is used up. Never raises."""
        try:
            made = await self._embed(texts)
        except (ModelError, StateUnavailable) as error:
            self._report(str(error))
            return None
        if made is None:
            self._report("the day's budget is used up")
            return None
        self._problem = ""
        return made

    async def aclose(self) -> None:
        await self._embedder.aclose()

    async def _embed(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        """Halve a request that is too long for the server, then shorten the text. None if the budget is used up."""
        try:
            if self._embedder.free:
                return (await self._embedder.embed(texts, timeout=CALL_SECONDS)).vectors
            made = await self._embed_paid(texts)
            return None if made is None else made.vectors
        except PromptTooLong as error:
            half = len(texts) // 2
            if half:
                first, second = await self._embed(texts[:half]), await self._embed(texts[half:])
                return None if first is None or second is None else (*first, *second)
            shorter = texts[0][: min(len(texts[0]), MAX_CHARACTERS) // 2]
            if len(shorter) >= SHORTEST:
                return await self._embed([shorter])
            log.warning(
                "%s can't read a text, even cut to %d characters: %s; the text is found only by its words",
                self.model,
                len(texts[0]),
                error,
            )
            return (NO_VECTOR,)

    async def _embed_paid(self, texts: Sequence[str]) -> Embedded | None:
        """Reserve, call, settle. Return None if the budget is used up."""
        chosen = self._settings
        usage = replace(expected(texts), model=self.model)
        most = price(chosen.provider, chosen.model, usage, rates=chosen.rates)
        call_id = f"embedding-{secrets.token_hex(8)}"
        date = datetime.fromtimestamp(self._clock(), self._zone).date().isoformat()
        seconds = CALL_SECONDS + SETTLED_AFTER
        if await self._costs.reserve(self._agent, call_id, date, most.cost_usd, seconds) is not None:
            return None
        spent = most  # if it is canceled
        try:
            made = await self._embedder.embed(texts, timeout=CALL_SECONDS)
            spent = made.usage
            return made
        except ModelError as error:
            spent = error.usage or Usage()
            raise
        finally:
            await self._costs.settle(self._agent, call_id, date, spent, self.model)

    def _report(self, problem: str) -> None:
        level = logging.DEBUG if problem == self._problem else logging.WARNING
        log.log(level, "%s failed: %s; memories are found only by their words", self.model, problem)
        self._problem = problem


class VectorWriter:
    """Keeps vectors up to date. Each step writes what is ready and asks for more; it never waits for the model."""

    def __init__(self, db: aiosqlite.Connection, meaning: Embeddings) -> None:
        self._db, self._meaning = db, meaning
        self._asked: list[tuple[int, str]] = []
        self._making: asyncio.Task[Sequence[Vector] | None] | None = None
        self._next = float("-inf")

    async def step(self) -> bool:
        """Return whether there was anything to do. Raises sqlite3.Error."""
        if self._making is None:
            if time.monotonic() >= self._next:
                found = await self._db.execute_fetchall(_MISSING, (self._meaning.model, KEPT, MIN_CHARACTERS))
                self._asked = [(row[0], row[1]) for row in found]
                self._next = time.monotonic() + LOOK_EVERY
                if self._asked:
                    texts = [text for _, text in self._asked]
                    self._making = asyncio.create_task(self._meaning.vectors(texts), name="embeddings")
            return False
        if not self._making.done():
            return False
        made, self._making = self._making.result(), None
        if made is None or len(made) != len(self._asked):
            self._next = time.monotonic() + REST
            return False
        async with transaction(self._db):
            for (key, text), vector in zip(self._asked, made, strict=True):
                await self._db.execute(_KEEP, (key, self._meaning.model, packed(vector), text))
        self._next = float("-inf") if len(made) == BATCH else self._next
        return True

    async def aclose(self) -> None:
        if self._making is not None:
            await cancel_and_wait(self._making)


def find_near(db: sqlite3.Connection, wanted: Vector, model: str, reach: Reach, most: int) -> list[int]:
    """Return the ids of memories with a meaning close to a question's, nearest first. A summary's id is negative."""
    rows = db.execute(_NEWEST, {"model": model, **reach.parameters}).fetchall()
    found = sorted(((cosine(wanted, unpacked(row[1])), row[0]) for row in rows), reverse=True)
    if len(found) < MIN_VECTORS:
        return []
    cosines = [each for each, _ in found]
    least = max(NEAR, statistics.fmean(cosines) + STANDS_OUT * statistics.pstdev(cosines))
    return [key for each, key in found[:most] if each >= least]
