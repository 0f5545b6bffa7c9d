"""The log of messages: what is said in channels where the option `message_log` is on goes to the record.

It follows the transcripts, so that it does not matter which service brought a message, or which of several bots. What
changed is looked at together, a moment later: a message that is deleted at once is never logged, and one that grows
while it is written is logged once. A message that is hidden later is logged again without its words, which removes the
summaries that have them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from cachetools import LRUCache

from agentic.chat.transcript import Transcript, Transcripts
from agentic.context.entries import Entry, is_visible
from agentic.context.render import text_with_marks
from agentic.record.hearers import Hearers, Hearing
from agentic.state.writer import Notes
from agentic.wire.entries import LoggedMessage

PAUSE = 2.0  # seconds between a change and a look at it
REMEMBERED = 20_000  # messages that were logged, and changes that wait
CHARACTERS = 4_000  # of a message

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LogRules:
    """`ignored` says whether the bots ignore a person, with these roles. What was written while the program was off is
    logged where it is at most `late_seconds` old. `deleted` is called for logged messages that are gone."""

    ignored: Callable[[int, frozenset[int]], bool]
    late_seconds: float
    deleted: Callable[[int, Collection[int]], None]


@dataclass(frozen=True, slots=True)
class _Logged:
    """A message as it was logged last."""

    hearing: Hearing
    fingerprint: int


class MessageLog:
    """One a process. `clock` gives unix seconds."""

    def __init__(
        self, transcripts: Transcripts, hearers: Hearers, record: Notes, rules: LogRules, clock: Callable[[], float]
    ) -> None:
        self._transcripts, self._hearers, self._record = transcripts, hearers, record
        self._rules, self._clock = rules, clock
        self._since = clock() - rules.late_seconds
        self._changed: dict[int, int] = {}  # message → channel
        self._edited = LRUCache[int, None](REMEMBERED)
        self._logged = LRUCache[int, _Logged](REMEMBERED)
        self._more = asyncio.Event()
        transcripts.on_change(self._note_edited)

    async def run(self) -> None:
        """Follow the transcripts until cancelled; what has changed by then is logged."""
        unwatch = self._transcripts.watch(self.changed)
        try:
            while True:
                await self._more.wait()
                await asyncio.sleep(PAUSE)
                self.flush()
        finally:
            unwatch()
            self.flush()

    def changed(self, channel_id: int, message_id: int) -> None:
        """A message came, changed or was deleted, or its reactions changed."""
        if len(self._changed) < REMEMBERED:
            self._changed[message_id] = channel_id
            self._more.set()

    def _note_edited(self, channel_id: int, message_ids: Collection[int]) -> None:
        """Messages were edited or deleted, which an earlier run of the program may have logged."""
        del channel_id
        self._edited.update(dict.fromkeys(message_ids))

    def flush(self) -> None:
        """Log what has changed."""
        changed, self._changed = self._changed, {}
        self._more.clear()
        by_channel: dict[int, list[int]] = {}
        for message_id, channel_id in changed.items():
            by_channel.setdefault(channel_id, []).append(message_id)
        for channel_id, message_ids in by_channel.items():
            try:
                self._look_at(channel_id, message_ids)
            except Exception:  # the edge of the task: one odd channel must not end the log
                log.exception("channel %d: its messages are not logged this time", channel_id)

    def _look_at(self, channel_id: int, message_ids: Collection[int]) -> None:
        transcript = self._transcripts.known(channel_id)
        if transcript is None:
            return
        self._remove(transcript, message_ids)
        entries = [entry for message_id in message_ids if (entry := transcript.get(message_id)) is not None]
        entries = [entry for entry in entries if self._matters(entry)]
        hearing = self._hearers.logging(channel_id) if entries else None
        for entry in entries:
            self._log(replace(entry, reply_to=transcript.parent_of(entry)), channel_id, hearing)

    def _remove(self, transcript: Transcript, message_ids: Collection[int]) -> None:
        gone = [each for each in message_ids if each in self._logged and each in transcript.deleted]
        for message_id in gone:
            del self._logged[message_id]
        if gone:
            self._rules.deleted(transcript.channel_id, gone)

    def _matters(self, entry: Entry) -> bool:
        """Whether the message is new, or may have been logged and reads otherwise now."""
        return entry.created_at >= self._since or self._may_be_logged(entry)

    def _may_be_logged(self, entry: Entry) -> bool:
        hidden_later = not entry.hidden and not is_visible(entry)
        return entry.id in self._logged or entry.id in self._edited or hidden_later

    def _log(self, entry: Entry, channel_id: int, hearing: Hearing | None) -> None:
        """Where the log was switched off, a message that it has is still kept true."""
        before = self._logged.get(entry.id)
        hearing = hearing or (before.hearing if before is not None else None)
        kept = self._may_keep(entry)
        if hearing is None or not (kept or self._may_be_logged(entry)):
            return
        said = text_with_marks(entry)[:CHARACTERS] if kept else ""
        now = _Logged(hearing, hash((said, entry.speaker.agent, entry.reply_to)))
        if before is None or before.fingerprint != now.fingerprint:
            self._logged[entry.id] = now
            self._record.log(hearing.agent, _logged(entry, said, channel_id, hearing, self._clock()))

    def _may_keep(self, entry: Entry) -> bool:
        speaker = entry.speaker
        ignored = speaker.kind == "person" and self._rules.ignored(speaker.id, entry.author_roles)
        return entry.order is None and is_visible(entry) and not ignored and not speaker.is_service


def _logged(entry: Entry, said: str, channel_id: int, hearing: Hearing, now: float) -> LoggedMessage:
    speaker = entry.speaker
    return LoggedMessage.model_construct(
        message_id=entry.id,
        channel_id=channel_id,
        guild_id=hearing.guild_id,
        service=hearing.service,
        author=speaker.kind,
        author_id=None if speaker.kind == "agent" else speaker.id,
        agent=speaker.agent,
        name=speaker.name,
        text=said,
        reply_to=entry.reply_to,
        at=entry.created_at,
        read_at=now,
    )
