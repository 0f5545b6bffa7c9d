"""Shows who can speak in a channel, and an agent in short: the Live page's third column, and its cards."""

from __future__ import annotations

import asyncio
import textwrap
from contextlib import suppress
from datetime import datetime, time

from aiohttp import web

from agentic.console.api.agents import query_agent, read_states
from agentic.console.json_values import Json, pick, today
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, snowflake
from agentic.personas.files import read_persona
from agentic.personas.identity import body_of
from agentic.record.queries.statistics import outcomes_by_agent, reactions_received

MAX_ABOUT = 280  # characters of a persona
MAX_REACTIONS = 8  # kinds


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/live/channels/{channel}/members")
    async def list_members(request: web.Request) -> web.Response:
        """Show a room's members, or the bots, with what the channel cost today and its budget."""
        channel_id = snowflake(request.match_info["channel"])
        room = await parts.state.coordination.rooms.read(channel_id)
        names = [name for name in (parts.names if room is None else room.names) if name in parts.names]
        scope = f"channel:{channel_id}"
        states, uses = await asyncio.gather(
            read_states(parts, names), parts.state.limits.budgets.uses(today(parts), [scope])
        )
        members = [state for state in states if room is not None or not state["persona"]]
        return web.json_response({"items": members, "today": pick(uses[scope], "spent reserved cap")})

    @table.get("/api/agents/{name}/card")
    async def show_card(request: web.Request) -> web.Response:
        """Show an agent's persona in a few lines, its model, and its day: its turns, and the reactions to its posts."""
        name = query_agent(parts, request)
        (state,) = await read_states(parts, [name])
        entry = parts.actions.context.services.agents.roster.of(name)
        about = await asyncio.to_thread(_read_about, parts, name)
        return web.json_response(
            {
                **state,
                "about": about,
                "interests": list(entry.member.interests) if entry is not None else [],
                **await _read_day(parts, name),
            }
        )

    return table


def _read_about(parts: ConsoleContext, agent: str) -> str:
    """Return the beginning of a persona's text: its first paragraph."""
    files = read_persona(parts.settings.persona_folder(agent))
    for text in (files.soul, body_of(files.identity or "")):
        paragraphs = (part for part in (text or "").strip().split("\n\n") if not part.startswith("#"))
        if first := next(paragraphs, "").strip():
            return textwrap.shorten(first, MAX_ABOUT, placeholder="…")
    settings = parts.settings.agents.get(agent)
    usual = settings.personality or settings.spec.personality if settings is not None else ""
    return textwrap.shorten(usual, MAX_ABOUT, placeholder="…")


async def _read_day(parts: ConsoleContext, agent: str) -> Json:
    day = today(parts)
    midnight = datetime.combine(datetime.fromisoformat(day), time(), parts.settings.timezone).timestamp()
    with suppress(Refused):  # nothing is recorded
        db = await parts.store.open()
        outcomes = (await outcomes_by_agent(db, day, day)).get(agent, {})
        given = [(emoji, count) for who, emoji, count in await reactions_received(db, midnight) if who == agent]
        reactions = [{"emoji": emoji, "count": count} for emoji, count in given[:MAX_REACTIONS]]
        return {"outcomes": outcomes, "reactions": reactions}
    return {"outcomes": {}, "reactions": []}
