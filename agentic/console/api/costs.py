"""Costs: sums over a range of days, and the same tables as CSV.

GET /api/costs?days=30, or ?from=2026-11-01&to=2026-11-22       days in the owner's time zone, both included
GET /api/costs/csv?table=days|agents|models|channels|people     for the same range
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from aiohttp import web

from agentic.console.json_values import Json, channel_json, id_text, person_name, spent_json, today, turn_json
from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused, query_int, query_text
from agentic.record.queries.costs import CostSums, Spent, read_costs
from agentic.record.queries.turns import costliest_turns

USUAL_DAYS = 30
MOST_DAYS = 3_660
MOST_PEOPLE = 100  # of a table on the page; the CSV has all
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would calculate a cell that begins so
TABLES = ("days", "agents", "models", "channels", "people")
MEASURES = ("cost_usd", "turns", "input_tokens", "cached_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Days:
    """A range of days, both included."""

    first: date
    last: date

    def __iter__(self) -> Iterator[str]:
        return (str(self.first + timedelta(days=n)) for n in range((self.last - self.first).days + 1))


def routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def costs(request: web.Request) -> web.Response:
        days = _range(parts, request)
        db, first, last = await parts.store.open(), str(days.first), str(days.last)
        page = _page(parts, days, await read_costs(db, first, last))
        costliest = [turn_json(parts, turn) for turn in await costliest_turns(db, first, last)]
        return web.json_response({**page, "costliest": costliest})

    async def table(request: web.Request) -> web.Response:
        days, name = _range(parts, request), query_text(request, "table")
        if name not in TABLES:
            raise Refused(400, f"table: expected one of {', '.join(TABLES)}")
        found = await read_costs(await parts.store.open(), str(days.first), str(days.last))
        headers = {"Content-Disposition": f'attachment; filename="cost-{name}-{days.first}-{days.last}.csv"'}
        return web.Response(text=_csv(parts, name, found), content_type="text/csv", charset="utf-8", headers=headers)

    return [web.get("/api/costs", costs), web.get("/api/costs/csv", table)]


def _range(parts: ConsoleParts, request: web.Request) -> Days:
    """The range of the query. Raises Refused."""
    begins, ends = query_text(request, "from"), query_text(request, "to")
    now = date.fromisoformat(today(parts))
    if begins is None and ends is None:
        count = query_int(request, "days", USUAL_DAYS, 1, MOST_DAYS)
        return Days(now - timedelta(days=count - 1), now)
    try:
        days = Days(date.fromisoformat(begins or ""), date.fromisoformat(ends or str(now)))
    except ValueError:
        raise Refused(400, "from, to: expected days as YYYY-MM-DD") from None
    if not 0 <= (days.last - days.first).days < MOST_DAYS:
        raise Refused(400, f"from, to: expected a range of 1 to {MOST_DAYS:,} days, the earlier day first")
    return days


# -- the page ----------------------------------------------------------------------------------------------------------


def _page(parts: ConsoleParts, days: Days, costs: CostSums) -> Json:
    people = [
        ({"person": id_text(person), "name": person_name(parts, person)}, spent)
        for person, spent in costs.people.items()
    ]
    return {
        "first": str(days.first),
        "last": str(days.last),
        "total": spent_json(costs.total),
        "imported_usd": costs.imported.cost_usd,
        "replays_usd": costs.replays.cost_usd,
        "days": [_day(day, costs) for day in days],
        "agents": _sorted([({"agent": agent}, spent) for agent, spent in costs.agents.items()]),
        "models": _sorted([({"model": model}, spent) for model, spent in costs.models.items()]),
        "channels": _sorted([({"channel": channel_json(parts, id_)}, spent) for id_, spent in costs.channels.items()]),
        "people": _sorted(people)[:MOST_PEOPLE],
        "more_people": max(0, len(people) - MOST_PEOPLE),
    }


def _sorted(sums: Iterable[tuple[Json, Spent]]) -> list[Json]:
    """The most expensive first."""
    return [key | spent_json(spent) for key, spent in sorted(sums, key=lambda pair: -pair[1].cost_usd)]


def _day(day: str, costs: CostSums) -> Json:
    agents = {agent: spent for (its_day, agent), spent in costs.days.items() if its_day == day}
    total = sum(agents.values(), Spent())
    return {"day": day, "agents": {agent: spent.cost_usd for agent, spent in agents.items()}, **spent_json(total)}


# -- CSV ---------------------------------------------------------------------------------------------------------------


def _csv(parts: ConsoleParts, table: str, costs: CostSums) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    heading, rows = _table(parts, table, costs)
    writer.writerow([*heading, *MEASURES])
    for keys, spent in rows:
        cost = f"{spent.cost_usd:.6f}"
        writer.writerow([*map(_harmless, keys), cost, *(getattr(spent, name) for name in MEASURES[1:])])
    return out.getvalue()


def _table(parts: ConsoleParts, table: str, costs: CostSums) -> tuple[list[str], list[tuple[Sequence[str], Spent]]]:
    """The names of the key columns, and the rows."""
    if table == "days":
        return ["day", "agent"], list(costs.days.items())
    if table == "channels":
        names = parts.live.names()
        return ["channel", "name"], [((str(id_), names.get(id_, "")), spent) for id_, spent in costs.channels.items()]
    if table == "people":
        return ["person"], [((str(id_ or ""),), spent) for id_, spent in costs.people.items()]
    sums = costs.agents if table == "agents" else costs.models
    return [table.removesuffix("s")], [((name,), spent) for name, spent in sums.items()]


def _harmless(cell: str) -> str:
    """A cell that a spreadsheet takes as a text."""
    return f"'{cell}" if cell.startswith(FORMULAS) else cell
