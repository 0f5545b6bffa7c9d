"""Events that the coordinator sends to its observers (a summary, a console), and the observers that store them.

ConversationNotes writes conversations and rooms to the record: when they begin, when their starter names the topic,
when they end. A room's conversation has one id all its life: each pause notes its end, with the sums so far, which a
later one replaces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent_coordinator.context import CoordinatorContext
from agentic.state.conversation_state import AgentCounts, ConversationState, Missed
from agentic.state.conversations import SpeakerChoice
from agentic.state.record_stream import Notes
from agentic.state.rooms import Room
from agentic.wire.entries import ConversationNote, RoomNote
from agentic.wire.messages import Result
from agentic.wire.reasons import EndReason

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConversationReport:
    """Totals of a conversation that ended. Times in unix seconds, money in US dollars; `per_agent` by agent name.
    `opened_by`: the agent whose message is its first, "" if nobody opened it. Messages, skips and cost of a room's
    are those of its whole life, `total` has those since it was resumed."""

    conversation_id: str
    channel_id: int
    theme: str
    topic: str | None
    rounds: int
    messages: int
    skips: int
    cost_usd: float
    total: AgentCounts
    ended_because: EndReason
    started_at: float
    ended_at: float
    per_agent: Mapping[str, AgentCounts]
    opened_by: str = ""
    policy: str = "rounds"


def report_of(state: ConversationState, ended_at: float) -> ConversationReport:
    """Raises ValueError for a conversation that has not ended."""
    if state.ended_because is None:
        raise ValueError(f"conversation {state.id} has not ended")
    total, room = state.counts.total, state.room
    return ConversationReport(
        conversation_id=state.id,
        channel_id=state.channel_id,
        theme=state.theme,
        topic=state.talk.topic,
        rounds=state.counts.round,
        messages=room.turn_number if room else total.messages,
        skips=room.skips if room else total.skips,
        cost_usd=room.cost_usd if room else total.cost_usd,
        total=total,
        ended_because=state.ended_because,
        started_at=state.started_at,
        ended_at=ended_at,
        per_agent=dict(state.counts.agents),
        opened_by=(room and room.starter) or (state.talk.history[0].agent if state.talk.history else ""),
        policy=state.policy,
    )


@dataclass(frozen=True, slots=True)
class ConversationStarted:
    state: ConversationState
    starter: str


@dataclass(frozen=True, slots=True)
class ConversationResumed:
    """A conversation of an earlier leader continues."""

    state: ConversationState


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """An agent answered its instruction; a skip is an answer. `state`: of the conversation, before the turn."""

    state: ConversationState
    agent: str
    result: Result


@dataclass(frozen=True, slots=True)
class TurnMissed:
    state: ConversationState
    agent: str
    why: Missed


@dataclass(frozen=True, slots=True)
class ConversationEnded:
    report: ConversationReport


@dataclass(frozen=True, slots=True)
class RoomChanged:
    """A room was opened, or is no longer as it was; it is stored so."""

    room: Room


Event = (
    ConversationStarted | ConversationResumed | ConversationEnded | SpeakerChoice | TurnTaken | TurnMissed | RoomChanged
)
Observer = Callable[[Event], None]


_REPORTED = (
    *("channel_id", "theme", "topic", "policy", "started_at", "ended_at", "ended_because"),
    *("rounds", "messages", "skips", "cost_usd"),
)


class ConversationNotes:
    """An observer of the engine. There are no notes of reactive rounds and single turns: they are no conversations."""

    def __init__(self, record: Notes) -> None:
        self._record = record
        self._without_topic: dict[str, ConversationNote] = {}  # running ones, by id

    def __call__(self, event: Event) -> None:
        match event:
            case ConversationStarted(state, starter):
                same = {name: getattr(state, name) for name in ("id", "channel_id", "theme", "policy", "started_at")}
                note = ConversationNote(**same, starter=starter, topic=state.talk.topic)
                self._record.note(note)
                if note.topic is None:
                    self._without_topic[state.id] = note
            case TurnTaken(state, _, result) if state.id in self._without_topic and result.topic:
                self._record.note(self._without_topic.pop(state.id).model_copy(update={"topic": result.topic}))
            case RoomChanged(room):
                fields = room.model_dump(include=set(RoomNote.model_fields) - {"members", "left"})
                left = tuple(member.name for member in room.left)
                self._record.note(RoomNote(members=room.names, left=left, **fields))
            case ConversationEnded(report):
                self._without_topic.pop(report.conversation_id, None)
                values = {name: getattr(report, name) for name in _REPORTED}
                self._record.note(ConversationNote(id=report.conversation_id, starter=report.opened_by, **values))


def save_choices(context: CoordinatorContext) -> Observer:
    """An observer that stores the last choice of a speaker in each channel, for people who ask why an agent spoke."""

    def observe(event: Event) -> None:
        if isinstance(event, SpeakerChoice):
            context.tasks.start(context.state.coordination.scores.keep(event), "the choice of a speaker")

    return observe
