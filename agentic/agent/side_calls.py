"""The models that an agent calls, and its calls outside of conversations.

- ModelBinding: a model of one agent, with its prices and limits.
- CheapModel: one for all agents of a process. It decides whether an agent named in CHEAP_FIRST speaks, summarizes
  messages that leave a room's window, sums up the members' positions when a room closes, and writes notes in
  background tasks. It never posts.
- `run_side_call`: makes a call under an agent's limits and all budgets, and records it as a turn of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agent_config import ModelSettings
from agentic.agent.limits import (
    AFTER_DEADLINE,
    AgentLimits,
    ModelPrices,
    ProviderBackoff,
    on_the_wire,
    read_under_way,
    under_way,
)
from agentic.llm.errors import ModelError
from agentic.llm.home_model import HomeModel
from agentic.llm.pricing import expected
from agentic.llm.types import Drawing, ImagePrompt, Message, Model, Prompt, Reply, Usage
from agentic.net.images import ImageLimits
from agentic.state.budgets import cost_fields
from agentic.state.limits import LimitRequest
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import CallRecord, Phases
from agentic.wire.messages import Result, TurnUsage
from agentic.wire.reasons import TurnAborted

USUAL_INPUT, USUAL_OUTPUT = 900, 20  # tokens of a question whether to speak, for comparing models


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBinding:
    """A model that an agent calls, with its prices and limits.

    Pictures must be within `image_limits`, and a prompt has at most `max_pictures` of them. `backoff` pauses calls
    while the provider rejects them. `runs_own_tools` is true for a coding agent, whose only tool of ours is its memory.
    `is_at_home`: the first model of its list is on the owner's machines, where people's turns go first.
    `home` describes a model on the owner's machines.
    """

    name: str  # provider/model, the first of its list
    complete: Callable[[Prompt, Sequence[Message]], Awaitable[Reply]]
    draw: Callable[[ImagePrompt], Awaitable[Drawing]]
    can_draw: bool
    prices: ModelPrices
    image_limits: ImageLimits
    max_pictures: int
    backoff: ProviderBackoff
    runs_own_tools: bool = False
    is_at_home: bool = False
    home: HomeModel | None = None
    continues_text: bool = False  # in prefill mode it gets a plain text, as base models need it


@dataclass(frozen=True, kw_only=True)
class CheapModel:
    """A model with its prices. Replies are redacted immediately, since they are stored in Redis. `backoff` pauses calls
    while the provider rejects them."""

    model: Model
    prices: ModelPrices
    redact: Callable[[str], str]
    backoff: ProviderBackoff

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def rests(self) -> bool:
        return bool(self.backoff.seconds_left)

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        """Raises ModelError. The caller reports success or failure to `backoff`."""
        reply = await self.model.complete(prompt, history)
        return replace(reply, text=self.redact(reply.text))


def cheapest(models: Iterable[ModelSettings]) -> ModelSettings | None:
    """Return the model with the lowest price of a usual call, or None without models."""
    return min(models, key=lambda model: round(usual_call(prices_of(model)), 9), default=None)


def usual_call(prices: ModelPrices) -> float:
    """Return the price of a usual call in US dollars."""
    return prices.call(USUAL_INPUT, output_tokens=USUAL_OUTPUT)


def prices_of(model: ModelSettings) -> ModelPrices:
    return ModelPrices(model.provider, model.model, None, free=model.is_free, rates=model.rates)


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCall:
    """A call to make. In the record, `kind` is the kind of turn and `call_kind` the kind of call. It's charged to the
    budget of `person_id`, and to their mention limit if `message_id` is set. `deadline` is in unix seconds."""

    turn_id: str
    kind: str
    channel_id: int
    deadline: float
    date: str
    prompt: Prompt
    call_kind: str = "text"
    guild_id: int | None = None
    person_id: int | None = None
    message_id: int | None = None


async def run_side_call(call: SideCall, model: ModelBinding | CheapModel, limits: AgentLimits) -> Reply:
    """Reserve the cost, call the model, and settle. Raises ModelError, and TurnAborted if a limit or a budget forbids
    the call or it was made before. A call during which the program ended is charged then."""
    worst_case = model.prices.worst_case(expected(call.prompt))
    request = LimitRequest(
        agent=limits.agent,
        channel_id=call.channel_id,
        guild_id=call.guild_id,
        date=call.date,
        turn_id=call.turn_id,
        is_free=model.prices.free,
        estimate=worst_case.cost_usd,
        until=call.deadline + AFTER_DEADLINE,
        person_id=call.person_id,
        message_id=call.message_id,
        under_way=under_way(worst_case),
    )
    request = limits.apply_to(request, cools_down=False, for_people=True)
    claim, verdict = await limits.state.turns.begin(limits.agent, call.turn_id, call.deadline, "", request)
    if claim.state in ("open", "done"):
        raise TurnAborted("interrupted")
    began, usage = limits.clock(), Usage()
    reason: str | None = None
    error: str | None = None
    try:
        if claim.state == "left":
            usage, reason, error = read_under_way(claim.under_way) or Usage(), "interrupted", "cancelled"
            raise TurnAborted("interrupted")
        if verdict not in ("ok", "closing", None):
            reason = verdict
            raise TurnAborted(verdict)
        usage, reason, error = worst_case, "interrupted", "cancelled"  # if the task is canceled
        try:
            reply = await model.complete(call.prompt, ())
        except ModelError as failed:
            usage, reason, error = failed.usage or Usage(), "model_failed", failed.kind
            model.backoff.failed(failed)
            raise
        model.backoff.worked()
        usage, reason, error = reply.usage, None, None
        return reply
    finally:
        result = Result(
            instruction_id=call.turn_id,
            agent_name=limits.agent,
            skipped=reason is not None,
            reason=reason,
            usage=on_the_wire(replace(usage, model=usage.model or model.name)),
        )
        await limits.state.turns.settle(
            limits.agent,
            call.turn_id,
            result.to_wire(),
            call.deadline,
            date=call.date,
            spent=cost_fields(result.usage or TurnUsage()),
            say="",
            record=_record(call, result, error, began, limits.clock()),
        )


def _record(call: SideCall, result: Result, error: str | None, began: float, ended: float) -> TurnRecord:
    usage, seconds = result.usage or TurnUsage(), round(ended - began, 3)
    counts = usage.model_dump(exclude={"calls", "pictures", "picture_cost_usd"})
    of_call = CallRecord(n=0, kind=call.call_kind, at=began, seconds=seconds, error=error, **counts)
    return TurnRecord(
        id=call.turn_id,
        agent=result.agent_name,
        kind=call.kind,
        trigger=call.kind,
        channel_id=call.channel_id,
        guild_id=call.guild_id,
        asked_by=call.person_id or None,
        seconds=seconds,
        reason=result.reason,
        outcome="posted" if result.reason is None else "",
        phases=Phases(model=seconds),
        calls=(of_call,) if usage.calls else (),
        **usage.model_dump(include={"model", "input_tokens", "cached_tokens", "output_tokens", "cost_usd"}),
    )
