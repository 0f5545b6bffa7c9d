"""One call of a model for a turn: it is affordable, recorded, and charged, also when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentic.agent.events import POST_SECONDS, InstructionEvent, MentionEvent
from agentic.agent.side_calls import CheapModel
from agentic.llm.errors import BadAnswer, ModelError
from agentic.llm.pricing import expected, input_tokens
from agentic.llm.types import Message, Prompt, Reply, Usage
from agentic.turn.decision import UnreadableDecision
from agentic.turn.progress import Turn
from agentic.turn.trace import CallKind
from agentic.wire.reasons import TurnAborted

MIN_MODEL_SECONDS = 1.0


async def call_model(
    turn: Turn,
    prompt: Prompt,
    history: Sequence[Message] = (),
    kind: CallKind = "text",
    cheap: CheapModel | None = None,
) -> Reply:
    """Ask the turn's model, or a cheap one, at the turn's expense. Raises ModelError, UnreadableDecision for an answer
    of its own model that is none, and what `_reserve` does."""
    model, event = turn.model if cheap is None else cheap, turn.event
    cost = model.prices.worst_case(expected(prompt, history))  # until more is known of it
    await _reserve(turn, cost)
    if cheap is None:
        turn.limits.overhead.note(input_tokens(prompt, ()))
        continues = event.channel_id if isinstance(event, MentionEvent | InstructionEvent) else None
        # automation is no part of a conversation
        prompt = replace(prompt, conversation=continues, guild_id=turn.outlet.view.guild_id)
    try:
        with turn.state.trace.call(model.name, prompt, history, kind=kind) as call:
            reply = call.reply = await model.complete(prompt, history)
        cost = reply.usage
    except ModelError as error:
        cost = error.usage or Usage()
        model.backoff.failed(error)
        if cheap is None and isinstance(error, BadAnswer):
            raise UnreadableDecision(error.detail or error.kind) from error
        raise
    finally:  # also if the call is cancelled
        # the model in the turn's record is the agent's own
        turn.state.spending.add(cost if cheap is None else replace(cost, model=""))
        call.usage = cost
    model.backoff.worked()
    return reply


async def _reserve(turn: Turn, cost: Usage) -> None:
    """Reserve the call's money and note it in the turn's record. The first call needs neither if the limits were asked
    in the step that claimed the turn.

    Raises TurnAborted("budget"), and CannotPost for a turn that another process has taken over.
    """
    spending = turn.state.spending
    together = spending.total + cost
    if not await turn.limits.reserve_more(turn.event.id, together.cost_usd):
        raise TurnAborted("budget")
    if spending.total.calls or together.cost_usd > spending.reserved:
        await spending.reserve(together)


def seconds_left(turn: Turn) -> float:
    """Until the answer must be there. Raises TurnAborted("deadline") if that is too soon for a call."""
    left = _seconds_until_post(turn)
    if left < MIN_MODEL_SECONDS:
        raise TurnAborted("deadline")
    return left


def _seconds_until_post(turn: Turn) -> float:
    return turn.event.deadline - turn.agent.now() - POST_SECONDS


async def can_ask_again(turn: Turn) -> bool:
    """Whether there is time and money to ask once more what was answered already."""
    return _seconds_until_post(turn) >= MIN_MODEL_SECONDS and await can_afford_calls(turn, 1)


async def may_continue(turn: Turn) -> bool:
    """Whether there is money for more than one call more. Raises TurnAborted("budget") if not for one."""
    if await can_afford_calls(turn, 2):
        return True
    if await can_afford_calls(turn, 1):
        return False
    raise TurnAborted("budget")


async def can_afford_calls(turn: Turn, calls: int) -> bool:
    """Whether there is money for so many calls more, by what the calls have cost so far."""
    total = turn.state.spending.total
    each = max(turn.state.spending.estimate, total.cost_usd / max(1, total.calls))
    return await turn.limits.reserve_more(turn.event.id, total.cost_usd + calls * each)
