"""The actions of an owner, and those that were.

POST /api/actions/{name}    {"id": "…", …} → {"outcome", "text"}; the same id again gets the same answer
GET  /api/actions?before=   what owners and moderators did, by the console or a command
GET  /api/pause             whether all bots are paused
GET  /api/schedule          today's times, and those of yesterday that are still to come
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime, time, timedelta

from aiohttp import web

from agentic.actions.base import Done, Request
from agentic.actions.conversations import Actions
from agentic.console.json_values import cursor_text, id_text, person_name, query_cursor
from agentic.console.parts import ConsoleParts
from agentic.console.requests import Refused, read_body
from agentic.record.queries.posts import actions_page
from agentic.wire.connection import RedisAway
from agentic.wire.entries import ActionNote

MOST_CLICKS = 1_000  # that are remembered
PAGE = 50
LATE_SECONDS = 900.0  # a time that is later than this begins no conversation any more

_ID = re.compile(r"[0-9A-Za-z-]{8,64}", re.ASCII)

log = logging.getLogger(__name__)


class Clicks:
    """Carry each click out once. A click goes on where its browser is gone, so that nothing is left half done."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts, self._actions = parts, Actions(parts)
        self._known: OrderedDict[tuple[str, str], asyncio.Task[Done]] = OrderedDict()

    async def act(self, name: str, asked: Request) -> Done:
        """Raises Refused and RedisAway; after the latter the same click may be tried again."""
        if name not in self._actions.known:
            raise Refused(404, "there is no such action")
        if not _ID.fullmatch(asked.id):
            raise Refused(400, "id: expected 8 to 64 letters and digits, new for each click")
        click = (name, asked.id)
        if click not in self._known:
            self._known[click] = asyncio.create_task(self._act(name, asked), name=f"the console's {name}")
            self._forget_old()
        try:
            return await asyncio.shield(self._known[click])
        except RedisAway:
            self._known.pop(click, None)
            raise

    async def _act(self, name: str, asked: Request) -> Done:
        try:
            done = await self._actions.known[name](asked)
        except Refused as refused:
            if refused.status != 400:  # not what was only mistyped
                self._note(name, asked, Done("refused", "", refused.text))
            raise
        log.info("the console: %s: %s", name, done.text)
        self._note(name, asked, done)
        return done

    def _note(self, name: str, asked: Request, done: Done) -> None:
        channel = asked.channel or ""
        self._parts.note_action(
            name,
            channel_id=int(channel) if channel.isdecimal() else None,
            agent=asked.agent,
            detail=done.detail,
            outcome=done.outcome,
        )

    def _forget_old(self) -> None:
        for click in list(self._known)[:-MOST_CLICKS]:
            if self._known[click].done():
                del self._known[click]


def action_routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    clicks = Clicks(parts)

    async def act(request: web.Request) -> web.Response:
        done = await clicks.act(request.match_info["name"], await read_body(request, Request))
        return web.json_response({"outcome": done.outcome, "text": done.text})

    async def past(request: web.Request) -> web.Response:
        page = await actions_page(await parts.store.open(), after=query_cursor(request, of_texts=True), count=PAGE)
        items = [_action_json(parts, note) for note in page.items]
        return web.json_response({"items": items, "next": cursor_text(page.next)})

    async def schedule(_: web.Request) -> web.Response:
        now = datetime.fromtimestamp(parts.clock(), parts.settings.timezone)
        midnight = datetime.combine(now.date(), time(), now.tzinfo).timestamp()
        dates = [(now.date() - timedelta(days=back)).isoformat() for back in (1, 0)]
        plans = [await parts.ledger.schedule.load_schedule(date) or [] for date in dates]
        slots = sorted((slot for plan in plans for slot in plan if slot.at >= midnight), key=lambda slot: slot.at)
        past = parts.clock() - LATE_SECONDS
        items = [{"at": slot.at, "done": slot.done or slot.at < past, "added": slot.added} for slot in slots]
        return web.json_response({"items": items})

    async def pause(_: web.Request) -> web.Response:
        return web.json_response({"paused": parts.stops.paused})

    return [
        web.post("/api/actions/{name}", act),
        web.get("/api/actions", past),
        web.get("/api/schedule", schedule),
        web.get("/api/pause", pause),
    ]


def _action_json(parts: ConsoleParts, note: ActionNote) -> dict[str, object]:
    """`by_name` is None where `by` is no person, or one who has not written lately."""
    by_name = person_name(parts, int(note.by)) if note.by.isdecimal() else None
    return {**note.model_dump(), "by_name": by_name, "channel_id": id_text(note.channel_id)}
