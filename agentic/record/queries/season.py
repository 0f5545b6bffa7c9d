"""The season: how agents did in contests, by agent and model. A contest in which nobody voted counts for nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import aiosqlite

from agentic.record.queries.intervals import Share, share
from agentic.record.queries.pages import rows
from agentic.wire.entries import Contender


@dataclass(frozen=True, slots=True)
class Standing:
    """An agent with a model. `wins`: contests in which it had the most votes alone, of all its contests; `ties`: those
    in which others had as many. `votes`: its own, of all that were given in its contests; `fair_share` is what they
    would be if people voted by chance: 0.5 where there are two."""

    agent: str
    model: str  # provider/model; "" where it is not known
    contests: int
    wins: Share
    ties: int
    votes: Share
    fair_share: float


@dataclass(slots=True)
class _Sums:
    contests: int = 0
    wins: int = 0
    ties: int = 0
    votes: int = 0
    votes_of_all: int = 0
    fair: float = 0.0


async def season(
    db: aiosqlite.Connection, *, kind: str | None = None, since: float = 0.0, until: float = math.inf
) -> tuple[Standing, ...]:
    """The standings of contests of a kind (arena, room; None: all) between two times (unix seconds), the best first:
    by the lower end of the wins' interval, so that one lucky win is not the top."""
    contests: dict[str, list[Contender]] = defaultdict(list)
    for contest_id, agent, model, votes in await rows(
        db,
        """SELECT contests.id, agent, model, votes FROM contests JOIN contenders ON contest_id = contests.id
        WHERE contests.at >= ?1 AND contests.at < ?2 AND (?3 IS NULL OR kind = ?3)""",
        since,
        until,
        kind,
    ):
        contests[contest_id].append(Contender(agent=agent, model=model, votes=votes))
    return standings(contests.values())


def standings(contests: Iterable[Sequence[Contender]]) -> tuple[Standing, ...]:
    sums: dict[tuple[str, str], _Sums] = defaultdict(_Sums)
    for entries in contests:
        total = sum(entry.votes for entry in entries)
        if total:
            for entry in entries:
                _add(sums[entry.agent, entry.model], entry, entries, total)
    found = [
        Standing(
            agent,
            model,
            each.contests,
            share(each.wins, each.contests),
            each.ties,
            share(each.votes, each.votes_of_all),
            each.fair / each.votes_of_all,
        )
        for (agent, model), each in sums.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.wins.low, -one.votes.low, one.agent, one.model)))


def _add(sums: _Sums, entry: Contender, entries: Sequence[Contender], total: int) -> None:
    most = max(other.votes for other in entries)
    ahead = entry.votes == most
    alone = sum(other.votes == most for other in entries) == 1
    sums.contests += 1
    sums.wins += ahead and alone
    sums.ties += ahead and not alone
    sums.votes += entry.votes
    sums.votes_of_all += total
    sums.fair += total / len(entries)
