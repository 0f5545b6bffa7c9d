"""Shows turns: a list with filters, a turn with everything the history has about it, and posted pictures."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from aiohttp import web

from agentic.console.json_values import (
    Json,
    channel_json,
    conversation_json,
    cursor_text,
    exact,
    message_link,
    pick,
    post_json,
    query_cursor,
    today,
    turn_json,
)
from agentic.console.parts import PICTURE_TYPES, ConsoleContext
from agentic.console.requests import Refused, query_id, query_int, query_text, snowflake
from agentic.record.queries.posts import picture_of
from agentic.record.queries.statistics import read_costs
from agentic.record.queries.turns import Call, Turn, TurnFilter, WholeTurn, turns_page, whole_turn

PAGE = 50
CHOICE_DAYS = 30
MAX_QUOTE = 300  # characters of the message that a turn answers
ARRIVAL_SECONDS = 30.0  # within which a turn's prompts reach the file
DAY = 86400.0
REMOVED: Mapping[str, str] = {
    "forgotten": "Removed: a person quoted in this prompt had their messages deleted (/forget me).",
    "deleted": "Removed: a message quoted in this prompt was deleted in Discord.",
    "unreadable": "This prompt can't be read: the file is damaged, or another version of the program wrote it.",
}


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/turns")
    async def list_turns(request: web.Request) -> web.Response:
        wanted = TurnFilter(
            agent=query_text(request, "agent"),
            channel_id=query_id(request, "channel"),
            outcome=query_text(request, "outcome"),
            model=query_text(request, "model"),
            asked_by=query_id(request, "person"),
            conversation_id=query_text(request, "conversation"),
            text=query_text(request, "words") or "",
        )
        count = query_int(request, "count", PAGE, 1, 200)
        page = await turns_page(await parts.store.open(), wanted, after=query_cursor(request), count=count)
        items = [turn_json(parts, turn) for turn in page.items]
        return web.json_response({"items": items, "next": cursor_text(page.next)})

    @table.get("/api/turns/choices")
    async def list_filter_choices(_: web.Request) -> web.Response:
        last = datetime.fromisoformat(today(parts)).date()
        costs = await read_costs(await parts.store.open(), str(last - timedelta(days=CHOICE_DAYS)), str(last))
        channels = [channel_json(parts, channel) for channel in sorted(costs.channels)]
        return web.json_response({"channels": channels, "models": sorted(costs.models)})

    @table.get("/api/turns/{agent}/{id}")
    async def show_turn(request: web.Request) -> web.Response:
        return web.json_response(_whole_turn_json(parts, await find_turn(parts, request)))

    @table.get("/api/pictures/{message}")
    async def show_picture(request: web.Request) -> web.Response:
        found = await picture_of(await parts.store.open(), snowflake(request.match_info["message"]))
        if found is None or found.media_type not in PICTURE_TYPES:
            raise Refused(404, "This picture isn't in the history.")
        headers = {"Cache-Control": "private, max-age=3600"}
        return web.Response(body=found.data, content_type=found.media_type, headers=headers)

    return table


async def find_turn(parts: ConsoleContext, request: web.Request) -> WholeTurn:
    """Read the turn in a request's path. Raises Refused."""
    found = await whole_turn(await parts.store.open(), request.match_info["agent"], request.match_info["id"])
    if found is None:
        raise Refused(404, "This turn isn't in the history. It may be too old, or not written yet.")
    return found


def _whole_turn_json(parts: ConsoleContext, whole: WholeTurn) -> Json:
    turn = whole.turn
    return {
        **turn_json(parts, turn),
        "phases": turn.phases.model_dump(),
        "asked_link": _link(parts, turn, turn.asked_message_id),
        "asked_text": _text(parts, turn, turn.asked_message_id),
        "reacted_link": _link(parts, turn, turn.reacted.message_id if turn.reacted else None),
        "reacted_text": _text(parts, turn, turn.reacted.message_id if turn.reacted else None),
        "conversation": conversation_json(parts, whole.conversation) if whole.conversation else None,
        "skipped": [turn_json(parts, each) for each in whole.skipped],
        "calls": [_call_json(parts, call, turn.at) for call in whole.calls],
        "tools": [tool.model_dump() for tool in whole.tool_calls],
        "searches": [search.model_dump(include={"n", "query", "pages"}) for search in whole.searches],
        "posts": [post_json(parts, post, turn.guild_id) for post in whole.posts],
    }


def _link(parts: ConsoleContext, turn: Turn, message_id: int | None) -> str | None:
    """Return a message's URL in Discord. Local mode's messages have none."""
    return None if parts.is_local or not message_id else message_link(turn.guild_id, turn.channel_id, message_id)


def _text(parts: ConsoleContext, turn: Turn, message_id: int | None) -> str | None:
    """Return a message's text if the Live page still has it: the history has no people's messages."""
    message = parts.live.message(turn.channel_id, message_id) if message_id else None
    return message.text[:MAX_QUOTE] if message is not None else None


def _call_json(parts: ConsoleContext, call: Call, at: float) -> Json:
    """Return a call with its prompt. `stable` is the number of characters of `system` that a provider caches."""
    words = call.words and {
        **pick(call.words, "system stable text prefill completion stop"),
        "history": [message.model_dump() for message in call.words.history],
        "options": exact(call.words.options),
        "tool_calls": exact(call.words.tool_calls),
        "decision": exact(call.words.decision),
    }
    return {**call.record.model_dump(), "words": words, "no_words": None if words else why_no_words(parts, call, at)}


def why_no_words(parts: ConsoleContext, call: Call, at: float) -> str:
    """Tell the owner in a line why a call's prompt is missing. Its turn ended `at` (unix seconds)."""
    days, age = parts.settings.record_prompts_days, parts.clock() - at
    if call.record.kind == "picture":
        return "The description of the picture is in the decision of the call before it."
    if call.removed is not None:
        return REMOVED.get(call.removed, f"Removed: {call.removed}.")
    if days == 0:
        return "Not recorded: RECORD_PROMPTS_DAYS is 0."
    if days is not None and age > days * DAY:
        return f"Removed after {days} days (RECORD_PROMPTS_DAYS)."
    if age < ARRIVAL_SECONDS:
        return "Not here yet. Prompts reach the history within seconds. Reload in a moment."
    return "Not recorded: prompts weren't recorded then, or this one was lost (see Agents, The history)."
