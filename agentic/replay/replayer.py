"""Replay one turn: what it may cost, the reservation, the answer, and the booking of what it has cost."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent_config import Settings
from agentic.llm.pricing import expected
from agentic.llm.types import Model, Usage
from agentic.process.redaction import Redactor, own_folders
from agentic.replay.asking import Replaying
from agentic.replay.comparison import Comparison, RecordedTurn, compared
from agentic.replay.models import AskedModels
from agentic.replay.prompts import NotReplayable, inputs_of, persona_in, with_persona
from agentic.replay.tool_results import RecordedResults
from agentic.state.replay_costs import ReplayCosts
from agentic.wire.entries import CallWords, ReplayNote
from agentic.wire.link import RedisAway

SETTLED_AFTER = 60.0  # seconds after the last call: a replay is settled by then, or its process is gone
REFUSED = {
    "budget": "the day's budget is used up (BUDGET_DAILY_USD)",
    "agent_budget": "the agent's budget of the day is used up (BUDGET_AGENT_DAILY_USD)",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A turn that can be replayed. `most_usd`: what it costs at most. `call`: the most that
    one call consumes; `calls`: how many there are at most."""

    recorded: RecordedTurn
    words: tuple[CallWords, ...]
    model: Model
    call: Usage
    calls: int
    pictures_missing: int

    @property
    def most_usd(self) -> float:
        return self.calls * self.call.cost_usd


class Replayer:
    """Replays turns by `models`, with the `persona` of a folder where one is given. `costs` is asked for money where a
    call costs any. `clock` gives unix seconds."""

    def __init__(
        self,
        settings: Settings,
        models: AskedModels,
        costs: ReplayCosts | None,
        *,
        persona: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._models, self._costs = settings, models, costs
        self._persona, self._clock = persona, clock
        self._redact = Redactor(settings.secrets(), own_folders(settings.data_dir))  # as turns' answers are

    def prepare(self, recorded: RecordedTurn) -> Prepared:
        """Raises NotReplayable."""
        if recorded.gone:
            raise NotReplayable(recorded.gone)
        words, turn = recorded.words, recorded.turn
        if self._persona is not None:
            persona = persona_in(self._persona, words)
            words = tuple(with_persona(each, persona) for each in words)
        asked = self._models.of(turn.agent, turn.guild_id, words[0].model)
        inputs = [inputs_of(each, least_seconds=0.0) for each in words]
        call = max(
            (asked.tariff.most(expected(each.prompt, each.history)) for each in inputs),
            key=lambda usage: usage.cost_usd,
        )
        action = inputs[0].prompt.prefill is not None  # a reaction, after which the words may follow
        calls = 1 + len(RecordedResults(words)) + action
        return Prepared(recorded, words, asked.model, call, calls, inputs[0].pictures_missing)

    async def replay(self, prepared: Prepared) -> Comparison:
        """Ask the model. Raises RedisAway where the call costs money and Redis does not answer: nothing was called."""
        agent, now = prepared.recorded.turn.agent, self._clock()
        replaying = Replaying(prepared.model, prepared.words, self._redact, self._settings.turn_timeout_seconds)
        replay_id = f"replay-{secrets.token_hex(8)}"
        date = datetime.fromtimestamp(now, self._settings.timezone).date().isoformat()
        if prepared.most_usd and (refused := await self._reserve(agent, replay_id, date, prepared)):
            return compared(prepared.recorded, problem=refused, pictures_missing=prepared.pictures_missing)
        try:
            answer = await replaying.answer()
        finally:  # also where it is cancelled
            spent = replaying.usage + (prepared.call if replaying.asking else Usage())
            if prepared.most_usd:
                await self._settle(agent, replay_id, date, spent, prepared.model.name)
        return compared(prepared.recorded, answer, pictures_missing=prepared.pictures_missing)

    async def _reserve(self, agent: str, replay_id: str, date: str, prepared: Prepared) -> str:
        """The line of a refusal, "" for none."""
        if self._costs is None:
            raise RedisAway("no Redis")
        seconds = max(each.options.get("timeout", 0.0) for each in prepared.words)
        within = prepared.calls * max(seconds, self._settings.turn_timeout_seconds) + SETTLED_AFTER
        refused = await self._costs.reserve(agent, replay_id, date, prepared.most_usd, within)
        return REFUSED[refused] if refused else ""

    async def _settle(self, agent: str, replay_id: str, date: str, usage: Usage, model: str) -> None:
        assert self._costs is not None
        note = ReplayNote(
            id=replay_id,
            at=self._clock(),
            day=date,
            agent=agent,
            model=usage.model or model,
            calls=usage.calls,
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            cost_usd=usage.cost_usd,
        )
        spent = {
            "total_cost": usage.cost_usd,
            "ai_cost": usage.cost_usd,
            "input_tokens": usage.input_tokens,
            "cached_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "ai_calls": usage.calls,
            "web_search_calls": usage.searches,
        }
        try:
            await self._costs.settle(note, spent)
        except RedisAway as away:
            log.error("%s: the cost of a replay is not booked, its reservation will be: %s", agent, away)
