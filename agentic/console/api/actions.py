"""The owner's actions from the console, and past actions of owners and moderators."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, time, timedelta
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from agentic.actions.base import OWNER, ActionRequest, Outcome
from agentic.actions.conversations import format_time
from agentic.actions.registry import TABLE
from agentic.actions.texts import TEXTS, Style
from agentic.console.json_values import (
    Json,
    add_names,
    channel_json,
    conversation_json,
    cursor_text,
    person_name,
    query_cursor,
)
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, read_body
from agentic.ids import id_at
from agentic.record.queries.posts import actions_page, conversations_page
from agentic.state.silence import SilenceOrder
from agentic.wire.entries import ActionNote

MAX_CLICKS = 1_000  # remembered
PAGE = 50
MAX_TALKS = 100  # conversations of a day
LATE_SECONDS = 900.0  # after a scheduled time, until it starts no conversation anymore
STATUS = {
    **dict.fromkeys(
        ("bad_value", "missing_value", "unknown_option", "unknown_value", "unknown_scope", "unknown_order"), 400
    ),
    **dict.fromkeys(("unknown_action", "unknown_channel", "unknown_agent", "no_room"), 404),
    **dict.fromkeys(("nobody", "redis_unavailable"), 503),
}
"""The HTTP status of refusals. All others are 409."""
WHAT = {
    "replay": "Replay a turn",  # not in the table: a page's own button
    "go_on": "Let all bots speak again after a pause",  # the earlier name of "resume_all"
    **{action.record: action.about for action in reversed(TABLE) if action.about},
    "arena": "Start an arena",
    "stop": "Stop the bots",
    "resume": "Resume the bots",
}
"""The history's actions in words for people."""


class Click(BaseModel):
    """The body of an action: the click's id, and the values. The same click twice is one action."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: str


class ConsoleStyle(Style):
    """Shows channels and people by name, times in the owner's time zone, and actions by their buttons."""

    texts: Mapping[str, str] = {
        **TEXTS,
        "opening_opened": "The room is open: “{topic}”",
        "opening_just_opened": "This room was just opened: “{topic}”",
    }  # a new thread has no name here

    def __init__(self, parts: ConsoleContext) -> None:
        self._parts, self._buttons = parts, {name: one.button for name, one in parts.actions.on("console").items()}

    def action(self, name: str) -> str:
        return f"“{self._buttons[name]}”" if self._buttons.get(name) else f"/{name} in Discord"

    def channel(self, channel_id: int) -> str:
        return f"#{self._parts.live.names().get(channel_id, channel_id)}"

    def person(self, user_id: int) -> str:
        return self._parts.live.people().get(user_id, "a person")

    def time(self, at: int, mark: str) -> str:
        return format_time(self._parts.actions.context, at)


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table, style = web.RouteTableDef(), ConsoleStyle(parts)
    names = {action.record: name for name, action in parts.actions.on("console").items() if name == action.name}
    clicks: OrderedDict[tuple[str, str], asyncio.Task[Outcome]] = OrderedDict()

    async def perform(name: str, click: Click) -> Outcome:
        """Perform a click's action once, and to its end even if the browser is gone, so that nothing is left half done.
        If Redis is unavailable, the same click may be tried again."""
        key = (name, click.id)
        if key not in clicks:
            values = {option: value for option, value in (click.model_extra or {}).items() if value is not None}
            now, source = id_at(parts.clock()), f"click-{click.id}"
            request = ActionRequest(
                id=now, name=name, who=OWNER, surface="console", place=None, values=values, source=source
            )
            clicks[key] = asyncio.create_task(parts.actions.perform(request), name=f"the console's {name}")
            for old in [one for one in list(clicks)[:-MAX_CLICKS] if clicks[one].done()]:
                del clicks[old]
        outcome = await asyncio.shield(clicks[key])
        if outcome.code == "redis_unavailable":
            clicks.pop(key, None)
        return outcome

    @table.post("/api/actions/{name}")
    async def run_action(request: web.Request) -> web.Response:
        """{"id": "…", …} → {"outcome", "text"}; the same id again gets the same answer. A new room has its `thread`."""
        name, click = names.get(request.match_info["name"]), await read_body(request, Click)
        if name is None:
            raise Refused(404, "This action doesn't exist.")
        if not re.fullmatch(r"[0-9A-Za-z-]{8,64}", click.id, re.ASCII):
            raise Refused(400, "id: expected 8 to 64 letters and digits, new for each click")
        outcome = await perform(name, click)
        text = style.text_of(outcome)
        if not outcome.ok:
            raise Refused(STATUS.get(outcome.code, 409), text, field=outcome.fields.get("option"))
        thread = outcome.fields.get("thread")
        return web.json_response({"outcome": outcome.code, "text": text, "thread": thread and str(thread)})

    @table.get("/api/actions")
    async def list_past_actions(request: web.Request) -> web.Response:
        page = await actions_page(await parts.store.open(), after=query_cursor(request, of_texts=True), count=PAGE)
        items = [_action_json(parts, note) for note in page.items]
        await add_names(parts, items)
        return web.json_response({"items": items, "next": cursor_text(page.next)})

    @table.get("/api/schedule")
    async def show_schedule(_: web.Request) -> web.Response:
        """List today's times, and yesterday's times that are still to come, with the conversations that began today."""
        now = datetime.fromtimestamp(parts.clock(), parts.settings.timezone)
        midnight = datetime.combine(now.date(), time(), now.tzinfo)
        dates = [(now.date() - timedelta(days=back)).isoformat() for back in (1, 0)]
        plans = [await parts.state.coordination.schedule.load_schedule(date) or [] for date in dates]
        begin, end = midnight.timestamp(), (midnight + timedelta(days=1)).timestamp()
        slots = sorted((slot for plan in plans for slot in plan if slot.at >= begin), key=lambda slot: slot.at)
        past = parts.clock() - LATE_SECONDS
        items = [{**asdict(slot), "done": slot.done or slot.at < past} for slot in slots]
        until = max(end, *(slot.part[1] for slot in slots if slot.part), *(slot.at for slot in slots), 0.0)
        talks: list[Json] = []
        with suppress(Refused):  # no history
            newest = (await conversations_page(await parts.store.open(), count=MAX_TALKS)).items
            talks = [conversation_json(parts, talk) for talk in newest if talk.started_at >= begin]
            await add_names(parts, talks)
        return web.json_response({"items": items, "from": begin, "until": until, "conversations": talks})

    @table.get("/api/pause")
    async def show_pause(_: web.Request) -> web.Response:
        """Say whether all bots are paused."""
        return web.json_response({"paused": parts.silence.is_paused})

    @table.get("/api/orders")
    async def list_orders(_: web.Request) -> web.Response:
        """List the stops, mutes, and ignored people, everywhere and in each server."""
        servers = {channel.guild_id: channel.guild for channel in parts.live.channels()}
        orders = sorted(parts.silence.active(), key=lambda order: str(order.scope))
        return web.json_response({"items": [_order_json(parts, order, servers) for order in orders]})

    return table


def _order_json(parts: ConsoleContext, order: SilenceOrder, servers: Mapping[int | None, str]) -> Json:
    """Return an order with its subject's key and name, and its server, which is None if it applies everywhere."""
    scope, live = order.scope, parts.live
    names: dict[str, Mapping[Any, str]] = {"agent": parts.names, "channel": live.names(), "person": live.people()}
    server = None if scope.guild is None else servers.get(scope.guild) or f"server {scope.guild}"
    about = {"kind": scope.kind, "subject": str(scope.subject), "name": names.get(scope.kind, {}).get(scope.subject)}
    return {"order": str(scope), **about, "server": server, "until": order.until}


def _action_json(parts: ConsoleContext, note: ActionNote) -> Json:
    """Return an action. `name` is None if `by`, who did it, isn't a `person`, or isn't known by name."""
    person = note.by if note.by.isdecimal() else None
    return {
        **note.model_dump(exclude={"channel_id"}),
        "what": WHAT.get(note.action, note.action.replace("_", " ")),
        "person": person,
        "name": person_name(parts, int(person)) if person else None,
        "channel": None if note.channel_id is None else channel_json(parts, note.channel_id),
    }
