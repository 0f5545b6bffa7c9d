"""Sum up the record: agents' numbers, costs and their forecast, the file itself, and the season of contests.

Days are YYYY-MM-DD, both ends of a range included. Days before the record began come from imported_costs
(import-costs): by day and agent only, since Redis keeps no more. A day of an agent counts once: if the record has a
turn or a replay of it, the imported sum is left out.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, TypeVar

import aiosqlite

from agentic.record.queries.posts import first, rows
from agentic.wire.entries import Contender

FAILURES = ("failed", "timed_out", "refused")
COUNTED = (
    *("conversations", "rooms", "room_messages", "contests", "turns", "calls", "words", "posts", "pictures"),
    *("reactions", "actions", "message_log", "summaries", "profiles", "consents", "unasked"),
)
Z = 1.959964  # of 95%, two-sided
USUAL_DAYS = 14
MIN_DAYS = 3  # with costs, before they count as usual
MIN_HOURS = 2.0  # of the day, before its own pace says anything
MIN_SHARE = 0.05  # of a usual day, before the day's pace is compared with it
MIN_PACE, MAX_PACE = 0.25, 4.0  # the day's pace, relative to the usual one

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
UNTIL_CUT = """
SELECT SUM(turns.cost_usd), COALESCE(SUM(turns.cost_usd) FILTER (WHERE turns.at < cuts.value), 0)
FROM json_each(?) AS cuts CROSS JOIN turns ON turns.day = cuts.key GROUP BY cuts.key HAVING SUM(turns.cost_usd) > 0"""

K = TypeVar("K", bound=Hashable)


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


async def outcomes_by_agent(db: aiosqlite.Connection, first_day: str, last_day: str) -> dict[str, dict[str, int]]:
    """Count each agent's turns on these days: agent → outcome → turns."""
    outcomes: dict[str, dict[str, int]] = defaultdict(dict)
    query = "SELECT agent, outcome, COUNT(*) FROM turns WHERE day BETWEEN ? AND ? GROUP BY agent, outcome"
    for agent, outcome, count in await rows(db, query, first_day, last_day):
        outcomes[agent][outcome] = count
    return dict(outcomes)


async def model_speeds(db: aiosqlite.Connection, first_day: str, last_day: str) -> tuple[ModelSpeed, ...]:
    """Measure each agent's models by kind of call on these days."""
    seconds: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    errors: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    query = "SELECT agent, model, kind, seconds, error FROM calls WHERE day BETWEEN ? AND ?"
    for agent, model, kind, duration, error in await rows(db, query, first_day, last_day):
        if error is None:
            seconds[agent, model, kind].append(duration)
        else:
            errors[agent, model, kind][error] += 1
    speeds = []
    for key in sorted(seconds.keys() | errors.keys()):
        took = sorted(seconds[key])
        mean, p95 = (sum(took) / len(took), took[math.ceil(0.95 * len(took)) - 1]) if took else (0.0, 0.0)
        speeds.append(ModelSpeed(*key, len(took), mean, p95, dict(errors[key])))
    return tuple(speeds)


async def reactions_received(db: aiosqlite.Connection, since: float) -> list[tuple[str, str, int]]:
    """Count reactions to agents' posts since then (unix seconds): (agent, emoji, count), the most frequent first."""
    query = """SELECT posts.agent, reactions.emoji, COUNT(*) FROM reactions JOIN posts USING (message_id)
        WHERE reactions.at >= ? GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2"""
    return [(agent, emoji, count) for agent, emoji, count in await rows(db, query, since)]


@dataclass(frozen=True, slots=True)
class Spent:
    """A sum of costs. `turns` counts calls if the sum is a model's. `input_tokens` includes cached ones."""

    cost_usd: float = 0.0
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

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
    days = _add_up(found["days"])
    return CostSums(
        total=sum(days.values(), Spent()),
        imported=sum((spent for _, spent in imported), Spent()),
        replays=sum((spent for _, spent in of_replays), Spent()),
        days=dict(sorted(days.items())),
        agents=_add_up((agent, spent) for (_, agent), spent in days.items()),
        models=_add_up([*models, *((model, spent) for _, _, model, spent in replayed)]),
        channels=dict(found["channels"]),
        people=dict(found["people"]),
    )


def _add_up(pairs: Iterable[tuple[K, Spent]]) -> dict[K, Spent]:
    sums: dict[K, Spent] = defaultdict(Spent)
    for key, spent in pairs:
        sums[key] += spent
    return dict(sums)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost of the whole day, in US dollars; None if too little is known to say. `by` is how it is known: `usual`
    (compared with `days` earlier days), `pace` (by this day alone), `nothing`."""

    usd: float | None
    spent_usd: float
    by: Literal["usual", "pace", "nothing"]
    days: int


async def read_forecast(db: aiosqlite.Connection, now: float, zone: tzinfo) -> Forecast:
    """Forecast the cost of the day of `now` (unix seconds).

    Of the 14 days before it, those with recorded costs make the usual day: what it has cost by this time of day, and
    what it costs after it. The forecast is what was spent, and the usual rest times the day's pace: spent, divided by
    what is usual by now, between 1/4 and 4. Before 5% of a usual day are spent the pace says nothing, and counts as 1.
    With fewer than 3 such days the day's own pace goes on to its end, from 2 hours after its beginning. Imported costs
    do not count, since they have no time of day, nor do replays, which no usual day has.
    """
    local = datetime.fromtimestamp(now, zone)
    spent = await first(db, "SELECT COALESCE(SUM(cost_usd), 0) FROM turns WHERE day = ?", local.date().isoformat())
    assert spent is not None
    cuts = [local - timedelta(days=back) for back in range(1, USUAL_DAYS + 1)]  # the same time of day by the clock
    usual = await rows(db, UNTIL_CUT, json.dumps({each.date().isoformat(): each.timestamp() for each in cuts}))
    return forecast(spent[0], [(total, by_now) for total, by_now in usual], hours=local.hour + local.minute / 60)


def forecast(spent: float, usual: list[tuple[float, float]], *, hours: float) -> Forecast:
    """`usual` has the cost of each earlier day, and what of it was spent by this time; `hours` of the day are over."""
    if len(usual) >= MIN_DAYS:
        total, by_now = (sum(each) / len(usual) for each in zip(*usual, strict=True))
        known = by_now >= MIN_SHARE * total
        pace = min(max(spent / by_now, MIN_PACE), MAX_PACE) if known else 1.0
        return Forecast(spent + (total - by_now) * pace, spent, "usual", len(usual))
    if hours >= MIN_HOURS and spent:
        return Forecast(spent * 24 / hours, spent, "pace", len(usual))
    return Forecast(None, spent, "nothing", len(usual))


@dataclass(frozen=True, slots=True)
class FileState:
    """`bytes` of the file without its write-ahead log, of which `free_bytes` will be used again. `oldest` and `newest`:
    when the first and the last recorded turn ended, None without turns. `counts`: rows by table. `dropped`: stream →
    entries that a bound removed before they were read."""

    bytes: int
    free_bytes: int
    oldest: float | None
    newest: float | None
    counts: dict[str, int]
    dropped: dict[str, int]


async def file_state(db: aiosqlite.Connection) -> FileState:
    pages = [(await rows(db, f"PRAGMA {name}"))[0][0] for name in ("page_count", "freelist_count", "page_size")]
    ((oldest, newest),) = await rows(db, "SELECT (SELECT min(at) FROM turns), (SELECT max(at) FROM turns)")
    return FileState(
        pages[0] * pages[2],
        pages[1] * pages[2],
        oldest,
        newest,
        {table: (await rows(db, f"SELECT COUNT(*) FROM {table}"))[0][0] for table in COUNTED},
        dict(await rows(db, "SELECT stream, dropped FROM positions")),  # type: ignore[arg-type]
    )


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`, with the 95% interval in which the true share lies; all are between 0 and 1.

    The interval is Wilson's score, right for few trials and near 0 and 1, where the usual p ± 1.96 s is not
    (E. B. Wilson, 1927). Without trials nothing is known: 0 to 1.
    """

    count: int
    of: int
    value: float
    low: float
    high: float


def share(count: int, of: int) -> Share:
    """Compute a share. Raises ValueError for a count that is not between 0 and `of`."""
    if not 0 <= count <= of:
        raise ValueError(f"{count} of {of} is not a share")
    if not of:
        return Share(0, 0, 0.0, 0.0, 1.0)
    value = count / of
    middle = value + Z**2 / (2 * of)
    reach = Z * math.sqrt(value * (1 - value) / of + (Z / (2 * of)) ** 2)
    whole = 1 + Z**2 / of
    # The interval has the share in it, even if rounding says otherwise by 1e-16.
    return Share(count, of, value, min(value, max(0.0, (middle - reach) / whole)), max(value, (middle + reach) / whole))


@dataclass(frozen=True, slots=True)
class Standing:
    """An agent with a model. `wins`: contests in which it had the most votes alone, of all its contests; `ties`: those
    in which others had as many. `votes`: its own, of all that were given in its contests; `fair_share` is what they
    would be if people voted by chance: 0.5 if there are two."""

    agent: str
    model: str  # provider/model; "" if it is not known
    contests: int
    wins: Share
    ties: int
    votes: Share
    fair_share: float


async def season(db: aiosqlite.Connection, kind: str | None = None) -> tuple[Standing, ...]:
    """Return the standings of contests of a kind (arena, room; None: all), the best first: by the lower end of the
    wins' interval, so that one lucky win is not the top."""
    contests: dict[str, list[Contender]] = defaultdict(list)
    query = """SELECT contests.id, agent, model, votes FROM contests JOIN contenders ON contest_id = contests.id
        WHERE ?1 IS NULL OR kind = ?1"""
    for contest_id, agent, model, votes in await rows(db, query, kind):
        contests[contest_id].append(Contender(agent=agent, model=model, votes=votes))
    return standings(contests.values())


def standings(contests: Iterable[Sequence[Contender]]) -> tuple[Standing, ...]:
    """Add up contests. A contest in which nobody voted counts for nothing."""
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    fair: dict[tuple[str, str], float] = defaultdict(float)
    for entries in contests:
        total, most = sum(entry.votes for entry in entries), max((entry.votes for entry in entries), default=0)
        if not total:
            continue
        is_tie = sum(entry.votes == most for entry in entries) > 1
        for entry in entries:
            key, is_ahead = (entry.agent, entry.model), entry.votes == most
            fair[key] += total / len(entries)
            wins, ties = int(is_ahead and not is_tie), int(is_ahead and is_tie)
            sums[key].update(contests=1, wins=wins, ties=ties, votes=entry.votes, votes_of_all=total)
    found = [
        Standing(
            *key,
            each["contests"],
            share(each["wins"], each["contests"]),
            each["ties"],
            share(each["votes"], each["votes_of_all"]),
            fair[key] / each["votes_of_all"],
        )
        for key, each in sums.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.wins.low, -one.votes.low, one.agent, one.model)))
