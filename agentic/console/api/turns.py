"""Turns and replays.

The turns: a list with filters, one turn with all that is kept of it, and the pictures that were posted.

GET /api/turns?agent=&channel=&outcome=&model=&person=&conversation=&words=&before=
GET /api/turns/choices               what the filters offer
GET /api/turns/{agent}/{id}
GET /api/pictures/{message}

Replays for the turn's page, one at a time: what an agent would say now.

GET  /api/replay                           the models and personas to choose from
POST /api/turns/{agent}/{id}/replay        {"model"?, "persona"?, "estimate"?: true} → the estimate, or both answers
POST /api/replay/cancel                    ends the one that runs
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from agentic.console.json_values import (
    Json,
    channel_json,
    conversation_json,
    cursor_text,
    exact,
    message_link,
    post_json,
    query_cursor,
    today,
    turn_json,
)
from agentic.console.parts import PICTURE_TYPES, Change, ConsoleParts, Replayer
from agentic.console.requests import Refused, query_id, query_int, query_text, read_body, snowflake
from agentic.record.queries.posts import picture_of
from agentic.record.queries.statistics import read_costs
from agentic.record.queries.turns import Call, Turn, TurnFilter, WholeTurn, turns_page, whole_turn
from agentic.wire.entries import CallWords

PAGE = 50
CHOICE_DAYS = 30
LONGEST_QUOTE = 300  # characters of the message that a turn answers
ARRIVAL_SECONDS = 30.0  # within which the words of a turn reach the file
DAY = 86400.0
REMOVED: Mapping[str, str] = {
    "forgotten": "Removed: a person whom this prompt quoted had their words forgotten (/forget me).",
    "deleted": "Removed: a message that this prompt quoted was deleted in Discord.",
    "unreadable": "These words cannot be read: the file is damaged, or another version of the program wrote them.",
}


def turn_routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    async def turns(request: web.Request) -> web.Response:
        wanted = TurnFilter(
            agent=query_text(request, "agent"),
            channel_id=query_id(request, "channel"),
            outcome=query_text(request, "outcome"),
            model=query_text(request, "model"),
            person=query_id(request, "person"),
            conversation_id=query_text(request, "conversation"),
            text=query_text(request, "words") or "",
        )
        count = query_int(request, "count", PAGE, 1, 200)
        page = await turns_page(await parts.store.open(), wanted, after=query_cursor(request), count=count)
        items = [turn_json(parts, turn) for turn in page.items]
        return web.json_response({"items": items, "next": cursor_text(page.next)})

    async def choices(_: web.Request) -> web.Response:
        last = datetime.fromisoformat(today(parts)).date()
        costs = await read_costs(await parts.store.open(), str(last - timedelta(days=CHOICE_DAYS)), str(last))
        channels = [channel_json(parts, channel) for channel in sorted(costs.channels)]
        return web.json_response({"channels": channels, "models": sorted(costs.models)})

    async def turn(request: web.Request) -> web.Response:
        return web.json_response(_whole(parts, await turn_asked_for(parts, request)))

    async def picture(request: web.Request) -> web.Response:
        found = await picture_of(await parts.store.open(), snowflake(request.match_info["message"]))
        if found is None or found.media_type not in PICTURE_TYPES:
            raise Refused(404, "the record has no such picture")
        headers = {"Cache-Control": "private, max-age=3600"}
        return web.Response(body=found.data, content_type=found.media_type, headers=headers)

    return [
        web.get("/api/turns", turns),
        web.get("/api/turns/choices", choices),
        web.get("/api/turns/{agent}/{id}", turn),
        web.get("/api/pictures/{message}", picture),
    ]


async def turn_asked_for(parts: ConsoleParts, request: web.Request) -> WholeTurn:
    """The turn that the address names. Raises Refused."""
    found = await whole_turn(await parts.store.open(), request.match_info["agent"], request.match_info["id"])
    if found is None:
        raise Refused(404, "the record has no such turn: it is too old, or has not arrived yet")
    return found


def _whole(parts: ConsoleParts, whole: WholeTurn) -> Json:
    turn = whole.turn
    return {
        **turn_json(parts, turn),
        "input_tokens": turn.input_tokens,
        "cached_tokens": turn.cached_tokens,
        "output_tokens": turn.output_tokens,
        "phases": whole.phases.model_dump(),
        "asked_link": _link(parts, turn, turn.asked_message_id),
        "asked_text": _text(parts, turn, turn.asked_message_id),
        "reacted_link": _link(parts, turn, turn.reacted_to),
        "reacted_text": _text(parts, turn, turn.reacted_to),
        "conversation": conversation_json(parts, whole.conversation) if whole.conversation else None,
        "skipped": [turn_json(parts, each) for each in whole.skipped],
        "calls": [_call(parts, call, turn.at) for call in whole.calls],
        "tools": [tool.model_dump() for tool in whole.tool_calls],
        "searches": [search.model_dump(include={"n", "query", "pages"}) for search in whole.searches],
        "posts": [post_json(parts, post, turn.guild_id) for post in whole.posts],
    }


def _link(parts: ConsoleParts, turn: Turn, message_id: int | None) -> str | None:
    """The address of a message in Discord; local mode's messages have none."""
    return None if parts.is_local or not message_id else message_link(turn.guild_id, turn.channel_id, message_id)


def _text(parts: ConsoleParts, turn: Turn, message_id: int | None) -> str | None:
    """The message's words, while the Live page still has them: the record has no messages of people."""
    message = parts.live.message(turn.channel_id, message_id) if message_id else None
    return message.text[:LONGEST_QUOTE] if message is not None else None


def _call(parts: ConsoleParts, call: Call, at: float) -> Json:
    record, words = call.record.model_dump(), call.words and _words(call.words)
    return {**record, "words": words, "no_words": None if words else why_no_words(parts, call, at)}


def _words(words: CallWords) -> Json:
    """`stable`: how many characters of `system` a provider caches by themselves."""
    return {
        "system": words.system,
        "stable": words.stable,
        "history": [message.model_dump() for message in words.history],
        "text": words.text,
        "prefill": words.prefill,
        "options": exact(words.options),
        "completion": words.completion,
        "stop": words.stop,
        "tool_calls": exact(words.tool_calls),
        "decision": exact(words.decision),
    }


def why_no_words(parts: ConsoleParts, call: Call, at: float) -> str:
    """Why the words of a call are not there, in a line for the owner. Its turn ended `at`, in unix seconds."""
    days, age = parts.settings.record_prompts_days, parts.clock() - at
    if call.record.kind == "picture":
        return "What was to be drawn stands in the decision of the call before it."
    if call.removed is not None:
        return REMOVED.get(call.removed, f"Removed: {call.removed}.")
    if days == 0:
        return "Not recorded: RECORD_PROMPTS_DAYS is 0."
    if days is not None and age > days * DAY:
        return f"Removed after {days} days, as RECORD_PROMPTS_DAYS says."
    if age < ARRIVAL_SECONDS:
        return "Not here yet: prompts reach the record within seconds. Reload in a moment."
    return "Not recorded: prompts were not kept then, or these were lost on their way (see Agents, The record)."


class _Wish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(default=None, min_length=1, max_length=200)
    persona: str | None = Field(default=None, min_length=1, max_length=100)
    estimate: bool = False


class _Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Replays:
    """`running` is the replay under way."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts
        self.running: asyncio.Task[Mapping[str, Any]] | None = None

    async def choices(self, request: web.Request) -> web.Response:
        del request
        replayer = self._replayer()
        return web.json_response({"models": list(replayer.models()), "personas": list(replayer.personas())})

    async def replay(self, request: web.Request) -> web.Response:
        wish = await read_body(request, _Wish)
        if wish.model and wish.persona:
            raise Refused(400, "change the model or the persona, not both")
        change = Change(wish.model, wish.persona)
        turn = await turn_asked_for(self._parts, request)
        if wish.estimate:
            return web.json_response(await self._replayer().estimate(turn, change))
        if self.running is not None:
            raise Refused(409, "another replay is running; wait for it, or cancel it")
        answers = await self._run(turn, change)
        return web.json_response(answers)

    async def cancel(self, request: web.Request) -> web.Response:
        await read_body(request, _Nothing)
        if self.running is not None:
            self.running.cancel()
        return web.json_response({"cancelled": self.running is not None})

    async def _run(self, turn: WholeTurn, change: Change) -> Mapping[str, Any]:
        task = self.running = asyncio.create_task(self._replayer().replay(turn, change), name="replay")
        outcome = "failed"
        try:
            await asyncio.wait([task])
            if task.cancelled():
                raise Refused(409, "cancelled; what the call may have cost counts")
            answers = task.result()
            outcome = _outcome(answers)
            return answers
        except Refused as refused:
            outcome = refused.text
            raise
        finally:
            task.cancel()  # where this request ends before it
            self.running = None
            self._note(turn, change, outcome)

    def _note(self, turn: WholeTurn, change: Change, outcome: str) -> None:
        changed = change.model or (f"persona {change.persona}" if change.persona else "")
        self._parts.note_action(
            "replay",
            channel_id=turn.turn.channel_id,
            agent=turn.turn.agent,
            detail=", ".join(filter(None, (turn.turn.id, changed))),
            outcome=outcome,
        )

    def _replayer(self) -> Replayer:
        if self._parts.replayer is None:
            raise Refused(404, "this console has no replays")
        return self._parts.replayer


def _outcome(answers: Mapping[str, Any]) -> str:
    if answers.get("problem"):
        return str(answers["problem"])
    same = "the same answer" if answers["same"] else "another answer"
    return f"{same}, {answers['new']['cost_usd']:.4f} USD"


def replay_routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    replays = _Replays(parts)
    return [
        web.get("/api/replay", replays.choices),
        web.post("/api/replay/cancel", replays.cancel),
        web.post("/api/turns/{agent}/{id}/replay", replays.replay),
    ]
