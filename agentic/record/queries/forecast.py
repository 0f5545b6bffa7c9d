"""The forecast of a day: by what it has cost so far and by the days before it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Literal

import aiosqlite

from agentic.record.queries.pages import first, rows

USUAL_DAYS = 14
FEWEST_DAYS = 3  # with costs, before they count as usual
FEWEST_HOURS = 2.0  # of the day, before its own pace says anything
LEAST_SHARE = 0.05  # of a usual day, before the day's pace is compared with it
SLOWEST, FASTEST = 0.25, 4.0  # the day's pace, relative to the usual one

UNTIL_CUT = """
SELECT SUM(turns.cost_usd), COALESCE(SUM(turns.cost_usd) FILTER (WHERE turns.at < cuts.value), 0)
FROM json_each(?) AS cuts CROSS JOIN turns ON turns.day = cuts.key GROUP BY cuts.key HAVING SUM(turns.cost_usd) > 0"""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The cost of the whole day, in US dollars; None where too little is known to say. `by` is how it is known: `usual`
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
    if len(usual) >= FEWEST_DAYS:
        total, by_now = (sum(each) / len(usual) for each in zip(*usual, strict=True))
        known = by_now >= LEAST_SHARE * total
        pace = min(max(spent / by_now, SLOWEST), FASTEST) if known else 1.0
        return Forecast(spent + (total - by_now) * pace, spent, "usual", len(usual))
    if hours >= FEWEST_HOURS and spent:
        return Forecast(spent * 24 / hours, spent, "pace", len(usual))
    return Forecast(None, spent, "nothing", len(usual))
