"""Note conversations for the record: when they begin, when their starter names the topic, and when they end; and rooms,
after each change.

A room's conversation has one id all its life: each pause notes its end, with the sums so far, which a later one
replaces.
"""

from __future__ import annotations

from agent_coordinator.events import ConversationEnded, ConversationStarted, Event, RoomChanged, TurnTaken
from agentic.state.rooms import Room
from agentic.state.writer import Notes
from agentic.wire.entries import ConversationNote, RoomNote


class ConversationNotes:
    """An observer of the engine. Of reactive rounds and single turns there are no notes: they are no conversations."""

    def __init__(self, record: Notes) -> None:
        self._record = record
        self._without_topic: dict[str, ConversationNote] = {}  # running ones, by id

    def __call__(self, event: Event) -> None:
        match event:
            case ConversationStarted():
                note = ConversationNote(
                    id=event.conversation_id,
                    channel_id=event.channel_id,
                    theme=event.theme,
                    starter=event.starter,
                    topic=event.topic,
                    policy=event.policy,
                    started_at=event.started_at,
                )
                self._record.note(note)
                if note.topic is None:
                    self._without_topic[note.id] = note
            case TurnTaken(conversation_id=running, result=result) if running in self._without_topic and result.topic:
                self._record.note(self._without_topic.pop(running).model_copy(update={"topic": result.topic}))
            case RoomChanged(room):
                self._record.note(room_note(room))
            case ConversationEnded(report):
                self._without_topic.pop(report.conversation_id, None)
                note = ConversationNote(
                    id=report.conversation_id,
                    channel_id=report.channel_id,
                    theme=report.theme,
                    starter=report.opened_by,
                    topic=report.topic,
                    policy=report.policy,
                    started_at=report.started_at,
                    ended_at=report.ended_at,
                    ended_because=report.ended_because,
                    rounds=report.rounds,
                    messages=report.messages,
                    skips=report.skips,
                    cost_usd=report.cost_usd,
                )
                self._record.note(note)


def room_note(room: Room) -> RoomNote:
    return RoomNote(
        members=room.names,
        left=tuple(member.name for member in room.left),
        **room.model_dump(include=set(RoomNote.model_fields) - {"members", "left"}),
    )
