"""Shows costs (sums over a range of days, as JSON and CSV), today's budgets, and the results of contests.

A range is `?days=30`, or `?from=2026-11-01&to=2026-11-22` with both days included, in the owner's time zone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date, timedelta

from aiohttp import web

from agentic.console.json_values import (
    Json,
    add_names,
    channel_json,
    id_text,
    person_name,
    pick,
    spent_json,
    today,
    turn_json,
)
from agentic.console.parts import ConsoleContext
from agentic.console.requests import MAX_DAYS, Refused, file_response, query_choice, query_days, query_int, query_text
from agentic.record.queries.posts import contests_of_agent
from agentic.record.queries.statistics import CostSums, Spent, forecast_month, read_costs, read_forecast, season
from agentic.record.queries.turns import costliest_turns
from agentic.state.budgets import MEMBERS, BudgetUse

DEFAULT_DAYS = 30
MAX_BUDGET_PEOPLE = 10
MAX_CONTESTS = 200  # of an agent
MAX_COST_PEOPLE = 100  # in a table on the page; the CSV has all
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet's formula may begin
TABLES = ("days", "agents", "models", "channels", "people")
MEASURES = ("cost_usd", "turns", "input_tokens", "cached_tokens", "output_tokens")


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/costs")
    async def show_costs(request: web.Request) -> web.Response:
        first, last = _query_days(parts, request)
        db = await parts.store.open()
        page = _costs_json(parts, first, last, await read_costs(db, str(first), str(last)))
        costliest = [turn_json(parts, turn) for turn in await costliest_turns(db, str(first), str(last))]
        await add_names(parts, [*costliest, *page["channels"], *page["people"]])
        return web.json_response({**page, "costliest": costliest})

    @table.get("/api/costs/csv")
    async def export_table(request: web.Request) -> web.Response:
        (first, last), name = _query_days(parts, request), query_choice(request, "table", TABLES)
        costs = await read_costs(await parts.store.open(), str(first), str(last))
        return file_response(_csv(parts, name, costs), "text/csv", f"cost-{name}-{first}-{last}.csv")

    @table.get("/api/budgets")
    async def show_budgets(_: web.Request) -> web.Response:
        return web.json_response(await read_budgets(parts))

    @table.get("/api/arena")
    async def show_season(request: web.Request) -> web.Response:
        """Show how agents did in contests with votes. A share comes with its count and its 95% interval."""
        kind = query_text(request, "kind")
        if kind not in (None, "arena", "room"):
            raise Refused(400, "kind: expected one of arena, room")
        standings = await season(await parts.store.open(), kind)
        return web.json_response({"items": [asdict(each) for each in standings], "next": None})

    @table.get("/api/arena/{agent}")
    async def show_contests_of_agent(request: web.Request) -> web.Response:
        """Show an agent's standings, one for each of its models, and its newest contests with all contenders."""
        db, agent = await parts.store.open(), request.match_info["agent"]
        contests: list[Json] = [
            {
                **pick(each, "id kind at question"),
                "channel": channel_json(parts, each.channel_id),
                "contenders": [contender.model_dump() for contender in each.contenders],
            }
            for each in await contests_of_agent(db, agent, MAX_CONTESTS)
        ]
        await add_names(parts, contests)
        standings = [asdict(each) for each in await season(db) if each.agent == agent]
        return web.json_response({"standings": standings, "contests": contests})

    return table


def _query_days(parts: ConsoleContext, request: web.Request) -> tuple[date, date]:
    """Read the first and the last day of the query. Raises Refused."""
    now = date.fromisoformat(today(parts))
    if (days := query_days(request, now)) is not None:
        return days
    count = query_int(request, "days", DEFAULT_DAYS, 1, MAX_DAYS)
    return now - timedelta(days=count - 1), now


# -- budgets -----------------------------------------------------------------------------------------------------------


async def read_budgets(parts: ConsoleContext) -> Json:
    """Return today's spending and reservations with their limits, and forecasts of the day and the month."""
    agents, channels = parts.names, parts.settings.channels
    scopes = ["all", *(f"agent:{agent}" for agent in agents), *(f"channel:{id_}" for id_ in channels)]
    uses = await parts.state.limits.budgets.uses(today(parts), scopes)
    return {"day": today(parts), **await _forecasts(parts, uses["all"].spent), **await _by_kind(parts, uses)}


async def _by_kind(parts: ConsoleContext, uses: Mapping[str, BudgetUse]) -> Json:
    """Group the uses by kind: channels with a limit or costs, and the people who caused the highest costs."""
    found: dict[str, list[Json]] = {"all": [], "agent": [], "channel": [], "person": [], "idle": []}
    titles = {"all": "All bots", "idle": "Background tasks"}
    for each in uses.values():
        kind, _, key = each.scope.partition(":")
        item = {"kind": kind, "id": key, "name": titles.get(kind) or parts.names.get(key, key)}
        found[kind].append({**item, **pick(each, "spent reserved cap raised")})
    channels = [use for use in found["channel"] if use["cap"] is not None or use["spent"] + use["reserved"] > 0]
    people = sorted(found["person"], key=lambda use: -use["spent"])[:MAX_BUDGET_PEOPLE]
    for use in channels:
        use["channel"] = channel_json(parts, int(use["id"]))
    for use in people:
        use |= {"person": use["id"], "name": person_name(parts, int(use["id"]))}
    await add_names(parts, [*channels, *people])
    for use in channels:
        use["name"] = use["channel"].get("room") or f"#{use['channel']['name'] or use['id']}"
    for use in people:
        use["name"] = "Proposed debates" if use["id"] == str(MEMBERS) else use["name"] or f"Person {use['id']}"
    shown = {"agents": found["agent"], "channels": channels, "people": people, "idle": found["idle"]}
    return {"all": found["all"][0], **shown}


async def _forecasts(parts: ConsoleContext, spent: float) -> Json:
    """Forecast the costs of the day and of the month; None if nothing is recorded. The rest of the day is added to the
    budgets' `spent`, because the newest turns may not have reached the history."""
    with suppress(Refused):
        record = await parts.store.open()
        day = await read_forecast(record, parts.clock(), parts.settings.timezone)
        usd = None if day.usd is None else day.usd - day.spent_usd + spent
        now = date.fromisoformat(today(parts))
        month = await forecast_month(record, now, spent, spent if usd is None else usd)
        return {"forecast": {"usd": usd, **pick(day, "by days")}, "month": asdict(month)}
    return {"forecast": None, "month": None}


# -- costs -------------------------------------------------------------------------------------------------------------


def _costs_json(parts: ConsoleContext, first: date, last: date, costs: CostSums) -> Json:
    people = [
        ({"person": id_text(person), "name": person_name(parts, person)}, spent)
        for person, spent in costs.people.items()
    ]
    return {
        "first": str(first),
        "last": str(last),
        "total": spent_json(costs.total),
        "imported_usd": costs.imported.cost_usd,
        "replays_usd": costs.replays.cost_usd,
        "days": [_day_json(str(first + timedelta(days=n)), costs) for n in range((last - first).days + 1)],
        "agents": _sort_by_cost([({"agent": agent}, spent) for agent, spent in costs.agents.items()]),
        "models": _sort_by_cost([({"model": model}, spent) for model, spent in costs.models.items()]),
        "channels": _sort_by_cost(
            [({"channel": channel_json(parts, id_)}, spent) for id_, spent in costs.channels.items()]
        ),
        "people": _sort_by_cost(people)[:MAX_COST_PEOPLE],
        "more_people": max(0, len(people) - MAX_COST_PEOPLE),
    }


def _sort_by_cost(sums: Iterable[tuple[Json, Spent]]) -> list[Json]:
    return [key | spent_json(spent) for key, spent in sorted(sums, key=lambda pair: -pair[1].cost_usd)]


def _day_json(day: str, costs: CostSums) -> Json:
    agents = {agent: spent for (its_day, agent), spent in costs.days.items() if its_day == day}
    total = sum(agents.values(), Spent())
    return {"day": day, "agents": {agent: spent.cost_usd for agent, spent in agents.items()}, **spent_json(total)}


def _csv(parts: ConsoleContext, table: str, costs: CostSums) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    heading, rows = _table(parts, table, costs)
    writer.writerow([*heading, *MEASURES])
    for keys, spent in rows:
        cost = f"{spent.cost_usd:.6f}"
        harmless = (f"'{key}" if key.startswith(FORMULAS) else key for key in keys)  # as text in a spreadsheet
        writer.writerow([*harmless, cost, *(getattr(spent, name) for name in MEASURES[1:])])
    return out.getvalue()


def _table(parts: ConsoleContext, table: str, costs: CostSums) -> tuple[list[str], list[tuple[Sequence[str], Spent]]]:
    """Return the names of the key columns, and the rows."""
    if table == "days":
        return ["day", "agent"], list(costs.days.items())
    if table == "channels":
        names = parts.live.names()
        return ["channel", "name"], [((str(id_), names.get(id_, "")), spent) for id_, spent in costs.channels.items()]
    if table == "people":
        return ["person"], [((str(id_ or ""),), spent) for id_, spent in costs.people.items()]
    sums = costs.agents if table == "agents" else costs.models
    return [table.removesuffix("s")], [((name,), spent) for name, spent in sums.items()]
