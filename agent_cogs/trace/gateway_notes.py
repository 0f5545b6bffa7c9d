"""Note for the record what Discord reports of recorded messages: reactions to agents' posts, and deletions."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cachetools import LRUCache

from agent_chat.transcript import Transcripts
from agent_protocol.record.entries import DeletionNote, ReactionNote
from agent_protocol.record.writer import Notes

REMEMBERED = 5000  # deleted messages


class GatewayNotes:
    """Shared by the bots of a process, each of which hears of the same event. `clock` gives unix seconds."""

    def __init__(self, record: Notes, transcripts: Transcripts, clock: Callable[[], float]) -> None:
        self._record, self._transcripts, self._clock = record, transcripts, clock
        self._deleted = LRUCache[int, None](REMEMBERED)

    def deleted(self, channel_id: int, message_ids: Collection[int]) -> None:
        """Note deleted messages once, in whatever channel: `.history` quotes other channels too."""
        new = tuple(message_id for message_id in message_ids if message_id not in self._deleted)
        self._deleted.update(dict.fromkeys(new))
        if new:
            self._record.note(DeletionNote(channel_id=channel_id, message_ids=new, at=self._clock()))

    def channel_deleted(self, channel_id: int) -> None:
        """Note that a channel or thread is gone, with all its messages."""
        if channel_id not in self._deleted:
            self._deleted[channel_id] = None
            transcript = self._transcripts.known(channel_id)
            known = tuple(entry.id for entry in transcript.entries()) if transcript is not None else ()
            self._record.note(DeletionNote(channel_id=channel_id, message_ids=known, at=self._clock(), whole=True))

    def reacted(
        self, agent: str, channel_id: int, message_id: int, user_id: int, emoji: str, *, given: bool = True
    ) -> None:
        """Note a reaction to one of the agent's posts: its bot alone does so, of all bots of all processes."""
        transcript = self._transcripts.known(channel_id)
        post = transcript.get(message_id) if transcript is not None else None
        if post is not None and post.speaker.agent == agent:
            note = ReactionNote(
                message_id=message_id,
                channel_id=channel_id,
                user_id=user_id,
                emoji=emoji,
                at=self._clock(),
                given=given,
            )
            self._record.note(note)
