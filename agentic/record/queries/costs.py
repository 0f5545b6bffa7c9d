"""Costs: sums over a range of days. Days are YYYY-MM-DD, both ends of a range included.

Days before the record began come from imported_costs (import-costs): by day and agent only, since Redis keeps no more.
A day of an agent counts once: where the record has a turn or a replay of it, the imported sum is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import aiosqlite

from agentic.record.queries.pages import rows

K = TypeVar("K", bound=Hashable)

SUMS = "SUM(cost_usd), SUM(turns), SUM(input_tokens), SUM(cached_tokens), SUM(output_tokens)"
# The index turns_by_day is read once, in its order; what SUMS adds up is then a few thousand rows.
RECORDED = f"""
WITH sums AS MATERIALIZED (
    SELECT day, agent, channel_id, asked_by, SUM(cost_usd) AS cost_usd, COUNT(*) AS turns,
        SUM(input_tokens) AS input_tokens, SUM(cached_tokens) AS cached_tokens, SUM(output_tokens) AS output_tokens
    FROM turns WHERE day BETWEEN ? AND ? GROUP BY day, agent, channel_id, asked_by)
SELECT 'days', day, agent, {SUMS} FROM sums GROUP BY day, agent
UNION ALL SELECT 'channels', channel_id, NULL, {SUMS} FROM sums GROUP BY channel_id
UNION ALL SELECT 'people', asked_by, NULL, {SUMS} FROM sums GROUP BY asked_by"""
# A turn may have several models, so their sums come from the calls.
BY_MODEL = """
SELECT model, SUM(cost_usd), COUNT(*), SUM(input_tokens), SUM(cached_tokens), SUM(output_tokens)
FROM calls WHERE day BETWEEN ? AND ? GROUP BY day, agent, model"""
REPLAYED = """
SELECT day, agent, model, SUM(cost_usd), SUM(calls), SUM(input_tokens), SUM(cached_tokens), SUM(output_tokens)
FROM replays WHERE day BETWEEN ? AND ? GROUP BY day, agent, model"""
IMPORTED = """
SELECT day, agent,
    SUM(amount) FILTER (WHERE field = 'total_cost'),
    COALESCE(SUM(amount) FILTER (WHERE field = 'input_tokens'), 0),
    COALESCE(SUM(amount) FILTER (WHERE field = 'cached_tokens'), 0),
    COALESCE(SUM(amount) FILTER (WHERE field = 'output_tokens'), 0)
FROM imported_costs AS old WHERE day BETWEEN ? AND ?
    AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.day = old.day AND turns.agent = old.agent)
    AND NOT EXISTS (SELECT 1 FROM replays WHERE replays.day = old.day AND replays.agent = old.agent)
GROUP BY day, agent HAVING SUM(field = 'total_cost') > 0"""


@dataclass(frozen=True, slots=True)
class Spent:
    """A sum of costs. `turns` counts calls where the sum is a model's. `input_tokens` includes cached ones."""

    cost_usd: float = 0.0
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.cost_usd + other.cost_usd,
            self.turns + other.turns,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
        )

    @property
    def cached_share(self) -> float:
        """The share of the input that came from the providers' caches, 0 to 1."""
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0


@dataclass(frozen=True, slots=True)
class CostSums:
    """The costs of a range of days, by each key that has any.

    `days` has a sum for each day and agent, in order. `imported` is the part that import-costs brought: it is in
    `total`, `days` and `agents`; its models, channels and people are not known. `replays` is in `models` too; they are
    no turns, of no channel and no person. `people` are Discord ids; None has the turns that no person asked for.
    """

    total: Spent
    imported: Spent
    replays: Spent
    days: dict[tuple[str, str], Spent]
    agents: dict[str, Spent]
    models: dict[str, Spent]
    channels: dict[int, Spent]
    people: dict[int | None, Spent]


async def read_costs(db: aiosqlite.Connection, first_day: str, last_day: str) -> CostSums:
    imported = [
        ((day, agent), Spent(cost, 0, *tokens))
        for day, agent, cost, *tokens in await rows(db, IMPORTED, first_day, last_day)
    ]
    replayed = [
        (day, agent, model, Spent(*sums)) for day, agent, model, *sums in await rows(db, REPLAYED, first_day, last_day)
    ]
    of_replays = [((day, agent), replace(spent, turns=0)) for day, agent, _, spent in replayed]
    models = [(model, Spent(*sums)) for model, *sums in await rows(db, BY_MODEL, first_day, last_day)]
    found: dict[str, list[Any]] = {"days": [*imported, *of_replays], "channels": [], "people": []}
    for by, key, agent, *sums in await rows(db, RECORDED, first_day, last_day):
        found[by].append(((key, agent) if by == "days" else key, Spent(*sums)))
    days = _summed(found["days"])
    return CostSums(
        total=sum(days.values(), Spent()),
        imported=sum((spent for _, spent in imported), Spent()),
        replays=sum((spent for _, spent in of_replays), Spent()),
        days=dict(sorted(days.items())),
        agents=_summed((agent, spent) for (_, agent), spent in days.items()),
        models=_summed([*models, *((model, spent) for _, _, model, spent in replayed)]),
        channels=dict(found["channels"]),
        people=dict(found["people"]),
    )


def _summed(pairs: Iterable[tuple[K, Spent]]) -> dict[K, Spent]:
    sums: dict[K, Spent] = defaultdict(Spent)
    for key, spent in pairs:
        sums[key] += spent
    return dict(sums)
