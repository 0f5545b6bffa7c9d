"""Give one turn and one result to an event that comes twice.

This process's memory is asked first, so that a repeated instruction costs nothing. Redis has the turns of earlier
processes, and how far those came that did not end. While Redis is away there is this process's memory alone.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Literal

from agent_cogs.events import ErrandEvent, InstructionEvent, MentionEvent, TurnEvent, asked_id, trigger_of
from agent_cogs.limits.usage import cost_fields
from agent_cogs.turn.event_codec import save_event
from agent_cogs.turn.progress import Facts, Progress
from agent_protocol.ledger import Ledger
from agent_protocol.turns.limits import TurnRequest
from agent_protocol.turns.records import MAX_ID_CHARACTERS, Reacted, TurnRecord
from agent_protocol.wire.messages import MentionNotice, Result, TurnUsage, WireMessage
from agent_protocol.wire.reading import read_result

REMEMBERED = 1000  # turns in this process's memory


Standing = Literal["new", "running"]


log = logging.getLogger(__name__)


class TurnRegistry:
    """The turns of one agent."""

    def __init__(self, agent: str, ledger: Ledger) -> None:
        self._agent, self._ledger = agent, ledger
        self._turns: OrderedDict[str, Result | None] = OrderedDict()

    def __contains__(self, turn_id: object) -> bool:
        return turn_id in self._turns

    def is_open(self, turn_id: str) -> bool:
        """Whether the turn waits or runs in this process."""
        return turn_id in self._turns and self._turns[turn_id] is None

    def begin(self, turn_id: str) -> Standing | Result:
        """Enter a turn: "new", or "running" where it was entered before, or its result."""
        if turn_id in self._turns:
            return self._turns[turn_id] or "running"
        self._turns[turn_id] = None
        if len(self._turns) > REMEMBERED:
            self._turns.popitem(last=False)
        return "new"

    def keep(self, turn_id: str, result: Result) -> None:
        """Keep a turn's result in this process."""
        self._turns[turn_id] = result

    def forget(self, turn_id: str) -> None:
        """Forget a turn that was not taken."""
        self._turns.pop(turn_id, None)

    def give_up(self, turn_id: str) -> None:
        """Leave a turn to another process: it stays open until one claims it."""
        self._turns.pop(turn_id, None)
        self._ledger.turns.forget(self._agent, turn_id)

    async def claim(
        self, event: TurnEvent, after: int = 0, ask: TurnRequest | None = None
    ) -> Progress | Standing | Result:
        """Claim a turn right before it is taken. Returns its progress, with what an earlier run kept of it.

        Where it cannot be taken the answer is that of `begin`, over all processes. `after` is the channel's newest
        message; a new turn asks the limits for `ask` in the same step.
        """
        saved = save_event(event, after)
        claim, verdict = await self._ledger.begin(self._agent, event.id, event.deadline, saved, ask)
        progress = Progress(self._ledger.turns, self._ledger.pictures, self._agent, event.id)
        if claim.state == "done" and claim.result is not None:
            kept = read_result(claim.result)
            if isinstance(kept, Result):
                self._turns[event.id] = kept
                return kept
        if claim.state == "left":
            log.info("%s: continuing turn %s of an earlier run", self._agent, event.id)
            return progress.take_over(claim)
        return progress.begin(ask, verdict) if claim.state == "new" else "running"

    async def settle(self, event: TurnEvent, result: Result, date: str, say: WireMessage | None, facts: Facts) -> None:
        """End a turn in one step: keep its result for a repeated instruction, book its costs on `date`, publish `say`,
        record it with its `facts`."""
        self._turns[event.id] = result
        wire = result.to_wire()
        settled = await self._ledger.settle(
            self._agent,
            event.id,
            wire,
            event.deadline,
            date=date,
            spent=cost_fields(result),
            say=wire if say is result else say.to_wire() if say is not None else "",
            record=record_of(self._agent, event, result, facts),
        )
        if not settled:
            log.warning("%s: Redis is away, the result of turn %s is kept in memory only", self._agent, event.id)


def coordinator_message(agent: str, event: TurnEvent, result: Result) -> WireMessage | None:
    """Make the message for the coordinator: the result, or that a person was answered; None for automation."""
    if isinstance(event, ErrandEvent):
        return None
    if not isinstance(event, MentionEvent):
        return result
    if result.message_id is None or event.to_all or event.continues or not event.by_person:
        return None
    return MentionNotice(
        agent_name=agent,
        channel_id=event.channel_id,
        message_id=result.message_id,
        trigger_message_id=event.asked.id,
    )


def record_of(agent: str, event: TurnEvent, result: Result, facts: Facts) -> TurnRecord:
    """Make the record of a turn: ids, numbers and reasons, no words."""
    usage, emoji, target = result.usage or TurnUsage(), result.emoji_reacted, result.react_to_message_id
    given = event.instruction if isinstance(event, InstructionEvent) else None
    return TurnRecord(
        id=event.id[:MAX_ID_CHARACTERS],
        agent=agent,
        kind="mention" if isinstance(event, MentionEvent) else event.kind,
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
