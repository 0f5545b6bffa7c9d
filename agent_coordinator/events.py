"""Events that the engine sends to its observers, and the observer that records them.

ConversationNotes records conversations and rooms when they begin, when the starter names the topic, and when they end.
A room has one conversation id all its life: each pause records an end with the sums so far, and the next replaces it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentic.state.conversation_state import ConversationState
from agentic.state.record_stream import Notes
from agentic.state.rooms import Room
from agentic.wire.entries import ConversationNote, RoomNote
from agentic.wire.messages import Result


@dataclass(frozen=True, slots=True)
class ConversationStarted:
    state: ConversationState
    starter: str


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """An agent answered its instruction, perhaps with a skip. `state`: the conversation before the turn."""

    state: ConversationState
    agent: str
    result: Result


@dataclass(frozen=True, slots=True)
class ConversationEnded:
    state: ConversationState
    ended_at: float


@dataclass(frozen=True, slots=True)
class RoomChanged:
    """A room was opened or changed, and has been stored."""

    room: Room


Event = ConversationStarted | TurnTaken | ConversationEnded | RoomChanged
Observer = Callable[[Event], None]


class ConversationNotes:
    """Record conversations and rooms, but not reactive rounds or single turns."""

    def __init__(self, record: Notes) -> None:
        self._record = record
        self._without_topic: dict[str, ConversationNote] = {}  # running ones, by id

    def __call__(self, event: Event) -> None:
        match event:
            case ConversationStarted(state, starter):
                note = _note_of(state, starter=starter)
                self._record.note(note)
                if note.topic is None:
                    self._without_topic[state.id] = note
            case TurnTaken(state, _, result) if state.id in self._without_topic and result.topic:
                self._record.note(self._without_topic.pop(state.id).model_copy(update={"topic": result.topic}))
            case RoomChanged(room):
                fields = room.model_dump(include=set(RoomNote.model_fields) - {"members", "left", "sides"})
                left = tuple(member.name for member in room.left)
                sides = {member.name: member.side for member in (*room.left, *room.members) if member.side}
                self._record.note(RoomNote(members=room.names, left=left, sides=sides, **fields))
            case ConversationEnded(state, ended_at):
                self._without_topic.pop(state.id, None)
                first = next((post.agent for post in state.talk.history), "")
                opened_by = (state.room and state.room.starter) or first
                same = {name: getattr(state, name) for name in ("ended_because", "messages", "skips", "cost_usd")}
                rounds = state.counts.round
                self._record.note(_note_of(state, starter=opened_by, ended_at=ended_at, rounds=rounds, **same))


def _note_of(state: ConversationState, **values: Any) -> ConversationNote:
    same = {name: getattr(state, name) for name in ("id", "channel_id", "theme", "policy", "started_at")}
    return ConversationNote(**same, topic=state.talk.topic, **values)
