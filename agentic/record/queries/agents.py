"""The agents: what their turns of some days came to, how long their models take, which reactions they get."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import aiosqlite

from agentic.record.queries.pages import rows

FAILURES = ("failed", "timed_out", "refused")


@dataclass(frozen=True, slots=True)
class AgentTurns:
    """An agent's turns: how many ended in which outcome."""

    agent: str
    outcomes: dict[str, int]

    @property
    def failures(self) -> int:
        return sum(self.outcomes.get(outcome, 0) for outcome in FAILURES)


@dataclass(frozen=True, slots=True)
class ModelSpeed:
    """A model's calls that answered, in seconds: their mean, and the time that 95% of them do not exceed. `errors`:
    kind → how many calls failed so."""

    agent: str
    model: str
    kind: str
    calls: int
    mean: float
    p95: float
    errors: dict[str, int]


@dataclass(frozen=True, slots=True)
class Liked:
    """How often an agent's posts got a reaction."""

    agent: str
    emoji: str
    count: int


async def turns_by_agent(db: aiosqlite.Connection, first_day: str, last_day: str) -> tuple[AgentTurns, ...]:
    """For each agent with a turn on these days (YYYY-MM-DD, both included)."""
    outcomes: dict[str, dict[str, int]] = defaultdict(dict)
    for agent, outcome, count in await rows(
        db,
        "SELECT agent, outcome, COUNT(*) FROM turns WHERE day BETWEEN ? AND ? GROUP BY agent, outcome",
        first_day,
        last_day,
    ):
        outcomes[agent][outcome] = count
    return tuple(AgentTurns(agent, outcomes[agent]) for agent in sorted(outcomes))


async def model_speeds(db: aiosqlite.Connection, first_day: str, last_day: str) -> tuple[ModelSpeed, ...]:
    """For each agent, model and kind of call on these days."""
    seconds: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    errors: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for agent, model, kind, took, error in await rows(
        db,
        "SELECT agent, model, kind, seconds, error FROM calls WHERE day BETWEEN ? AND ?",
        first_day,
        last_day,
    ):
        if error is None:
            seconds[agent, model, kind].append(took)
        else:
            errors[agent, model, kind][error] += 1
    return tuple(
        ModelSpeed(*each, len(seconds[each]), *_mean_and_p95(seconds[each]), dict(errors[each]))
        for each in sorted(seconds.keys() | errors.keys())
    )


async def reactions_received(db: aiosqlite.Connection, since: float, until: float = math.inf) -> tuple[Liked, ...]:
    """The reactions to agents' posts between two times (unix seconds), each agent's most frequent first."""
    found = await rows(
        db,
        """SELECT posts.agent, reactions.emoji, COUNT(*) FROM reactions JOIN posts USING (message_id)
        WHERE reactions.at >= ? AND reactions.at < ? GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2""",
        since,
        until,
    )
    return tuple(Liked(*row) for row in found)


def _mean_and_p95(seconds: list[float]) -> tuple[float, float]:
    if not seconds:
        return 0.0, 0.0
    return sum(seconds) / len(seconds), sorted(seconds)[math.ceil(0.95 * len(seconds)) - 1]
