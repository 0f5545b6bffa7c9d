"""What is told of a turn when it has ended: its one Result, its line in the log, its record."""

from __future__ import annotations

import logging

from agent_cogs.events import TurnEvent, trigger_of
from agent_cogs.limits.usage import TurnSpending
from agent_cogs.turn.progress import Done
from agent_protocol.wire.messages import Result, TurnUsage

log = logging.getLogger(__name__)


def result_of(agent: str, turn_id: str, done: Done, spending: TurnSpending | None = None) -> Result:
    """The one Result of a turn. It is skipped when nothing of it can be seen."""
    total = spending.total if spending is not None else None
    return Result(
        instruction_id=turn_id,
        agent_name=agent,
        skipped=done.nothing,
        text=done.text if not done.nothing else None,
        image_url=done.picture_url,
        emoji_reacted=done.emoji,
        message_id=done.message_id,
        reason=done.reason,
        react_to_message_id=done.reacted_to,
        image_prompt=done.image_prompt,
        end_conversation=done.end_conversation and not done.nothing,
        topic=done.topic,
        usage=None
        if total is None or not total.calls
        else TurnUsage(
            model=total.model,
            calls=total.calls,
            input_tokens=total.input_tokens,
            cached_tokens=total.cached_tokens,
            output_tokens=total.output_tokens,
            reasoning_tokens=total.reasoning_tokens,
            searches=total.searches,
            pictures=total.pictures,
            cost_usd=round(total.cost_usd, 8),
            picture_cost_usd=round(total.picture_cost_usd, 8),
        ),
    )


def refused(agent: str, turn_id: str, reason: str) -> Result:
    """The result of a turn that was not even begun, for one of REASONS."""
    return result_of(agent, turn_id, Done(reason=reason))


def log_turn(agent: str, event: TurnEvent, done: Done, spending: TurnSpending, seconds: float) -> None:
    """One line a turn."""
    fields = {
        "agent": agent,
        "trigger": trigger_of(event),
        "channel": event.channel_id,
        "turn": event.id,
        "message": done.message_id,
        "reason": done.reason,
        "model": spending.total.model or "-",
        "cost": round(spending.total.cost_usd, 4),
        "seconds": round(seconds, 2),
    }
    log.info("turn %s", " ".join(f"{key}={value}" for key, value in fields.items()), extra={"fields": fields})
