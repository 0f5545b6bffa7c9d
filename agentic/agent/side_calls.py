"""Booked calls outside turns: cheap model, embeddings.

The cheap model: it says whether an agent speaks, where CHEAP_FIRST names that agent, notes what falls out of a
room's window, the members' positions at its end, and what agents write down while nobody writes. It never posts.

One model serves all agents of a process; what it costs is on the books of the agent for whose turn it was asked.

The embedding model of the process, on the books: its calls are reserved and settled as replays are.

They count for the day's budget and for that of the first agent in the settings, since what is embedded belongs to no
turn. A model on the owner's machine costs nothing, and is asked without Redis.

One call of a model outside of a conversation: on the books of an agent, under its limits and all budgets, in the
record as a turn of its own.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from agent_config import ModelSettings, Settings
from agentic.agent.limits import (
    AFTER_DEADLINE,
    AgentLimits,
    ProviderBackoff,
    Tariff,
    cost_fields,
    is_free,
    on_the_wire,
    rates,
    under_way,
)
from agentic.llm.embeddings import Embedded, Embedder, Vector, expected
from agentic.llm.errors import ModelError
from agentic.llm.pricing import price
from agentic.llm.types import Message, Model, Prompt, Reply, Usage
from agentic.state.budgets import BudgetRequest, ReplayCosts
from agentic.state.shared_state import Ledger
from agentic.state.turn_records import TurnRecord
from agentic.wire.connection import RedisAway
from agentic.wire.entries import CallRecord, Phases, ReplayNote
from agentic.wire.messages import Result, TurnUsage

log = logging.getLogger(__name__)


USUAL_INPUT, USUAL_OUTPUT = 900, 20  # tokens, by which models are compared


@dataclass(frozen=True, kw_only=True)
class CheapModel:
    """A model with its prices. Its answers are redacted as they arrive: they are kept in Redis. `backoff` pauses it
    while its provider refuses it."""

    model: Model
    tariff: Tariff
    redact: Callable[[str], str]
    backoff: ProviderBackoff

    @property
    def name(self) -> str:
        """provider/model."""
        return self.model.name

    @property
    def rests(self) -> bool:
        return bool(self.backoff.seconds_left)

    async def ask(self, prompt: Prompt) -> Reply:
        """Raises ModelError."""
        try:
            reply = await self.think(prompt)
        except ModelError as error:
            self.backoff.failed(error)
            raise
        self.backoff.worked()
        return reply

    async def think(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        """The same for a caller that notes at `backoff` how it went."""
        reply = await self.model.complete(prompt, history)
        return replace(reply, text=self.redact(reply.text))


def cheapest(models: Iterable[ModelSettings]) -> ModelSettings | None:
    """The model whose usual call costs least, the first of several; None for none."""
    return min(models, key=lambda model: round(usual_call(tariff_of(model)), 9), default=None)


def usual_call(tariff: Tariff) -> float:
    """US dollars for one question whether to speak."""
    return tariff.call(USUAL_INPUT, output_tokens=USUAL_OUTPUT)


def tariff_of(model: ModelSettings) -> Tariff:
    return Tariff(model.provider, model.model, None, free=is_free(model), rates=rates(model))


SECONDS = 30.0  # for a call
SETTLED_AFTER = 60.0  # seconds after it: the call is settled by then, or its process is gone


def meaning_of(
    settings: Settings, embedder: Embedder | None, costs: ReplayCosts, clock: Callable[[], float] = time.time
) -> BookedMeaning | None:
    """The embedding model on the books; None where the process has none."""
    return BookedMeaning(settings, embedder, costs, clock) if embedder is not None else None


class BookedMeaning:
    """Makes vectors as far as there is money (agentic.record.embeddings.Meaning). `clock` gives unix seconds."""

    def __init__(
        self,
        settings: Settings,
        embedder: Embedder,
        costs: ReplayCosts,
        clock: Callable[[], float],
    ) -> None:
        assert settings.embedding is not None
        self._embedder, self._costs, self._clock = embedder, costs, clock
        self._zone, self._agent = settings.timezone, payer_of(settings)
        self._settings: ModelSettings = settings.embedding
        self._problem = ""

    @property
    def model(self) -> str:
        return self._embedder.name

    async def vectors(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        """A vector for each text; None where the model failed or there is no money. Never raises."""
        try:
            made = await (self._embedder.embed(texts, timeout=SECONDS) if self._embedder.free else self._paid(texts))
        except (ModelError, RedisAway) as error:
            self._report(str(error))
            return None
        if made is not None:
            self._problem = ""
        return None if made is None else made.vectors

    async def aclose(self) -> None:
        await self._embedder.aclose()

    async def _paid(self, texts: Sequence[str]) -> Embedded | None:
        most = self._most(texts)
        call_id = f"embedding-{secrets.token_hex(8)}"
        date = datetime.fromtimestamp(self._clock(), self._zone).date().isoformat()
        refused = await self._costs.reserve(self._agent, call_id, date, most.cost_usd, SECONDS + SETTLED_AFTER)
        if refused is not None:
            self._report("the day's budget is used up")
            return None
        spent = most  # where it is cancelled
        try:
            made = await self._embedder.embed(texts, timeout=SECONDS)
            spent = made.usage
            return made
        except ModelError as error:
            spent = error.usage or Usage()
            raise
        finally:
            await self._settle(call_id, date, spent)

    def _most(self, texts: Sequence[str]) -> Usage:
        tariff = tariff_of(self._settings)
        usage = expected(texts)
        return price(tariff.provider, tariff.model, replace(usage, model=self.model), rates=tariff.rates)

    async def _settle(self, call_id: str, date: str, usage: Usage) -> None:
        note = ReplayNote(
            id=call_id,
            at=self._clock(),
            day=date,
            agent=self._agent,
            model=self.model,
            calls=usage.calls,
            input_tokens=usage.input_tokens,
            cost_usd=usage.cost_usd,
        )
        spent = {
            "total_cost": usage.cost_usd,
            "ai_cost": usage.cost_usd,
            "input_tokens": usage.input_tokens,
            "ai_calls": usage.calls,
        }
        try:
            await self._costs.settle(note, spent)
        except RedisAway as away:
            log.error("the cost of an embedding is not booked, its reservation will be: %s", away)

    def _report(self, problem: str) -> None:
        level = logging.DEBUG if problem == self._problem else logging.WARNING
        log.log(level, "%s makes no vectors, memories are found by their words alone: %s", self.model, problem)
        self._problem = problem


def payer_of(settings: Settings) -> str:
    """The agent on whose books embeddings are: the first that runs, else the first of the table."""
    return next((name for name, agent in settings.agents.items() if agent.token), next(iter(settings.agents)))


NOTHING = Usage()


class CallRefused(Exception):
    """A limit or a budget forbids the call; `reason` is one of docs/protocol.md's."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleCall:
    """A call to make. `most`: what it costs at most. `kind` names the turn, `call_kind` the call in the record;
    `person_id` pays for it, and where `message_id` is set it counts as a call of that person. Times in unix seconds."""

    turn_id: str
    kind: str
    channel_id: int
    deadline: float
    date: str
    model: str
    most: Usage
    free: bool = False
    call_kind: str = "text"
    guild_id: int | None = None
    person_id: int | None = None
    message_id: int | None = None


@dataclass(slots=True)
class _Outcome:
    """How the call ended: what it cost, the turn's reason, the kind of its error."""

    usage: Usage = NOTHING
    reason: str | None = None
    error: str | None = None


async def made(
    call: SingleCall,
    ask: Callable[[], Awaitable[Reply]],
    *,
    agent: str,
    ledger: Ledger,
    limits: AgentLimits,
    clock: Callable[[], float],
) -> Reply:
    """Reserve, call, settle. Raises CallRefused, also for a call that was made before, and ModelError."""
    request = limits.ask(
        call.channel_id, call.date, cools_down=False, for_people=True, wish=_budget(call), free=call.free
    )
    claim, verdict = await ledger.begin(agent, call.turn_id, call.deadline, "", request)
    if claim.state != "new":
        raise CallRefused("interrupted")
    began, outcome = clock(), _Outcome()
    try:
        return await _asked(call, ask, verdict, outcome)
    finally:  # also where it is cancelled
        await _settle(call, agent, ledger, outcome, began, clock())


async def _asked(
    call: SingleCall, ask: Callable[[], Awaitable[Reply]], verdict: str | None, outcome: _Outcome
) -> Reply:
    if verdict not in ("ok", "closing", None):
        outcome.reason = verdict
        raise CallRefused(str(verdict))
    outcome.usage, outcome.reason, outcome.error = call.most, "interrupted", "cancelled"
    try:
        reply = await ask()
    except ModelError as failed:
        outcome.usage, outcome.reason, outcome.error = failed.usage or NOTHING, "model_failed", failed.kind
        raise
    outcome.usage, outcome.reason, outcome.error = reply.usage, None, None
    return reply


def _budget(call: SingleCall) -> BudgetRequest:
    return BudgetRequest(
        turn_id=call.turn_id,
        estimate=call.most.cost_usd,
        until=call.deadline + AFTER_DEADLINE,
        kind="mention",
        person_id=call.person_id,
        message_id=call.message_id,
        under_way=under_way(call.most),
    )


async def _settle(call: SingleCall, agent: str, ledger: Ledger, outcome: _Outcome, began: float, ended: float) -> None:
    result = Result(
        instruction_id=call.turn_id,
        agent_name=agent,
        skipped=outcome.reason is not None,
        reason=outcome.reason,
        usage=on_the_wire(replace(outcome.usage, model=outcome.usage.model or call.model)),
    )
    await ledger.settle(
        agent,
        call.turn_id,
        result.to_wire(),
        call.deadline,
        date=call.date,
        spent=cost_fields(result),
        say="",
        record=_record(call, agent, result, outcome.error, began, ended),
    )


def _record(call: SingleCall, agent: str, result: Result, error: str | None, began: float, ended: float) -> TurnRecord:
    usage, seconds = result.usage or TurnUsage(), round(ended - began, 3)
    counts = usage.model_dump(exclude={"calls", "pictures", "picture_cost_usd"})
    of_call = CallRecord(n=0, kind=call.call_kind, at=began, seconds=seconds, error=error, **counts)
    return TurnRecord(
        id=call.turn_id,
        agent=agent,
        kind=call.kind,
        trigger=call.kind,
        channel_id=call.channel_id,
        guild_id=call.guild_id,
        asked_by=call.person_id,
        seconds=seconds,
        reason=result.reason,
        outcome="posted" if result.reason is None else "",
        phases=Phases(model=seconds),
        calls=(of_call,) if usage.calls else (),
        **usage.model_dump(include={"model", "input_tokens", "cached_tokens", "output_tokens", "cost_usd"}),
    )
