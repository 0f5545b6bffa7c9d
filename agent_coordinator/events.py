"""Events that the coordinator sends to its observers (a summary, a console), as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent_coordinator.entries import Tally
from agent_coordinator.state import ConversationState, Missed
from agentic.state.pulls import Pull
from agentic.state.rooms import Room
from agentic.wire.endings import EndReason
from agentic.wire.messages import Result


@dataclass(frozen=True, slots=True)
class ConversationReport:
    """Totals of a conversation that ended. Times in unix seconds, money in US dollars; `per_agent` by agent name.
    `opened_by`: the agent whose message is its first, "" where nobody opened it. Messages, skips and cost of a room's
    are those of its whole life, the others those since it was resumed."""

    conversation_id: str
    channel_id: int
    theme: str
    topic: str | None
    rounds: int
    messages: int
    skips: int
    timeouts: int
    absences: int
    reactions: int
    pictures: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    ended_because: EndReason
    started_at: float
    ended_at: float
    per_agent: Mapping[str, Tally]
    opened_by: str = ""
    policy: str = "rounds"


def report_of(state: ConversationState, ended_at: float) -> ConversationReport:
    """Raises ValueError for a conversation that has not ended."""
    if state.ended_because is None:
        raise ValueError(f"conversation {state.conversation_id} has not ended")
    total, room = state.total, state.room
    return ConversationReport(
        conversation_id=state.conversation_id,
        channel_id=state.channel_id,
        theme=state.theme,
        topic=state.topic,
        rounds=state.round_number,
        messages=room.turn_number if room else total.messages,
        skips=room.skips if room else total.skips,
        timeouts=total.timeouts,
        absences=total.absences,
        reactions=total.reactions,
        pictures=total.pictures,
        calls=total.calls,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cost_usd=room.cost_usd if room else total.cost_usd,
        ended_because=state.ended_because,
        started_at=state.started_at,
        ended_at=ended_at,
        per_agent=dict(state.tallies),
        opened_by=(room and room.starter) or (state.history[0].agent if state.history else ""),
        policy=state.policy,
    )


@dataclass(frozen=True, slots=True)
class ConversationStarted:
    conversation_id: str
    channel_id: int
    theme: str
    starter: str
    started_at: float  # unix seconds
    topic: str | None = None  # where an owner named it; else the starter does later
    policy: str = "rounds"


@dataclass(frozen=True, slots=True)
class ConversationResumed:
    """A conversation of an earlier leader continues in that round."""

    conversation_id: str
    channel_id: int
    theme: str
    round_number: int


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """An agent answered its instruction; a skip is an answer."""

    conversation_id: str
    channel_id: int
    round_number: int
    agent: str
    result: Result


@dataclass(frozen=True, slots=True)
class TurnMissed:
    conversation_id: str
    channel_id: int
    round_number: int
    agent: str
    why: Missed


@dataclass(frozen=True, slots=True)
class ConversationEnded:
    report: ConversationReport


@dataclass(frozen=True, slots=True)
class SpeakerChosen:
    """A policy that compares the agents chose one of them."""

    conversation_id: str
    channel_id: int
    at: float  # unix seconds
    agent: str
    because: str | None
    pulls: tuple[Pull, ...]


@dataclass(frozen=True, slots=True)
class RoomChanged:
    """A room was opened, or is no longer as it was; it is stored so."""

    room: Room


Conversing = ConversationStarted | ConversationResumed | ConversationEnded
Event = Conversing | SpeakerChosen | TurnTaken | TurnMissed | RoomChanged
Observer = Callable[[Event], None]
