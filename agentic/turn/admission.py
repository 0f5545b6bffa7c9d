"""Admit a turn: what forbids it without asking the limits, and what it asks them for.

A turn that nothing forbids asks the limits in the step that claims it (inbox/runner.py), so that it begins in one step
in Redis, as it ends in one. Any other turn asks in `admit`.
"""

from __future__ import annotations

from dataclasses import replace

from agentic.agent.agent import Agent, Turn
from agentic.agent.events import InstructionEvent, MentionEvent, ReflectionEvent, TurnEvent, asked_id, trigger_of
from agentic.agent.limits import budget_request
from agentic.chat.outlet import Outlet
from agentic.chat.transcript import Transcript
from agentic.context.window import Depth
from agentic.state.limits import TurnRequest
from agentic.state.rooms import Room
from agentic.turn.progress import Progress
from agentic.turn.question import called_off, gone, taken_back
from agentic.turn.room_turns import admit_to_room, wants
from agentic.turn.writing import writing_request
from agentic.wire.reasons import TurnOver


def withdrawn(event: TurnEvent, outlet: Outlet) -> bool:
    """Whether the question was deleted or hidden, or no longer asks this agent; of an idle task, whether any message
    was that it is about."""
    transcript = outlet.view.transcript
    if isinstance(event, MentionEvent):
        return taken_back(event, transcript) or called_off(event, transcript, outlet.view.own_ids)
    about = event.reflection.message_ids if isinstance(event, ReflectionEvent) else ()
    return any(gone(each, transcript) for each in (asked_id(event) or event.reply_to or 0, *about))


def prepared(event: TurnEvent, transcript: Transcript, room: Room | None) -> TurnEvent:
    """The event right before its turn is claimed."""
    return on_account(without_gone(event, transcript), transcript, room)


def on_account(event: TurnEvent, transcript: Transcript, room: Room | None = None) -> TurnEvent:
    """The event with the person on whose account it is: in a room the one who opened it, otherwise the one whose
    message the turn answers."""
    if not isinstance(event, InstructionEvent):
        return event
    if room is not None:
        return replace(event, on_behalf=room.opened_by)
    asked = transcript.get(asked_id(event) or 0)
    return event if asked is None or asked.speaker.kind != "person" else replace(event, on_behalf=asked.speaker.id)


def without_gone(event: TurnEvent, transcript: Transcript) -> TurnEvent:
    """The event without the person's message to take up, where that was deleted or hidden before the turn began: it is
    a turn as any other then."""
    if not isinstance(event, InstructionEvent) or not gone(event.instruction.take_up or 0, transcript):
        return event
    return replace(event, instruction=event.instruction.model_copy(update={"take_up": None}))


def obstacle(agent: Agent, outlet: Outlet) -> str | None:
    """The reason that forbids the turn before the limits are asked."""
    return outlet.sink.refusal() or ("benched" if agent.model.backoff.seconds_left else None)


def request_of(agent: Agent, outlet: Outlet, event: TurnEvent) -> TurnRequest:
    """The turn's request to the limits."""
    if isinstance(event, ReflectionEvent) and event.writes:
        return writing_request(agent, event)
    options = agent.options_for(outlet)
    depth = Depth.of(options)
    wish = budget_request(
        event,
        trigger_of(event),
        agent.model.tariff,
        outlet.view.transcript,
        options,
        window=depth.messages + depth.step,
        frame=agent.frame.tokens,
    )
    return agent.limits.ask(
        event.channel_id,
        agent.today(),
        cools_down=event.cools_down,
        for_people=event.for_people,
        wish=wish,
        free=agent.model.tariff.free,
        private=outlet.view.is_private,
    )


def request_at_claim(agent: Agent, outlet: Outlet, event: TurnEvent, room: Room | None = None) -> TurnRequest | None:
    """The request that goes along with the claim; None where the turn will not come that far."""
    if event.deadline <= agent.clock() or withdrawn(event, outlet) or obstacle(agent, outlet):
        return None
    if not wants(room, event):
        return None
    return request_of(agent, outlet, event)


async def admit(turn: Turn, progress: Progress) -> None:
    """Take the turn from its limits, unless the step that claimed it did. A conversation's last turn is kept as such.

    Raises TurnOver with the reason that forbids the turn, and CannotPost for one that another process has taken over.
    """
    agent, outlet, spending = turn.agent, turn.outlet, turn.spending
    request, verdict = progress.request, progress.verdict
    if progress.continued:  # it was admitted when it began
        progress.room = await admit_to_room(turn, progress.room)
        if (refusal := outlet.sink.refusal()) is not None:
            raise TurnOver(refusal)
        request = request_of(agent, outlet, turn.event)
        agent.limits.resume(request, spending.total.cost_usd)
    elif request is None or verdict is None:
        progress.room = await admit_to_room(turn, progress.room)
        if (reason := obstacle(agent, outlet)) is not None:
            raise TurnOver(reason)
        request = request_of(agent, outlet, turn.event)
        verdict = await agent.limits.take(request)
    if verdict not in ("ok", "closing", None):
        raise TurnOver(verdict)
    spending.estimate = request.budget.estimate if request.budget else 0.0
    if verdict == "closing":
        await progress.keep_closing()
    progress.admitted = True
