"""One call of a model outside of a conversation: on the books of an agent, under its limits and all budgets, in the
record as a turn of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agentic.agent.cost_estimate import AFTER_DEADLINE, under_way
from agentic.agent.limits import AgentLimits
from agentic.agent.usage import cost_fields, on_the_wire
from agentic.llm.errors import ModelError
from agentic.llm.types import Reply, Usage
from agentic.state.budget_rules import BudgetRequest
from agentic.state.records import TurnRecord
from agentic.state.shared_state import Ledger
from agentic.wire.entries import CallRecord, Phases
from agentic.wire.messages import Result, TurnUsage

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
