"""Shows turns: a list with filters, one turn with everything about it, changes of its prompt, and posted pictures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, time, timedelta

from aiohttp import web

from agentic.console.json_values import (
    Json,
    add_names,
    channel_json,
    conversation_json,
    cursor_text,
    diff_json,
    exact,
    message_link,
    message_text,
    person_name,
    pick,
    post_json,
    query_cursor,
    today,
    turn_json,
)
from agentic.console.parts import PICTURE_TYPES, ConsoleContext
from agentic.console.requests import Refused, query_choice, query_days, query_id, query_int, query_text, snowflake
from agentic.record.queries.posts import conversations_page, picture_of
from agentic.record.queries.statistics import read_costs
from agentic.record.queries.turns import (
    ORDERS,
    SEARCHED,
    Call,
    Order,
    Turn,
    TurnFilter,
    WholeTurn,
    calls_of_turn,
    neighbors,
    turns_over_time,
    turns_page,
    whole_turn,
)
from agentic.wire.entries import CallWords

PAGE = 50
CHOICE_DAYS = 30
CHOICES = 50  # people and conversations that the filters offer
BARS = 60  # parts of a time range
COMPARED = 20  # earlier turns whose prompts the page offers to compare
MAX_HOURS = 24 * 3_660
MAX_QUOTE = 300  # characters of the message that a turn answers
ARRIVAL_SECONDS = 30.0  # within which a turn's prompts reach the file
DAY = 86400.0
SIDE_CALLS = ("arena", "judge", "card", "ledger")  # kinds of turns without a prompt in the history
REMOVED: Mapping[str, str] = {
    "forgotten": "Removed: a person quoted in this prompt had their messages deleted (/forget me).",
    "deleted": "Removed: a message quoted in this prompt was deleted in Discord.",
    "unreadable": "This prompt can't be read: the file is damaged, or another version of the program wrote it.",
}


def routes(parts: ConsoleContext) -> web.RouteTableDef:
    table = web.RouteTableDef()

    @table.get("/api/turns")
    async def list_turns(request: web.Request) -> web.Response:
        wanted, order, count = _filter(parts, request), _order(request), query_int(request, "count", PAGE, 1, 200)
        page = await turns_page(await parts.store.open(), wanted, order=order, after=query_cursor(request), count=count)
        items = [turn_json(parts, turn) for turn in page.items]
        await add_names(parts, items)
        return web.json_response({"items": items, "next": cursor_text(page.next)})

    @table.get("/api/turns/over-time")
    async def show_turns_over_time(request: web.Request) -> web.Response:
        """Count the turns of a filter, without its search for text, in equal `parts` of its time range."""
        wanted, count = _filter(parts, request), query_int(request, "parts", BARS, 1, 200)
        found = await turns_over_time(await parts.store.open(), wanted, parts.clock(), count)
        return web.json_response({"items": [asdict(each) for each in found], "until": wanted.until or parts.clock()})

    @table.get("/api/turns/choices")
    async def list_filter_choices(_: web.Request) -> web.Response:
        """List what the filters offer: the channels, models, people, and conversations of the last days, by name."""
        db, last = await parts.store.open(), datetime.fromisoformat(today(parts)).date()
        costs = await read_costs(db, str(last - timedelta(days=CHOICE_DAYS)), str(last))
        channels = [{"channel": channel_json(parts, channel)} for channel in sorted(costs.channels)]
        asked = sorted(((spent.turns, person) for person, spent in costs.people.items() if person), reverse=True)
        people = [
            {"person": str(person), "name": person_name(parts, person), "turns": turns}
            for turns, person in asked[:CHOICES]
        ]
        await add_names(parts, [*channels, *people])
        talks = (await conversations_page(db, count=CHOICES)).items
        return web.json_response(
            {
                "channels": [each["channel"] for each in channels],
                "models": sorted(costs.models),
                "people": people,
                "conversations": [pick(talk, "id topic theme started_at") for talk in talks],
            }
        )

    @table.get("/api/turns/{agent}/{id}")
    async def show_turn(request: web.Request) -> web.Response:
        """Show a turn, with its neighbors in the list that the query describes."""
        whole = await find_turn(parts, request)
        db, turn = await parts.store.open(), whole.turn
        newer, older = await neighbors(db, _filter(parts, request), turn, _order(request))
        shown = _whole_turn_json(parts, whole)
        shown |= {name: each and pick(each, "agent id at") for name, each in (("newer", newer), ("older", older))}
        await add_names(parts, [shown, *shown["skipped"]])
        return web.json_response(shown)

    @table.get("/api/turns/{agent}/{id}/changes")
    async def compare_prompts(request: web.Request) -> web.Response:
        """Compare the prompt of a turn with that of an earlier turn of the same bot: `with`, or else the last turn in
        the same channel. `others` are the earlier turns there that can be compared."""
        whole, db = await find_turn(parts, request), await parts.store.open()
        wanted = TurnFilter(agent=whole.turn.agent, channel_id=whole.turn.channel_id, has_words=True)
        others = (await turns_page(db, wanted, after=whole.turn.cursor, count=COMPARED)).items
        other_id = query_text(request, "with") or (others[0].id if others else None)
        if other_id is None:
            raise Refused(404, "No earlier turn of this bot in this channel has a prompt in the history.")
        before, now = _prompt(await calls_of_turn(db, whole.turn.agent, other_id)), _prompt(whole.calls)
        if before is None or now is None:
            raise Refused(404, "The prompt of one of these turns isn't in the history.")
        compared = await asyncio.to_thread(diff_json, prompt_text(before), prompt_text(now))
        return web.json_response({"with": other_id, "others": [pick(each, "id at") for each in others], **compared})

    @table.get("/api/pictures/{message}")
    async def show_picture(request: web.Request) -> web.Response:
        found = await picture_of(await parts.store.open(), snowflake(request.match_info["message"]))
        if found is None or found.media_type not in PICTURE_TYPES:
            raise Refused(404, "This picture isn't in the history.")
        headers = {"Cache-Control": "private, max-age=3600"}
        return web.Response(body=found.data, content_type=found.media_type, headers=headers)

    return table


def _filter(parts: ConsoleContext, request: web.Request) -> TurnFilter:
    """Read the query's filter. The time range is the last `hours`, or the days `from` to `to`. Raises Refused."""
    hours, since, until = query_int(request, "hours", 0, 1, MAX_HOURS), None, None
    if hours:
        since = parts.clock() - hours * 3600
    elif days := query_days(request):
        zone, midnight = parts.settings.timezone, time()
        since = datetime.combine(days[0], midnight, zone).timestamp()
        until = datetime.combine(days[1] + timedelta(days=1), midnight, zone).timestamp()
    return TurnFilter(
        agent=query_text(request, "agent"),
        channel_id=query_id(request, "channel"),
        outcome=query_text(request, "outcome"),
        model=query_text(request, "model"),
        asked_by=query_id(request, "person"),
        conversation_id=query_text(request, "conversation"),
        since=since,
        until=until,
        text=query_text(request, "words") or "",
        within=query_choice(request, "within", tuple(SEARCHED)),
    )


def _order(request: web.Request) -> Order:
    return query_choice(request, "order", tuple(ORDERS))


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
        "calls": [_call_json(parts, call, turn) for call in whole.calls],
        "tools": [tool.model_dump() for tool in whole.tool_calls],
        "searches": [search.model_dump(include={"n", "query", "pages"}) for search in whole.searches],
        "posts": [post_json(parts, post, turn.guild_id) for post in whole.posts],
    }


def _link(parts: ConsoleContext, turn: Turn, message_id: int | None) -> str | None:
    """Return a message's URL in Discord. Local mode's messages have none."""
    return None if parts.is_local or not message_id else message_link(turn.guild_id, turn.channel_id, message_id)


def _text(parts: ConsoleContext, turn: Turn, message_id: int | None) -> str | None:
    """Return a message's text if the Live page still has it: the history has no people's messages."""
    entry = parts.live.message(turn.channel_id, message_id) if message_id else None
    return message_text(entry)[:MAX_QUOTE] if entry is not None else None


def _call_json(parts: ConsoleContext, call: Call, turn: Turn) -> Json:
    """Return a call with its prompt. `stable` is the number of characters of `system` that a provider caches."""
    words = call.words and {
        **pick(call.words, "system stable text prefill completion reasoning stop"),
        "history": [message.model_dump() for message in call.words.history],
        "options": exact(call.words.options),
        "tool_calls": exact(call.words.tool_calls),
        "decision": exact(call.words.decision),
    }
    return {**call.record.model_dump(), "words": words, "no_words": None if words else why_no_words(parts, call, turn)}


def _prompt(calls: Sequence[Call]) -> CallWords | None:
    """Return the first recorded prompt of a turn's answer."""
    return next((call.words for call in calls if call.words and call.record.kind == "text"), None)


def prompt_text(words: CallWords) -> str:
    """Return a prompt as one text, each message below its role."""
    messages = [("system", words.system), *((each.role, each.text) for each in words.history), ("task", words.text)]
    return "\n".join(f"[{role}]\n{text}" for role, text in messages if text)


def why_no_words(parts: ConsoleContext, call: Call, turn: Turn) -> str:
    """Tell the owner in a line why a call's prompt is missing."""
    days, age = parts.settings.record_prompts_days, parts.clock() - turn.at
    if turn.kind in SIDE_CALLS:
        return "Not recorded: prompts of arenas, and of a room's arguments, verdict, and closing card, are never kept."
    if call.record.kind == "picture":
        return "The description of the picture is in the decision of the call before it."
    if call.removed is not None:
        return REMOVED.get(call.removed, f"Removed: {call.removed}.")
    if days == 0:
        return "Not recorded: RECORD_PROMPTS_DAYS is 0."
    if days is not None and age > days * DAY:
        return f"Removed after {days} days (RECORD_PROMPTS_DAYS)."
    if age < ARRIVAL_SECONDS:
        return "Not here yet. Prompts reach the history within seconds."
    return "Not recorded: prompts weren't recorded then, or this prompt was lost (see Agents, The history)."
