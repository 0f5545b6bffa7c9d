"""Note conversations for the record, when they begin and when they end."""

from __future__ import annotations

from agent_coordinator.events import ConversationEnded, ConversationStarted, Event
from agent_protocol.record.entries import ConversationNote
from agent_protocol.record.writer import Notes


class ConversationNotes:
    """An observer of the engine. Of reactive rounds and single turns there are no notes: they are no conversations."""

    def __init__(self, record: Notes) -> None:
        self._record = record

    def __call__(self, event: Event) -> None:
        match event:
            case ConversationStarted():
                note = ConversationNote(
                    id=event.conversation_id,
                    channel_id=event.channel_id,
                    theme=event.theme,
                    starter=event.starter,
                    topic=event.topic,
                    started_at=event.started_at,
                )
                self._record.note(note)
            case ConversationEnded(report):
                note = ConversationNote(
                    id=report.conversation_id,
                    channel_id=report.channel_id,
                    theme=report.theme,
                    starter=report.opened_by,
                    topic=report.topic,
                    started_at=report.started_at,
                    ended_at=report.ended_at,
                    ended_because=report.ended_because,
                    rounds=report.rounds,
                    messages=report.messages,
                    skips=report.skips,
                    cost_usd=report.cost_usd,
                )
                self._record.note(note)
