"""Note for the record what a service reports of recorded messages: reactions to agents' posts, and deletions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection

from cachetools import LRUCache

from agentic.chat.transcript import Transcripts
from agentic.process.tasks import BackgroundTasks
from agentic.state.writer import Notes
from agentic.wire.entries import DeletionNote, ReactionNote
from agentic.wire.link import RedisAway

REMEMBERED = 5000  # deleted messages

PostedBy = Callable[[int], Awaitable[str | None]]
DropSummary = Callable[[int, Collection[int] | None], Awaitable[None]]

log = logging.getLogger(__name__)


class GatewayNotes:
    """Shared by the bots of a process, each of which hears of the same event. `clock` gives unix seconds.
    `drop_summary` removes a thread's summary that has words of these messages; None: of any. `posted_by` names the
    agent of a recorded post, which may be older than this run of the program."""

    def __init__(
        self,
        record: Notes,
        transcripts: Transcripts,
        clock: Callable[[], float],
        drop_summary: DropSummary,
        posted_by: PostedBy,
    ) -> None:
        self._record, self._transcripts, self._clock = record, transcripts, clock
        self._drop_summary, self._posted_by, self._background = drop_summary, posted_by, BackgroundTasks()
        self._deleted = LRUCache[int, None](REMEMBERED)

    def deleted(self, channel_id: int, message_ids: Collection[int]) -> None:
        """Note deleted messages once, in whatever channel: `.history` quotes other channels too."""
        new = tuple(message_id for message_id in message_ids if message_id not in self._deleted)
        self._deleted.update(dict.fromkeys(new))
        if new:
            self._record.note(DeletionNote(channel_id=channel_id, message_ids=new, at=self._clock()))
            self._background.start(self._without_summary(channel_id, new), f"summary of {channel_id}")

    async def _without_summary(self, channel_id: int, message_ids: Collection[int] | None) -> None:
        try:
            await self._drop_summary(channel_id, message_ids)
        except RedisAway as away:  # the next turn there sees that it is outdated
            log.debug("the summary of thread %d stays for now: %s", channel_id, away)

    def channel_deleted(self, channel_id: int) -> None:
        """Note that a channel or thread is gone, with all its messages."""
        if channel_id not in self._deleted:
            self._deleted[channel_id] = None
            transcript = self._transcripts.known(channel_id)
            known = tuple(entry.id for entry in transcript.entries()) if transcript is not None else ()
            self._record.note(DeletionNote(channel_id=channel_id, message_ids=known, at=self._clock(), whole=True))
            self._background.start(self._without_summary(channel_id, None), f"summary of {channel_id}")

    def reacted(
        self, agent: str, channel_id: int, message_id: int, user_id: int, emoji: str, *, given: bool = True
    ) -> None:
        """Note a reaction to one of the agent's posts: its bot alone does so, of all bots of all processes."""
        transcript = self._transcripts.known(channel_id)
        post = transcript.get(message_id) if transcript is not None else None
        note = ReactionNote(
            message_id=message_id,
            channel_id=channel_id,
            user_id=user_id,
            emoji=emoji,
            at=self._clock(),
            given=given,
        )
        if post is None:
            self._background.start(self._note_if_posted_by(agent, note), f"reaction to {message_id}")
        elif post.speaker.agent == agent:
            self._record.note(note)

    async def _note_if_posted_by(self, agent: str, note: ReactionNote) -> None:
        if await self._posted_by(note.message_id) == agent:
            self._record.note(note)
