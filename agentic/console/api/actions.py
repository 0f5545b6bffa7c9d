"""The owner's actions from the console, and what owners and moderators did by the console or a command."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from datetime import datetime, time, timedelta

from aiohttp import web

from agentic.actions.base import Done, Request
from agentic.actions.conversations import Actions
from agentic.console.json_values import Json, cursor_text, id_text, person_name, query_cursor
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, read_body
from agentic.record.queries.posts import actions_page
from agentic.wire.connection import StateUnavailable
from agentic.wire.entries import ActionNote

MAX_CLICKS = 1_000  # that are remembered
PAGE = 50
LATE_SECONDS = 900.0  # a time that is later than this begins no conversation any more

_ID = re.compile(r"[0-9A-Za-z-]{8,64}", re.ASCII)

log = logging.getLogger(__name__)


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table, runner = web.RouteTableDef(), ActionRunner(parts)

    @table.post("/api/actions/{name}")
    async def run_action(request: web.Request) -> web.Response:
        """{"id": "…", …} → {"outcome", "text"}; the same id again gets the same answer."""
        done = await runner.act(request.match_info["name"], await read_body(request, Request))
        return web.json_response({"outcome": done.outcome, "text": done.text})

    @table.get("/api/actions")
    async def list_past_actions(request: web.Request) -> web.Response:
        page = await actions_page(await parts.store.open(), after=query_cursor(request, of_texts=True), count=PAGE)
        items = [_action_json(parts, note) for note in page.items]
        return web.json_response({"items": items, "next": cursor_text(page.next)})

    @table.get("/api/schedule")
    async def show_schedule(_: web.Request) -> web.Response:
        """List today's times, and yesterday's times that are still to come."""
        now = datetime.fromtimestamp(parts.clock(), parts.settings.timezone)
        midnight = datetime.combine(now.date(), time(), now.tzinfo).timestamp()
        dates = [(now.date() - timedelta(days=back)).isoformat() for back in (1, 0)]
        plans = [await parts.state.coordination.schedule.load_schedule(date) or [] for date in dates]
        slots = sorted((slot for plan in plans for slot in plan if slot.at >= midnight), key=lambda slot: slot.at)
        past = parts.clock() - LATE_SECONDS
        items = [{"at": slot.at, "done": slot.done or slot.at < past, "added": slot.added} for slot in slots]
        return web.json_response({"items": items})

    @table.get("/api/pause")
    async def show_pause(_: web.Request) -> web.Response:
        """Say whether all bots are paused."""
        return web.json_response({"paused": parts.silence.is_paused})

    return table


class ActionRunner:
    """Runs the action of each click once, and to its end even if the browser is gone: nothing is left half done."""

    def __init__(self, parts: ConsoleContext) -> None:
        self._parts, self._actions = parts, Actions(parts)
        self._known: OrderedDict[tuple[str, str], asyncio.Task[Done]] = OrderedDict()

    async def act(self, name: str, asked: Request) -> Done:
        """Raises Refused and StateUnavailable; after the latter the same click may be tried again."""
        if name not in self._actions.known:
            raise Refused(404, "there is no such action")
        if not _ID.fullmatch(asked.id):
            raise Refused(400, "id: expected 8 to 64 letters and digits, new for each click")
        click = (name, asked.id)
        if click not in self._known:
            self._known[click] = asyncio.create_task(self._act(name, asked), name=f"the console's {name}")
            for old in list(self._known)[:-MAX_CLICKS]:
                if self._known[old].done():
                    del self._known[old]
        try:
            return await asyncio.shield(self._known[click])
        except StateUnavailable:
            self._known.pop(click, None)
            raise

    async def _act(self, name: str, asked: Request) -> Done:
        try:
            done = await self._actions.known[name](asked)
        except Refused as refused:
            if refused.status != 400:  # a typing error is not recorded
                self._record(name, asked, Done("refused", "", refused.text))
            raise
        log.info("the console: %s: %s", name, done.text)
        self._record(name, asked, done)
        return done

    def _record(self, name: str, asked: Request, done: Done) -> None:
        channel = asked.channel or ""
        channel_id = int(channel) if channel.isdecimal() else None
        self._parts.note_action(name, channel_id, asked.agent, done.detail, done.outcome)


def _action_json(parts: ConsoleContext, note: ActionNote) -> Json:
    """Return an action; `by_name` is None if `by` is no person, or a person who has not written lately."""
    by_name = person_name(parts, int(note.by)) if note.by.isdecimal() else None
    return {**note.model_dump(), "by_name": by_name, "channel_id": id_text(note.channel_id)}
