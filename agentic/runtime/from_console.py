"""The console's replays: implements agentic.console's Replayer by the settings and the ledger of the process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agent_config import AgentSettings, Settings, SettingsError, load_settings, process_environment
from agentic.agent.persona import read_fronts
from agentic.console.parts import Change
from agentic.console.requests import Refused
from agentic.llm.types import Model
from agentic.record.queries.turns import WholeTurn
from agentic.runtime.models import provider_model
from agentic.state.shared_state import Ledger

if TYPE_CHECKING:  # imported at the first replay: most consoles never make one
    from agentic.replay.replay import Prepared, Replayer

LoadWith = Callable[[str], Settings]  # the settings where this model is all agents'


def load_with(model: str) -> Settings:
    """Read .env and the environment again, as at the start, but with this model, and without what only Discord needs.
    Raises SettingsError."""
    return load_settings(process_environment(), local=True, model=model, fronts=read_fronts)


class ConsoleReplayer:
    """`make_model` makes the models of turns; `load` gives the settings with another one."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        *,
        make_model: Callable[[AgentSettings], Model] = provider_model,
        load: LoadWith = load_with,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._ledger, self._make_model = settings, ledger, make_model
        self._load, self._clock = load, clock

    def personas(self) -> Sequence[str]:
        folder = self._settings.personas_dir
        return sorted(each.name for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []

    def models(self) -> Sequence[str]:
        agents = self._settings.agents.values()
        return list(dict.fromkeys(model.name for agent in agents for model in agent.usable))

    async def estimate(self, turn: WholeTurn, change: Change) -> Mapping[str, Any]:
        async with self._prepared(turn, change) as (_, prepared):
            return {
                "most_usd": prepared.most_usd,
                "model": prepared.model.name,
                "pictures_missing": prepared.pictures_missing,
            }

    async def replay(self, turn: WholeTurn, change: Change) -> Mapping[str, Any]:
        async with self._prepared(turn, change) as (replayer, prepared):
            return (await replayer.replay(prepared)).to_json()

    @asynccontextmanager
    async def _prepared(self, turn: WholeTurn, change: Change) -> AsyncIterator[tuple[Replayer, Prepared]]:
        from agentic.replay.replay import AskedModels, NotReplayable, RecordedTurn, Replayer

        if change.persona is not None and change.persona not in self.personas():
            raise Refused(404, "PERSONAS_DIR has no such persona")
        persona = self._settings.personas_dir / change.persona if change.persona else None
        if change.model is not None:
            models = AskedModels(await self._settings_with(change.model), named=True)
        else:
            models = AskedModels(self._settings, named=False, make_model=self._make_model)
        costs = self._ledger.replay_costs
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
