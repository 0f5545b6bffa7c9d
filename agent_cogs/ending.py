"""What is told of a turn when it has ended: its one Result, its line in the log, its record."""

from __future__ import annotations

import logging

from agent_cogs.events import InstructionEvent, MentionEvent, TurnEvent
from agent_cogs.progress import Done, Facts
from agent_cogs.spending import Spending
from agent_context.build import Trigger
from agent_protocol.messages import Result
from agent_protocol.messages import Usage as WireUsage
from agent_protocol.records import MAX_ID_CHARACTERS, Reacted, TurnRecord

log = logging.getLogger(__name__)


def asked_id(event: TurnEvent) -> int | None:
    """The message that the turn answers."""
    if isinstance(event, MentionEvent):
        return event.asked.id
    return event.instruction.trigger_message_id if isinstance(event, InstructionEvent) else None


def trigger_of(event: TurnEvent) -> Trigger:
    if isinstance(event, MentionEvent):
        return "continue" if event.continues else "mention" if event.by_person else "call"
    if not isinstance(event, InstructionEvent):
        raise TypeError(f"no trigger is known for {type(event).__name__}")
    if event.instruction.trigger_message_id is not None:
        return "reactive"
    return "starter" if event.instruction.is_conversation_starter else "round"


def result_of(agent: str, turn_id: str, done: Done, spending: Spending | None = None) -> Result:
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
        else WireUsage(
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


def log_turn(agent: str, event: TurnEvent, done: Done, spending: Spending, seconds: float) -> None:
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


def record_of(agent: str, event: TurnEvent, result: Result, facts: Facts) -> TurnRecord:
    """What is kept of a turn: ids, numbers and reasons, nothing that anybody said."""
    usage, emoji, target = result.usage or WireUsage(), result.emoji_reacted, result.react_to_message_id
    given = event.instruction if isinstance(event, InstructionEvent) else None
    return TurnRecord(
        id=event.id[:MAX_ID_CHARACTERS],
        agent=agent,
        kind="instruction" if given else "mention",
        trigger=trigger_of(event),
        conversation_id=given.conversation_id[:MAX_ID_CHARACTERS] or None if given else None,
        round_number=given.round_number if given else None,
        channel_id=event.channel_id,
        guild_id=facts.guild_id,
        asked_by=facts.asked_by or (event.person_id if isinstance(event, MentionEvent) else None),
        asked_message_id=asked_id(event),
        model=facts.model,
        entries=facts.entries,
        seconds=round(facts.seconds, 3),
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        reason=result.reason,
        posted=facts.posted,
        reacted=Reacted(emoji=emoji, message_id=target) if emoji and target is not None else None,
        image=result.image_url is not None,
    )
