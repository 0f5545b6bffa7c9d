"""Replay recorded turns from the console with one change. One replay runs at a time, and none posts."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent_config import AgentSettings, Settings, SettingsError, load_settings, process_environment
from agentic.agent.persona import read_fronts
from agentic.console.api.turns import find_turn
from agentic.console.parts import ConsoleContext
from agentic.console.requests import Refused, read_body
from agentic.llm.types import Model
from agentic.personas.files import MAX_FILE_BYTES, PERSONA_FILES, PRIVATE_FOLDER, read_persona
from agentic.record.queries.turns import WholeTurn
from agentic.runtime.services import provider_model
from agentic.state.shared_state import SharedState
from agentic.text import dollars

if TYPE_CHECKING:
    from agentic.replay.replay import Prepared, Replayer

LoadWith = Callable[[str], Settings]  # the settings with this model for all agents


def _persona_file(name: str) -> str:
    if name not in PERSONA_FILES:
        raise ValueError(name)
    return name


class ReplayRequest(BaseModel):
    """The change in a replay: another model (provider/model), another persona, or an unsaved text of a persona file."""

    model_config = ConfigDict(extra="forbid")

    model: str | None = Field(default=None, min_length=1, max_length=200)
    persona: str | None = Field(default=None, min_length=1, max_length=100)
    file: Annotated[str, AfterValidator(_persona_file)] | None = None
    text: str = Field(default="", max_length=MAX_FILE_BYTES)
    estimate: bool = False


class EmptyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")


def load_with(model: str) -> Settings:
    """Read .env and the environment again, with this model and without Discord's settings. Raises SettingsError."""
    return load_settings(process_environment(), local=True, model=model, fronts=read_fronts)


class ConsoleReplays:
    """The console's routes for replays. `make_model` makes turns' models; `load` reads settings with another model."""

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
            if len([each for each in (change.model, change.persona, change.file) if each]) > 1:
                raise Refused(400, "Change only one: the model, the persona, or one of its files.")
            turn = await find_turn(parts, request)
            if change.estimate:
                return web.json_response(await self._estimate(turn, change))
            if self._running is not None:
                raise Refused(409, "Another replay is running. Wait for it, or cancel it.")
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
                raise Refused(409, "Canceled. The call may still have cost something, which is recorded.")
            answers = task.result()
            same = "the same answer" if answers["same"] else "another answer"
            outcome = str(answers.get("problem") or f"{same}, {dollars(answers['new']['cost_usd'])}")
            return answers
        except Refused as refused:
            outcome = refused.text
            raise
        finally:
            task.cancel()  # if this request ends before it
            self._running = None
            changed = change.model or change.file or (f"persona {change.persona}" if change.persona else "")
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
            raise Refused(404, "This persona isn't in PERSONAS_DIR.")
        if change.model is not None:
            models = AskedModels(await self._settings_with(change.model), named=True)
        else:
            models = AskedModels(self._settings, named=False, make_model=self._make_model)
        costs = self._state.limits.replay_costs

        def prepare() -> tuple[Replayer, Prepared]:
            with self._persona_of(turn.turn.agent, change) as persona:
                replayer = Replayer(self._settings, models, costs, persona=persona, clock=self._clock)
                return replayer, replayer.prepare(RecordedTurn.of(turn.turn, turn.calls))

        try:
            yield await asyncio.to_thread(prepare)
        except NotReplayable as error:
            raise Refused(409, str(error)) from error
        finally:
            await models.aclose()

    @contextmanager
    def _persona_of(self, agent: str, change: ReplayRequest) -> Iterator[Path | None]:
        """Yield the folder of the persona that speaks instead; a copy if a file has a new text."""
        if change.file is None:
            yield self._settings.personas_dir / change.persona if change.persona else None
            return
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / agent
            folder.mkdir(PRIVATE_FOLDER)
            for name, text in {
                **dict(read_persona(self._settings.persona_folder(agent))),
                change.file: change.text,
            }.items():
                if text is not None:
                    (folder / name).write_text(text, encoding="utf-8")
            yield folder

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
