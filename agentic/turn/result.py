"""The end of a turn: its one Result, its line in the log, its record."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from agentic.agent.agent import Agent
from agentic.agent.events import InstructionEvent, MentionEvent, ReflectionEvent, TurnEvent, asked_id, trigger_of
from agentic.agent.limits import cost_fields, on_the_wire
from agentic.llm.types import Usage
from agentic.state.shared_state import Ledger
from agentic.state.turn_records import MAX_ID_CHARACTERS, Reacted, TurnRecord
from agentic.turn.progress import Done, Facts, Progress
from agentic.turn.room_turns import number_in_room
from agentic.turn.trace import TurnTrace
from agentic.wire.messages import MentionNotice, Result, TurnNotice, TurnUsage, WireMessage

NO_USAGE = Usage()
MAX_WHY = 300  # characters of the reason why an agent was chosen, which comes over the wire

OUTCOMES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("skipped", "withdrawn", "edited", "overtaken", "out_of_turn", "stopped"),
            *("not_new", "unwanted", "person_wrote"),
        ),
        "skipped",
    ),
    "deadline": "timed_out",
    **dict.fromkeys(
        (
            *("model_failed", "session_lost", "unreadable", "picture_failed", "reaction_failed", "discord_failed"),
            "signal_failed",
            *("interrupted", "internal_error"),
        ),
        "failed",
    ),
}
"""The outcome of a turn that did nothing, by its reason. Of all other reasons it is "refused": a limit, a right or the
model itself refused the turn."""

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
        answers_message_id=done.answers if done.message_id is not None else None,
        leaves=done.leaves and done.message_id is not None,
        next_agent=done.next_agent if done.message_id is not None else None,
        usage=on_the_wire(usage) if usage.calls else None,
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


async def settle(agent: Agent, ledger: Ledger, event: TurnEvent, result: Result, progress: Progress) -> TurnRecord:
    """End a turn in one step: keep its result for a repeated instruction, book its costs, publish the message to the
    coordinator, record the turn. Returns the record."""
    record = record_of(agent.key, event, result, progress.facts, progress.trace)
    message = coordinator_message(agent.key, event, result)
    settled = await ledger.settle(
        agent.key,
        event.id,
        result.to_wire(),
        event.deadline,
        date=agent.today(),
        spent=cost_fields(result),
        say=message.to_wire() if message is not None else "",
        record=record,
    )
    if not settled:
        log.warning("%s: Redis is away, the result of turn %s is kept in memory only", agent.key, event.id)
    return record


def coordinator_message(agent: str, event: TurnEvent, result: Result) -> WireMessage | None:
    """Make the message for the coordinator: the result, or that a person was answered; None for the agent's own
    automation."""
    if event.reports:
        return result
    if not isinstance(event, MentionEvent):
        return None
    if result.message_id is None or event.to_all or event.continues or not event.by_person:
        return None
    return MentionNotice(
        agent_name=agent,
        channel_id=event.channel_id,
        message_id=result.message_id,
        trigger_message_id=event.asked.id,
    )


def notice_of(agent: str, event: TurnEvent, state: str, at: float) -> TurnNotice:
    """Make the notice that a turn began or ended, for those who watch."""
    given = event.instruction if isinstance(event, InstructionEvent) else None
    return TurnNotice(
        agent_name=agent,
        turn_id=event.id[:MAX_ID_CHARACTERS],
        channel_id=event.channel_id,
        state=state,
        at=at,
        conversation_id=given.conversation_id[:MAX_ID_CHARACTERS] or None if given else None,
    )


def outcome_of(result: Result) -> str:
    """How the turn ended, in one word: posted, reacted, written, skipped, refused, timed_out or failed."""
    if result.message_id is not None:
        return "posted"
    if not result.skipped and result.text is not None:
        return "written"
    return "reacted" if result.emoji_reacted else OUTCOMES.get(result.reason or "skipped", "refused")


def record_of(agent: str, event: TurnEvent, result: Result, facts: Facts, trace: TurnTrace) -> TurnRecord:
    """Make the record of a turn: ids, numbers and reasons, no words."""
    usage, emoji, target = result.usage or TurnUsage(), result.emoji_reacted, result.react_to_message_id
    given = event.instruction if isinstance(event, InstructionEvent) else None
    reflection = event.reflection if isinstance(event, ReflectionEvent) else None
    because = given.chosen_because if given else reflection.cause if reflection else None
    return TurnRecord(
        id=event.id[:MAX_ID_CHARACTERS],
        agent=agent,
        at=trace.clock(),
        kind="mention" if isinstance(event, MentionEvent) else event.kind,
        trigger=reflection.task if reflection else trigger_of(event),
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
        chosen_because=(because or "")[:MAX_WHY] or None,
        room_turn=number_in_room(event) if result.message_id is not None else None,
        outcome=outcome_of(result),
        phases=trace.phases,
        calls=trace.call_records,
        tool_calls=trace.tool_records,
    )
