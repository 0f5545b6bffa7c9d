"""Answers to the coordinator's questions about what agents may do while nobody writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from pathlib import Path

from agentic.record.candidates import to_profile, to_summarise
from agentic.record.exchanges import hanging, people
from agentic.record.messages import newest_of
from agentic.record.reader import MemoryReader
from agentic.state.idle import Candidate, Sent

_SENT = """
SELECT message_id, agent, task, channel_id, person_id, text, at,
  iif(person_id IS NULL,
    EXISTS (SELECT 1 FROM message_log said WHERE said.channel_id = unasked.channel_id
      AND said.message_id > unasked.message_id AND said.author = 'person'),
    EXISTS (SELECT 1 FROM message_log said WHERE said.author_id = person_id
      AND said.message_id > unasked.message_id AND said.channel_id = unasked.channel_id)) AS answered
FROM unasked WHERE at >= ? ORDER BY at, message_id
"""


class IdleMemory:
    """Implements IdleStore of agent_coordinator/ports.py. `exchanges`: a message with its answer is summarized too."""

    def __init__(self, path: Path, *, exchanges: bool = False) -> None:
        self._reader, self._exchanges = MemoryReader(path), exchanges

    async def newest(self, agent: str, task: str) -> int:
        profiles = task == "discover"
        return await self._reader.ask(lambda db: newest_of(db, agent, profiles=profiles), 0)

    async def to_summarise(self, agent: str, before: float, skip: Collection[int] = ()) -> Candidate | None:
        return await self._reader.ask(lambda db: to_summarise(db, agent, before, skip, exchanges=self._exchanges), None)

    async def to_profile(self, agent: str, skip: Collection[int] = ()) -> Candidate | None:
        return await self._reader.ask(lambda db: to_profile(db, agent, skip), None)

    async def hanging(self, agent: str, before: float, count: int) -> tuple[Candidate, ...]:
        return await self._reader.ask(lambda db: hanging(db, agent, before, count), ())

    async def people(self, agent: str, count: int) -> tuple[Candidate, ...]:
        return await self._reader.ask(lambda db: people(db, agent, count), ())

    async def sent(self, since: float) -> tuple[Sent, ...]:
        return await self._reader.ask(lambda db: sent(db, since), ())

    async def consents(self) -> Mapping[int, bool]:
        return await self._reader.ask(consents, {})

    async def aclose(self) -> None:
        await self._reader.aclose()


def sent(db: sqlite3.Connection, since: float) -> tuple[Sent, ...]:
    return tuple(
        Sent(**{**dict(zip(row.keys(), row, strict=True)), "answered": bool(row["answered"])})
        for row in db.execute(_SENT, (since,)).fetchall()
    )


def consents(db: sqlite3.Connection) -> dict[int, bool]:
    return {row[0]: bool(row[1]) for row in db.execute("SELECT user_id, unasked FROM consents")}
