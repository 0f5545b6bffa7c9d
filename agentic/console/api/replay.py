"""Replays for the turn's page, one at a time: what an agent would say now.

GET  /api/replay                           the models and personas to choose from
POST /api/turns/{agent}/{id}/replay        {"model"?, "persona"?, "estimate"?: true} → the estimate, or both answers
POST /api/replay/cancel                    ends the one that runs
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from agentic.console.api.turns import turn_asked_for
from agentic.console.parts import Change, ConsoleParts, Replayer
from agentic.console.requests import Refused, read_body
from agentic.record.queries.turns import WholeTurn


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


def routes(parts: ConsoleParts) -> Iterable[web.RouteDef]:
    replays = _Replays(parts)
    return [
        web.get("/api/replay", replays.choices),
        web.post("/api/replay/cancel", replays.cancel),
        web.post("/api/turns/{agent}/{id}/replay", replays.replay),
    ]
