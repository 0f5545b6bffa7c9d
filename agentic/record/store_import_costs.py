"""Takes the days' costs that Redis has into the record, for the days before the record began."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import aiosqlite

from agentic.record.writing import transaction

Days = Mapping[tuple[str, str], Mapping[str, float]]
"""(agent, YYYY-MM-DD) → field → amount, as agentic.state.costs reads them."""

UPSERT = """INSERT INTO imported_costs (day, agent, field, amount) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET amount = excluded.amount"""


RECORDED = """SELECT 1 FROM turns WHERE day = :day AND agent = :agent
    UNION ALL SELECT 1 FROM replays WHERE day = :day AND agent = :agent LIMIT 1"""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: its days, in order, and each agent's costs in US dollars. `recorded` counts the days of
    an agent that were left out, since the record has their costs itself."""

    days: tuple[str, ...]
    costs: dict[str, float]
    recorded: int


async def import_costs(db: aiosqlite.Connection, found: Days) -> Imported:
    """Write them in one transaction. Done again, it writes the same, or what Redis has since added to them."""
    async with transaction(db):
        recorded = {(agent, day) for agent, day in found if await _recorded(db, agent, day)}
        days: set[str] = set()
        costs: dict[str, float] = defaultdict(float)
        for (agent, day), amounts in found.items():
            if (agent, day) not in recorded and amounts.get("total_cost"):
                await db.executemany(UPSERT, [(day, agent, name, amount) for name, amount in amounts.items()])
                days.add(day)
                costs[agent] += amounts["total_cost"]
        return Imported(tuple(sorted(days)), dict(sorted(costs.items())), len(recorded))


async def _recorded(db: aiosqlite.Connection, agent: str, day: str) -> bool:
    return bool(await db.execute_fetchall(RECORDED, {"day": day, "agent": agent}))
