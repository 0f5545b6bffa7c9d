"""Today's budgets: what is spent and reserved, of which limit, and what the day will come to.

GET /api/budgets
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from aiohttp import web

from agentic.console.json_values import Json, channel_json, person_name, today
from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused
from agentic.record.queries.forecast import read_forecast
from agentic.state.budget_use import BudgetUse

MOST_PEOPLE = 10


def routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def budgets(_: web.Request) -> web.Response:
        scopes = [
            "all",
            *(f"agent:{agent}" for agent in parts.names),
            *(f"channel:{id_}" for id_ in parts.settings.channels),
        ]
        uses = await parts.ledger.budgets.uses(today(parts), scopes)
        forecast = await _forecast(parts, uses["all"].spent)
        return web.json_response({"day": today(parts), "forecast": forecast, **_by_kind(parts, uses)})

    return [web.get("/api/budgets", budgets)]


def _by_kind(parts: ConsoleParts, uses: Mapping[str, BudgetUse]) -> Json:
    """Channels only where they have a limit or cost something, work while nobody writes where it was done; of the
    people, those who caused the most."""
    found: dict[str, list[Json]] = {"all": [], "agent": [], "channel": [], "person": [], "idle": []}
    for use in uses.values():
        kind, _, key = use.scope.partition(":")
        found[kind].append(_use_json(parts, kind, key, use))
    found["channel"] = [use for use in found["channel"] if use["cap"] is not None or use["spent"] + use["reserved"] > 0]
    found["person"] = sorted(found["person"], key=lambda use: -use["spent"])[:MOST_PEOPLE]
    return {
        "all": found["all"][0],
        "agents": found["agent"],
        "channels": found["channel"],
        "people": found["person"],
        "idle": found["idle"],
    }


def _use_json(parts: ConsoleParts, kind: str, key: str, use: BudgetUse) -> Json:
    return {
        "kind": kind,
        "id": key,
        "name": _name(parts, kind, key),
        "spent": use.spent,
        "reserved": use.reserved,
        "cap": use.cap,
        "raised": use.raised,
    }


def _name(parts: ConsoleParts, kind: str, key: str) -> str:
    if kind == "channel":
        return f"#{channel_json(parts, int(key))['name'] or key}"
    if kind == "person":
        return person_name(parts, int(key)) or f"Person {key}"
    if kind == "idle":
        return "While nobody writes"
    return "All bots" if kind == "all" else parts.names.get(key, key)


async def _forecast(parts: ConsoleParts, spent: float) -> Json | None:
    """The day's cost by its end; None where nothing is recorded. The rest of the day is added to what the budgets have
    as `spent`, since the newest turns may not have reached the record."""
    with suppress(Refused):
        record = await parts.store.open()
        forecast = await read_forecast(record, parts.clock(), parts.settings.timezone)
        usd = None if forecast.usd is None else forecast.usd - forecast.spent_usd + spent
        return {"usd": usd, "by": forecast.by, "days": forecast.days}
    return None
