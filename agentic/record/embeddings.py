"""Keep the meaning of messages and summaries as vectors, made in the background, and compare them with a question's.

Only the recorder writes them; a vector goes with its text (triggers of 0004_memory.sql). The newest KEPT messages and
summaries have one. Models differ in how near unrelated texts are, so a memory is near that stands out from all others.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import aiosqlite

from agentic.llm.embeddings import Vector, cosine, packed, unpacked
from agentic.record.recall import PLACES, REACHED, Reach
from agentic.record.writing import transaction

KEPT = 3_000  # of messages, and of summaries
COMPARED = 1_500  # with a question, the newest: a tenth of a second
BATCH = 32  # texts in a request
MIN_CHARACTERS = 12  # characters: what is shorter has no meaning of its own
LOOK_EVERY = 10.0  # seconds between two looks for texts without a vector
REST = 600.0  # seconds after a refusal or a failure
MIN_VECTORS = 30  # vectors among which one can stand out
STANDS_OUT = 3.0  # standard deviations above the others
NEAR = 0.3  # a cosine below that is chance, with any model

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
WITH {PLACES}, vectors AS (SELECT id, vector FROM embeddings WHERE model = :model)
SELECT id, vector FROM vectors {REACHED} ORDER BY abs(id) DESC LIMIT {COMPARED}
"""

log = logging.getLogger(__name__)


class Embeddings(Protocol):
    """Makes vectors, on the books; implemented in agentic.runtime."""

    @property
    def model(self) -> str:
        """provider/model: vectors of two models cannot be compared."""

    async def vectors(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        """Return a vector for each text; None if the model failed or there is no money. Never raises."""

    async def aclose(self) -> None: ...


class VectorWriter:
    """Keeps the vectors of a connection that writes up to date: each step writes what is ready and asks for more, and
    never waits for the model."""

    def __init__(
        self, db: aiosqlite.Connection, meaning: Embeddings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._db, self._meaning, self._clock = db, meaning, clock
        self._asked: list[tuple[int, str]] = []
        self._making: asyncio.Task[Sequence[Vector] | None] | None = None
        self._next = float("-inf")

    async def step(self) -> bool:
        """Return whether there was anything to do. Raises sqlite3.Error."""
        if self._making is None:
            if self._clock() >= self._next:
                found = await self._db.execute_fetchall(_MISSING, (self._meaning.model, KEPT, MIN_CHARACTERS))
                self._asked = [(row[0], row[1]) for row in found]
                self._next = self._clock() + LOOK_EVERY
                if self._asked:
                    texts = [text for _, text in self._asked]
                    self._making = asyncio.create_task(self._meaning.vectors(texts), name="embeddings")
            return False
        if not self._making.done():
            return False
        made, self._making = self._making.result(), None
        if made is None or len(made) != len(self._asked):
            self._next = self._clock() + REST
            return False
        async with transaction(self._db):
            for (key, text), vector in zip(self._asked, made, strict=True):
                await self._db.execute(_KEEP, (key, self._meaning.model, packed(vector), text))
        self._next = float("-inf") if len(made) == BATCH else self._next
        return True

    async def aclose(self) -> None:
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)


def find_near(db: sqlite3.Connection, wanted: Vector, model: str, reach: Reach, most: int) -> list[int]:
    """Return the ids of memories whose meaning stands out as near to a question's, the nearest first.

    A summary's id is negative.
    """
    rows = db.execute(_NEWEST, {"model": model, **reach.parameters}).fetchall()
    found = sorted(((cosine(wanted, unpacked(row[1])), row[0]) for row in rows), reverse=True)
    if len(found) < MIN_VECTORS:
        return []
    cosines = [each for each, _ in found]
    least = max(NEAR, statistics.fmean(cosines) + STANDS_OUT * statistics.pstdev(cosines))
    return [key for each, key in found[:most] if each >= least]
