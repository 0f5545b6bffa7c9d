"""Replay recorded turns from the console with one change. One replay runs at a time, and none posts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field

from agent_config import AgentSettings, Settings, SettingsError, load_settings, process_environment
from agentic.agent.persona import read_fronts
from agentic.console.api.turns import find_turn
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, read_body
from agentic.llm.types import Model
from agentic.record.queries.turns import WholeTurn
from agentic.runtime.services import provider_model
from agentic.state.shared_state import SharedState

if TYPE_CHECKING:
    from agentic.replay.replay import Prepared, Replayer

LoadWith = Callable[[str], Settings]  # the settings with this model for all agents


class ReplayRequest(BaseModel):
    """The change in a replay: another model (provider/model), or another persona by its name."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(default=None, min_length=1, max_length=200)
    persona: str | None = Field(default=None, min_length=1, max_length=100)
    estimate: bool = False


class EmptyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")


def load_with(model: str) -> Settings:
    """Read .env and the environment again, with this model and without Discord's settings. Raises SettingsError."""
    return load_settings(process_environment(), local=True, model=model, fronts=read_fronts)


class ConsoleReplays:
    """The console's routes for replays. `make_model` makes the models of turns; `load` reads settings with another
    model. Raises Refused."""

    def __init__(
        self,
        settings: Settings,
        state: SharedState,
        *,
        make_model: Callable[[AgentSettings], Model] = provider_model,
        load: LoadWith = load_with,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._state, self._make_model = settings, state, make_model
        self._load, self._clock = load, clock
        self._running: asyncio.Task[Mapping[str, Any]] | None = None

    def routes(self, parts: ConsoleContext) -> web.RouteTableDef:
        table = web.RouteTableDef()

        @table.get("/api/replay")
        async def list_replay_choices(_: web.Request) -> web.Response:
            agents = self._settings.agents.values()
            models = dict.fromkeys(model.name for agent in agents for model in agent.usable)
            return web.json_response({"models": list(models), "personas": self._personas()})

        @table.post("/api/replay/cancel")
        async def cancel_replay(request: web.Request) -> web.Response:
            await read_body(request, EmptyRequest)
            if self._running is not None:
                self._running.cancel()
            return web.json_response({"cancelled": self._running is not None})

        @table.post("/api/turns/{agent}/{id}/replay")
        async def replay_turn(request: web.Request) -> web.Response:
            change = await read_body(request, ReplayRequest)
            if change.model and change.persona:
                raise Refused(400, "change either the model or the persona")
            turn = await find_turn(parts, request)
            if change.estimate:
                return web.json_response(await self._estimate(turn, change))
            if self._running is not None:
                raise Refused(409, "another replay is running; wait for it, or cancel it")
            return web.json_response(await self._run(parts, turn, change))

        return table

    def _personas(self) -> list[str]:
        folder = self._settings.personas_dir
        return sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []

    async def _run(self, parts: ConsoleContext, turn: WholeTurn, change: ReplayRequest) -> Mapping[str, Any]:
        task = self._running = asyncio.create_task(self.replay(turn, change), name="replay")
        outcome = "failed"
        try:
            await asyncio.wait([task])
            if task.cancelled():
                raise Refused(409, "canceled; the call may still have cost something, which is recorded")
            answers = task.result()
            same = "the same answer" if answers["same"] else "another answer"
            outcome = str(answers.get("problem") or f"{same}, {answers['new']['cost_usd']:.4f} USD")
            return answers
        except Refused as refused:
            outcome = refused.text
            raise
        finally:
            task.cancel()  # if this request ends before it
            self._running = None
            changed = change.model or (f"persona {change.persona}" if change.persona else "")
            detail = ", ".join(filter(None, (turn.turn.id, changed)))
            about = {"channel_id": turn.turn.channel_id, "agent": turn.turn.agent, "detail": detail}
            parts.note_action(action="replay", **about, outcome=outcome)

    async def _estimate(self, turn: WholeTurn, change: ReplayRequest) -> Mapping[str, Any]:
        async with self._prepared(turn, change) as (_, prepared):
            return {
                "most_usd": prepared.most_usd,
                "model": prepared.model.name,
                "pictures_missing": prepared.pictures_missing,
            }

    async def replay(self, turn: WholeTurn, change: ReplayRequest) -> Mapping[str, Any]:
        """Return the `old` and the `new` answer as JSON."""
        async with self._prepared(turn, change) as (replayer, prepared):
            return asdict(await replayer.replay(prepared))

    @asynccontextmanager
    async def _prepared(self, turn: WholeTurn, change: ReplayRequest) -> AsyncIterator[tuple[Replayer, Prepared]]:
        from agentic.replay.replay import AskedModels, NotReplayable, RecordedTurn, Replayer

        if change.persona is not None and change.persona not in self._personas():
            raise Refused(404, "there is no such persona in PERSONAS_DIR")
        persona = self._settings.personas_dir / change.persona if change.persona else None
        if change.model is not None:
            models = AskedModels(await self._settings_with(change.model), named=True)
        else:
            models = AskedModels(self._settings, named=False, make_model=self._make_model)
        costs = self._state.limits.replay_costs
        replayer = Replayer(self._settings, models, costs, persona=persona, clock=self._clock)
        try:
            yield replayer, await asyncio.to_thread(replayer.prepare, RecordedTurn.of(turn.turn, turn.calls))
        except NotReplayable as error:
            raise Refused(409, str(error)) from error
        finally:
            await models.aclose()

    async def _settings_with(self, model: str) -> Settings:
        from agentic.local.models import verdict_on

        try:
            settings = await asyncio.to_thread(self._load, model)
        except SettingsError as error:
            raise Refused(400, error.problems[0]) from error
        problem = (await verdict_on(settings, model)).problem
        if problem:
            raise Refused(400, problem)
        return settings
