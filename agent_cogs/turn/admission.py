"""Whether a turn is let in: what stands against it by itself, and what it asks the limits for.

A turn against which nothing stands asks the limits in the very step that claims it (taking.py), so that it begins in
one step in Redis, as it ends in one. Any other turn asks once it has come that far (turn.py).
"""

from __future__ import annotations

from dataclasses import replace

from agent_chat.outlet import Outlet
from agent_chat.transcript import Transcript
from agent_cogs.agent import Agent
from agent_cogs.events import InstructionEvent, MentionEvent, TurnEvent, asked_id, trigger_of
from agent_cogs.limits.cost_estimate import budget_request
from agent_cogs.prompt.question import called_off, gone, taken_back
from agent_context.selecting.depth import Depth
from agent_protocol.turns.limits import TurnRequest


def withdrawn(event: TurnEvent, outlet: Outlet) -> bool:
    """What was asked was taken back, or asks the agent no more: it is neither read nor answered."""
    if isinstance(event, MentionEvent):
        return taken_back(event, outlet.view.transcript) or called_off(
            event, outlet.view.transcript, outlet.view.own_ids
        )
    return gone(asked_id(event) or 0, outlet.view.transcript)


def on_account(event: TurnEvent, transcript: Transcript) -> TurnEvent:
    """The event with the person whose words brought it about: who was answered, where others join in on that."""
    asked = transcript.get(event.instruction.trigger_message_id or 0) if isinstance(event, InstructionEvent) else None
    if not isinstance(event, InstructionEvent) or asked is None or asked.speaker.kind != "person":
        return event
    return replace(event, on_behalf=asked.speaker.id)


def obstacle(agent: Agent, outlet: Outlet) -> str | None:
    """The reason for which the limits need not even be asked."""
    return outlet.sink.refusal() or ("benched" if agent.model.backoff.seconds_left else None)


def ask_of(agent: Agent, outlet: Outlet, event: TurnEvent) -> TurnRequest:
    """What the turn asks the limits for."""
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
    )


def asked_at_once(agent: Agent, outlet: Outlet, event: TurnEvent) -> TurnRequest | None:
    """What is asked along with the claim; None where the turn will not come that far."""
    if event.deadline <= agent.clock() or withdrawn(event, outlet) or obstacle(agent, outlet):
        return None
    return ask_of(agent, outlet, event)
