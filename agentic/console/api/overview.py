"""Shows a server's state at a glance: whether everything is well, the bots' last turns, costs, and recent failures."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from datetime import date, timedelta

from aiohttp import web

from agentic.console.api.agents import read_recorder, read_states
from agentic.console.api.costs import read_budgets
from agentic.console.json_values import Json, add_names, conversation_json, exact, reason_text, today, turn_json
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused
from agentic.record.queries.posts import last_conversation
from agentic.record.queries.statistics import count_failures, last_turns, outcomes_by_agent, read_costs
from agentic.record.queries.turns import newest_failures

BEATS = 90  # turns of each bot
COST_DAYS = 14
FAILURE_SECONDS = 86400.0
MAX_FAILURES = 6  # listed; all are counted


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/overview")
    async def show_overview(_: web.Request) -> web.Response:
        """Show the bots, and the personas that took a turn lately, with their last turns, and today's budgets.
        `coordinator`: whether one runs, None if unknown. `history` is None if there is none."""
        names = tuple(parts.names)
        bots, coordinator, recorder, budgets = await asyncio.gather(
            read_states(parts, names),
            parts.state.coordination.presence.coordinates(),
            read_recorder(parts),
            read_budgets(parts),
        )
        history = await _read_history(parts, names)
        beats = history.pop("beats") if history is not None else {}
        shown = [{**bot, "beats": beats.get(bot["agent"], [])} for bot in bots]
        response = web.json_response(
            {
                "bots": [bot for bot in shown if not bot["persona"] or bot["beats"]],
                "coordinator": coordinator,
                "recorder": recorder,
                "history": history,
                "budgets": budgets,
            }
        )
        response.enable_compression()  # a page asks again and again, and the strips repeat themselves
        return response

    return table


async def _read_history(parts: ConsoleContext, names: tuple[str, ...]) -> Json | None:
    with suppress(Refused):
        db, now, last = await parts.store.open(), parts.clock(), date.fromisoformat(today(parts))
        days = [str(last - timedelta(days=back)) for back in reversed(range(COST_DAYS))]
        costs = await read_costs(db, days[0], days[-1])
        spent = {day: sum(each.cost_usd for (its, _), each in costs.days.items() if its == day) for day in days}
        since = now - FAILURE_SECONDS
        failures = [turn_json(parts, turn) for turn in await newest_failures(db, since, MAX_FAILURES)]
        beats, talk = await last_turns(db, names, BEATS), await last_conversation(db)
        last_talk = talk and conversation_json(parts, talk)
        await add_names(parts, [*failures, *([last_talk] if last_talk else [])])
        return {
            "beats": {
                agent: [{**exact(asdict(turn)), "reason_text": reason_text(turn.reason)} for turn in turns]
                for agent, turns in beats.items()
            },
            "days": [{"day": day, "cost_usd": spent[day]} for day in days],
            "today": await outcomes_by_agent(db, days[-1], days[-1]),
            "failed": await count_failures(db, since),
            "last_talk": last_talk,
            "failures": failures,
        }
    return None
