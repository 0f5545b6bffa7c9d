"""The end of a turn: its one Result, its line in the log, its record."""

from __future__ import annotations

import logging

from agent_cogs.events import TurnEvent, trigger_of
from agent_cogs.turn.progress import Done
from agent_llm.types import Usage
from agent_protocol.wire.messages import Result, TurnUsage

NO_USAGE = Usage()

log = logging.getLogger(__name__)


def result_of(agent: str, turn_id: str, done: Done, usage: Usage = NO_USAGE) -> Result:
    """Make the one Result of a turn; it is skipped when nothing of it can be seen."""
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
        usage=_on_the_wire(usage) if usage.calls else None,
    )


def _on_the_wire(usage: Usage) -> TurnUsage:
    return TurnUsage(
        model=usage.model,
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        searches=usage.searches,
        pictures=usage.pictures,
        cost_usd=round(usage.cost_usd, 8),
        picture_cost_usd=round(usage.picture_cost_usd, 8),
    )


def refused(agent: str, turn_id: str, reason: str) -> Result:
    """Make the result of a turn that was not begun, for one of REASONS."""
    return result_of(agent, turn_id, Done(reason=reason))


def log_turn(agent: str, event: TurnEvent, done: Done, usage: Usage, seconds: float) -> None:
    """Log the turn in one line."""
    fields = {
        "agent": agent,
        "trigger": trigger_of(event),
        "channel": event.channel_id,
        "turn": event.id,
        "message": done.message_id,
        "reason": done.reason,
        "model": usage.model or "-",
        "cost": round(usage.cost_usd, 4),
        "seconds": round(seconds, 2),
    }
    log.info("turn %s", " ".join(f"{key}={value}" for key, value in fields.items()), extra={"fields": fields})
