"""Sum up the record: agents' statistics, costs and their forecast, the state of the file, and contests.

Days are YYYY-MM-DD, both ends of a range included. Costs from before the record began are in imported_costs
(import-costs), by day and agent only, because Redis has no details. They are ignored for an agent's day from which the
record has a turn or a replay.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Any, Literal, TypeVar

import aiosqlite

from agentic.record.queries.posts import CAN_BE_WON, first, rows
from agentic.wire.entries import Contender

FAILURES = ("failed", "timed_out", "refused")
COUNTED = (
    *("conversations", "rooms", "room_messages", "contests", "turns", "calls", "words", "posts", "pictures"),
    *("reactions", "actions", "message_log", "summaries", "profiles", "consents", "unasked"),
)
Z = 1.959964  # standard normal quantile for a two-sided 95% interval
USUAL_DAYS = 14
MIN_DAYS = 3  # with costs, to know a usual day
MIN_HOURS = 2.0  # since midnight, to extrapolate from this day alone
MIN_SHARE = 0.05  # of a usual day's cost, to measure the pace
MIN_PACE, MAX_PACE = 0.25, 4.0  # this day's cost, relative to a usual day

SUMS = "SUM(cost_usd), SUM(turns), SUM(input_tokens), SUM(cached_tokens), SUM(output_tokens)"
# This reads the index turns_by_day once, in its order. SUMS then adds up only a few thousand rows.
RECORDED = f"""
WITH sums AS MATERIALIZED (
    SELECT day, agent, channel_id, asked_by, SUM(cost_usd) AS cost_usd, COUNT(*) AS turns,
        SUM(input_tokens) AS input_tokens, SUM(cached_tokens) AS cached_tokens, SUM(output_tokens) AS output_tokens
    FROM turns WHERE day BETWEEN ? AND ? GROUP BY day, agent, channel_id, asked_by)
SELECT 'days', day, agent, {SUMS} FROM sums GROUP BY day, agent
UNION ALL SELECT 'channels', channel_id, NULL, {SUMS} FROM sums GROUP BY channel_id
UNION ALL SELECT 'people', asked_by, NULL, {SUMS} FROM sums GROUP BY asked_by"""
# A turn may use several models, so the sums by model come from the calls.
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
FIRST_DAY = "SELECT min(day) FROM (SELECT min(day) AS day FROM turns UNION ALL SELECT min(day) FROM imported_costs)"
UNTIL_CUT = """
SELECT SUM(turns.cost_usd), COALESCE(SUM(turns.cost_usd) FILTER (WHERE turns.at < cuts.value), 0)
FROM json_each(?) AS cuts CROSS JOIN turns ON turns.day = cuts.key GROUP BY cuts.key HAVING SUM(turns.cost_usd) > 0"""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ModelSpeed:
    """Seconds of a model's successful calls: mean and 95th percentile. `errors`: kind of error → failed calls."""

    agent: str
    model: str
    kind: str
    calls: int
    mean: float
    p95: float
    errors: dict[str, int]


async def outcomes_by_agent(db: aiosqlite.Connection, first_day: str, last_day: str) -> dict[str, dict[str, int]]:
    """Count each agent's turns on these days: agent → outcome → number of turns."""
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
    """Count reactions to agents' posts since then (unix seconds): (agent, emoji, count), most frequent first."""
    query = """SELECT posts.agent, reactions.emoji, COUNT(*) FROM reactions JOIN posts USING (message_id)
        WHERE reactions.at >= ? GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2"""
    return [(agent, emoji, count) for agent, emoji, count in await rows(db, query, since)]


@dataclass(frozen=True, slots=True)
class Beat:
    """A turn in short, with its fields as in TurnRecord."""

    id: str
    at: float
    outcome: str
    reason: str | None
    seconds: float
    cost_usd: float


async def last_turns(db: aiosqlite.Connection, agents: Iterable[str], count: int) -> dict[str, tuple[Beat, ...]]:
    """Read each agent's last `count` turns, oldest first. This reads the index turns_by_agent from its end."""
    query = f"SELECT {', '.join(each.name for each in fields(Beat))} FROM turns WHERE agent = ?"
    query += " ORDER BY at DESC, seq DESC LIMIT ?"
    found = {agent: await rows(db, query, agent, count) for agent in agents}
    return {agent: tuple(Beat(*turn) for turn in reversed(turns)) for agent, turns in found.items()}


async def count_failures(db: aiosqlite.Connection, since: float) -> int:
    """Count the turns that failed since then (unix seconds). This reads the index turns_by_outcome."""
    query = "SELECT COUNT(*) FROM turns WHERE outcome = ? AND at >= ?"
    return sum([(await rows(db, query, outcome, since))[0][0] for outcome in FAILURES])


@dataclass(frozen=True, slots=True)
class Spent:
    """A sum of costs. `turns`: their number, or of calls if it's a model's sum. `input_tokens` includes cached ones."""

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

    `days`: by day and agent, in order. `imported`: costs from import-costs, which are also in `total`, `days`, and
    `agents`, but have no known model, channel, or person. `replays`: also in `models`; replays aren't turns, and have
    no channel or person. `people`: by Discord id; None has the turns that no person asked for.
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
    """The expected cost of the whole day in US dollars; None if too little is known. `by`: how it was computed: `usual`
    (from `days` earlier days), `pace` (from this day alone), `nothing`."""

    usd: float | None
    spent_usd: float
    by: Literal["usual", "pace", "nothing"]
    days: int


async def read_forecast(db: aiosqlite.Connection, now: float, zone: tzinfo) -> Forecast:
    """Forecast the cost of the day of `now` (unix seconds).

    The usual day is the average of the days with recorded costs among the 14 days before. The forecast is the cost so
    far, plus the usual cost from this time of day on, times the day's pace. The pace is the cost so far divided by the
    usual cost by this time, between 1/4 and 4. It is 1 if less than 5% of a usual day's cost is usual by now.

    With fewer than 3 such days, the cost so far is extrapolated to the whole day, from 2 a.m. on. Imported costs are
    left out because they have no time of day, and replays because no usual day has any.
    """
    local = datetime.fromtimestamp(now, zone)
    spent = await first(db, "SELECT COALESCE(SUM(cost_usd), 0) FROM turns WHERE day = ?", local.date().isoformat())
    assert spent is not None
    cuts = [local - timedelta(days=back) for back in range(1, USUAL_DAYS + 1)]  # the same time of day by the clock
    usual = await rows(db, UNTIL_CUT, json.dumps({each.date().isoformat(): each.timestamp() for each in cuts}))
    return forecast(spent[0], [(total, by_now) for total, by_now in usual], hours=local.hour + local.minute / 60)


def forecast(spent: float, usual: list[tuple[float, float]], *, hours: float) -> Forecast:
    """Compute read_forecast. `usual`: each earlier day's cost, and its part by this time. `hours`: since midnight."""
    if len(usual) >= MIN_DAYS:
        total, by_now = (sum(each) / len(usual) for each in zip(*usual, strict=True))
        known = by_now >= MIN_SHARE * total
        pace = min(max(spent / by_now, MIN_PACE), MAX_PACE) if known else 1.0
        return Forecast(spent + (total - by_now) * pace, spent, "usual", len(usual))
    if hours >= MIN_HOURS and spent:
        return Forecast(spent * 24 / hours, spent, "pace", len(usual))
    return Forecast(None, spent, "nothing", len(usual))


@dataclass(frozen=True, slots=True)
class MonthForecast:
    """What a month costs, in US dollars: `spent_usd` until now, and `usd` until its `last` day (YYYY-MM-DD), if each
    day to come costs `daily_usd`, the average of the last `days` days. `usd` is None if too little is known."""

    spent_usd: float
    usd: float | None
    daily_usd: float
    days: int
    last: str


async def forecast_month(db: aiosqlite.Connection, today: date, spent_usd: float, expected_usd: float) -> MonthForecast:
    """Forecast the cost of today's month, in which today has cost `spent_usd` so far and will probably cost
    `expected_usd`. Each later day is expected to cost the average of the 14 days before today, with the days that cost
    nothing, but not those before the first cost. That takes 3 such days."""
    first_day = today.replace(day=1)
    last_day = (first_day + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    since, yesterday = today - timedelta(days=USUAL_DAYS), today - timedelta(days=1)
    costs = await read_costs(db, str(min(first_day, since)), str(yesterday))
    ((began,),) = await rows(db, FIRST_DAY)
    days = max(0, min((today - date.fromisoformat(began)).days, USUAL_DAYS)) if began else 0
    before = sum(spent.cost_usd for (day, _), spent in costs.days.items() if day >= str(first_day))
    lately = sum(spent.cost_usd for (day, _), spent in costs.days.items() if day >= str(since))
    daily = lately / days if days else 0.0
    usd = before + expected_usd + daily * (last_day - today).days if days >= MIN_DAYS else None
    return MonthForecast(before + spent_usd, usd, daily, days, str(last_day))


@dataclass(frozen=True, slots=True)
class FileState:
    """`bytes`: the file's size without its write-ahead log; `free_bytes` of it will be reused. `oldest` and `newest`:
    when the first and last recorded turn ended, None without turns. `counts`: rows by table. `dropped`: by stream, how
    many entries its size limit removed before they were read."""

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
    """The share `count` / `of`, with its 95% confidence interval from `low` to `high`, all from 0 to 1.

    It is Wilson's score interval (E. B. Wilson, 1927), which is right even for few trials and for shares near 0 and 1,
    unlike the usual p ± 1.96 s. Without trials it is 0 to 1.
    """

    count: int
    of: int
    value: float
    low: float
    high: float


def share(count: int, of: int) -> Share:
    """Compute a share. Raises ValueError if the count isn't between 0 and `of`."""
    if not 0 <= count <= of:
        raise ValueError(f"{count} of {of} is not a share")
    if not of:
        return Share(0, 0, 0.0, 0.0, 1.0)
    value = count / of
    middle = value + Z**2 / (2 * of)
    reach = Z * math.sqrt(value * (1 - value) / of + (Z / (2 * of)) ** 2)
    whole = 1 + Z**2 / of
    # min and max keep the share in the interval despite rounding errors of 1e-16.
    return Share(count, of, value, min(value, max(0.0, (middle - reach) / whole)), max(value, (middle + reach) / whole))


@dataclass(frozen=True, slots=True)
class Standing:
    """The results of an agent with a model. `contests`: those in which people voted. `wins`: the share of them in which
    it alone had the most votes. `ties`: contests in which it shared the most votes with others. `votes`: its share of
    all votes in its contests. `fair_share`: its expected share if people voted at random: 0.5 with two contenders.

    `verdicts`: the share of judged rooms in which the judge gave it (or its side) the best score, alone. `score`: the
    average of its scores, from 0 to 10; None if no room was judged. `moves`: the share of rooms with polls in which
    more people came over to it (or its side) than to any other. `moved`: how many did in all, less those who left it.
    """

    agent: str
    model: str  # provider/model; "" if unknown
    contests: int
    wins: Share
    ties: int
    votes: Share
    fair_share: float
    verdicts: Share
    score: float | None
    moves: Share
    moved: int


async def season(db: aiosqlite.Connection, kind: str | None = None) -> tuple[Standing, ...]:
    """Return the standings in contests of a kind (arena, room; None: all), best first. They are ordered by the lower
    end of the wins' interval, so that one lucky win doesn't lead. Panels and interviews don't count: nobody wins."""
    contests: dict[str, list[Contender]] = defaultdict(list)
    query = f"""SELECT contests.id AS contest_id, agent, model, votes, side, score, moved
        FROM contests JOIN contenders ON contest_id = contests.id WHERE (?1 IS NULL OR kind = ?1) AND {CAN_BE_WON}"""
    for row in await rows(db, query, kind):
        contest = dict(row)
        contests[contest.pop("contest_id")].append(Contender(**contest))
    return standings(contests.values())


def standings(contests: Iterable[Sequence[Contender]]) -> tuple[Standing, ...]:
    """Add up contests, without those that had neither votes, nor a verdict, nor polls."""
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    fair: dict[tuple[str, str], float] = defaultdict(float)
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for entries in contests:
        total, most = sum(entry.votes for entry in entries), max((entry.votes for entry in entries), default=0)
        is_tie = sum(entry.votes == most for entry in entries) > 1
        for entry in entries if total else ():
            key, is_ahead = (entry.agent, entry.model), entry.votes == most
            fair[key] += total / len(entries)
            wins, ties = int(is_ahead and not is_tie), int(is_ahead and is_tie)
            sums[key].update(contests=1, wins=wins, ties=ties, votes=entry.votes, votes_of_all=total)
        judged = [entry for entry in entries if entry.score is not None]
        best = _ahead({_contender_of(entry): entry.score or 0.0 for entry in judged})
        for entry in judged:
            key = entry.agent, entry.model
            scores[key].append(entry.score or 0.0)
            sums[key].update(judged=1, verdicts=int(_contender_of(entry) == best))
        polled = [entry for entry in entries if entry.moved is not None]
        mover = _ahead({_contender_of(entry): entry.moved or 0 for entry in polled})
        for entry in polled:
            sums[entry.agent, entry.model].update(
                polled=1, moves=int(_contender_of(entry) == mover and (entry.moved or 0) > 0), moved=entry.moved or 0
            )
    found = [
        Standing(
            *key,
            each["contests"],
            share(each["wins"], each["contests"]),
            each["ties"],
            share(each["votes"], each["votes_of_all"]),
            fair[key] / each["votes_of_all"] if each["votes_of_all"] else 0.0,
            share(each["verdicts"], each["judged"]),
            round(sum(scores[key]) / len(scores[key]), 2) if scores[key] else None,
            share(each["moves"], each["polled"]),
            each["moved"],
        )
        for key, each in sums.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.wins.low, -one.votes.low, one.agent, one.model)))


def _contender_of(entry: Contender) -> str:
    """Return the subject of a verdict and polls: its side, or the agent if it has no side."""
    return entry.side or entry.agent


def _ahead(values: Mapping[str, float]) -> str | None:
    """Return the contender with the highest value, if it alone has it."""
    most = max(values.values(), default=0.0)
    best = [name for name, value in values.items() if value == most]
    return best[0] if len(best) == 1 else None
