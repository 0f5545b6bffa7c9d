"""One call of a model: affordable, noted in the turn's record, booked where it is made, also when it fails.

Besides the agent's own model a turn may ask the cheap one (limits/cheap_model.py), on the same account.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from agentic.agent.agent import Turn
from agentic.agent.events import POST_SECONDS
from agentic.agent.side_calls import CheapModel
from agentic.llm.errors import BadAnswer, ModelError
from agentic.llm.pricing import expected, input_tokens
from agentic.llm.types import Message, Prompt, Reply, Usage
from agentic.turn.conversation import conversation_of
from agentic.turn.decision import UnreadableDecision
from agentic.turn.trace import CallKind
from agentic.wire.reasons import TurnOver

MIN_MODEL_SECONDS = 1.0


async def call_model(turn: Turn, prompt: Prompt, history: Sequence[Message], kind: CallKind = "text") -> Reply:
    """Raises ModelError, UnreadableDecision for an answer that is none, and what `_reserve` does."""
    model = turn.agent.model
    cost = model.tariff.most(expected(prompt, history))  # until more is known of it
    await _reserve(turn, cost)
    turn.agent.frame.note(input_tokens(prompt, ()))
    asked = replace(prompt, conversation=conversation_of(turn.event))
    try:
        with turn.trace.call(model.name, asked, history, kind=kind) as call:
            reply = call.reply = await model.think(asked, history)
        cost = reply.usage
    except ModelError as error:
        cost = error.usage or Usage()
        model.backoff.failed(error)
        if isinstance(error, BadAnswer):
            raise UnreadableDecision(error.detail or error.kind) from error
        raise
    finally:  # also where the call is cancelled
        turn.spending.add(cost)
        call.usage = cost
    model.backoff.worked()
    return reply


async def call_cheap(turn: Turn, cheap: CheapModel, prompt: Prompt, kind: Literal["gate", "summary"]) -> Reply:
    """Ask the cheap model. Raises ModelError, and what `_reserve` does."""
    cost = cheap.tariff.most(expected(prompt))  # until more is known of it
    await _reserve(turn, cost)
    try:
        with turn.trace.call(cheap.name, prompt, (), kind=kind) as call:
            reply = call.reply = await cheap.ask(prompt)
        cost = reply.usage
    except ModelError as error:
        cost = error.usage or Usage()
        raise
    finally:  # also where the call is cancelled
        turn.spending.add(replace(cost, model=""))  # the turn's model is the agent's
        call.usage = cost
    return reply


async def _reserve(turn: Turn, cost: Usage) -> None:
    """Reserve the call's money and note it in the turn's record. The first call needs neither where the limits were
    asked in the step that claimed the turn.

    Raises TurnOver("budget"), and CannotPost for a turn that another process has taken over.
    """
    together = turn.spending.total + cost
    if not await turn.agent.limits.afford(turn.event.id, together.cost_usd):
        raise TurnOver("budget")
    if turn.spending.total.calls or together.cost_usd > turn.spending.foreseen:
        await turn.spending.foresee(together)


def seconds_left(turn: Turn) -> float:
    """Until the answer must be there. Raises TurnOver("deadline") where that is too soon for a call."""
    left = _left(turn)
    if left < MIN_MODEL_SECONDS:
        raise TurnOver("deadline")
    return left


def _left(turn: Turn) -> float:
    return turn.event.deadline - turn.agent.clock() - POST_SECONDS


async def may_ask_again(turn: Turn) -> bool:
    """Whether there is time and money to ask once more what was answered already."""
    return _left(turn) >= MIN_MODEL_SECONDS and await affords(turn, 1)


async def may_continue(turn: Turn) -> bool:
    """Whether there is money for more than one call after a tool's result. Raises TurnOver("budget") where there is not
    enough for one."""
    if await affords(turn, 2):
        return True
    if await affords(turn, 1):
        return False
    raise TurnOver("budget")


async def affords(turn: Turn, calls: int) -> bool:
    """Whether there is money for so many calls more. Tool results that make a prompt longer show in what the calls have
    cost so far."""
    total = turn.spending.total
    each = max(turn.spending.estimate, total.cost_usd / max(1, total.calls))
    return await turn.agent.limits.afford(turn.event.id, total.cost_usd + calls * each)
