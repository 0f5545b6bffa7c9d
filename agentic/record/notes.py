"""Note events from services for the record: logged messages, rooms' messages, reactions, deletions, consents.

The logs follow the transcripts, so it doesn't matter which service or bot received a message. After a restart they note
the newest messages again; the record stores messages by id, so it has no duplicates.

Turns are reported to TurnWatchers: the writer of the record, traces, metrics.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cachetools import LRUCache

from agentic.chat.transcript import Transcripts
from agentic.context.entries import Entry, is_visible
from agentic.context.options import Options
from agentic.context.render import text_with_marks
from agentic.process.tasks import BackgroundTasks
from agentic.record.memories import MemoryReader
from agentic.state.context import Summaries
from agentic.state.idle import ProactiveMessages
from agentic.state.record_stream import Notes, TurnWords
from agentic.state.turn_records import TurnRecord
from agentic.wire.entries import ConsentNote, DeletionNote, LoggedMessage, ReactionNote, RoomMessage, RoomWords
from agentic.wire.messages import TurnNotice

PAUSE = 2.0  # seconds to collect changes before they are logged
MAX_LOGGED = 20_000  # remembered logged messages, and waiting changes
MAX_CHARACTERS = 4_000  # of a message
MAX_DELETED = 5000  # remembered deleted messages
MAX_REACTIONS = 5000  # remembered reactions to posts of personas
MAX_ROOMS = 500  # remembered rooms
MAX_ROOM_MESSAGES = 200  # newest messages of a room that are checked

IsIgnored = Callable[[int, frozenset[int], int | None], bool]  # whether the bots ignore a person with roles in a guild

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelReader:
    """An agent that reads a channel. `guild_id`: the server or group whose members read it, None in a chat with one
    person. `service`: as in LoggedMessage."""

    agent: str
    options: Options
    guild_id: int | None = None
    service: str


FindReader = Callable[[int], ChannelReader | None]  # takes a channel; returns None if the agent doesn't read it


class ChannelReaders:
    """The agents of this process that read channels, on any service. Each agent that listens adds itself."""

    def __init__(self) -> None:
        self._readers: dict[str, FindReader] = {}

    def __contains__(self, agent: str) -> bool:
        return agent in self._readers

    def add(self, agent: str, find: FindReader) -> None:
        self._readers[agent] = find

    def remove(self, agent: str, find: FindReader) -> None:
        """Remove the agent, unless a newer run of it has added itself since."""
        if self._readers.get(agent) == find:
            del self._readers[agent]

    def of(self, channel_id: int) -> tuple[ChannelReader, ...]:
        """Return the agents that read the channel now."""
        found = (find(channel_id) for find in tuple(self._readers.values()))
        return tuple(reader for reader in found if reader is not None)

    def logging(self, channel_id: int) -> ChannelReader | None:
        """Return the first agent for which the channel's messages are logged."""
        return next((reader for reader in self.of(channel_id) if reader.options.message_log), None)


class MessageLog:
    """Logs messages in channels with the option `message_log`. There is one per process.

    Changes are handled together after a moment: a message that is deleted immediately is never logged, and a message
    that grows while it is written is logged once. If a message is hidden later, it is logged again without its words,
    which removes the summaries that contain them.

    Messages from while the program was off are logged if they are at most `late_seconds` old. `deleted` is called with
    logged messages that were deleted. `clock`: in unix seconds.
    """

    def __init__(
        self,
        transcripts: Transcripts,
        readers: ChannelReaders,
        record: Notes,
        clock: Callable[[], float],
        *,
        is_ignored: IsIgnored,
        late_seconds: float,
        deleted: Callable[[int, Collection[int]], None],
    ) -> None:
        self._transcripts, self._readers, self._record = transcripts, readers, record
        self._clock, self._is_ignored, self._deleted = clock, is_ignored, deleted
        self._since = clock() - late_seconds
        self._changed: dict[int, int] = {}  # message → channel
        self._edited = LRUCache[int, None](MAX_LOGGED)
        self._logged = LRUCache[int, tuple[ChannelReader, int]](MAX_LOGGED)  # message → reader and hash
        self._more = asyncio.Event()
        # Note edited and deleted messages, because an earlier run of the program may have logged them.
        transcripts.on_change(lambda _, message_ids: self._edited.update(dict.fromkeys(message_ids)))

    async def run(self) -> None:
        """Log the transcripts' changes until canceled, including the last ones."""
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
        """Note that a message came, changed, or was deleted, or that its reactions changed."""
        if len(self._changed) < MAX_LOGGED:
            self._changed[message_id] = channel_id
            self._more.set()

    def flush(self) -> None:
        changed, self._changed = self._changed, {}
        self._more.clear()
        by_channel: dict[int, list[int]] = defaultdict(list)
        for message_id, channel_id in changed.items():
            by_channel[channel_id].append(message_id)
        for channel_id, message_ids in by_channel.items():
            try:
                self._look_at(channel_id, message_ids)
            except Exception:  # the edge of the task: a bug with one channel must not end the log
                log.exception("channel %d: logging its messages failed; they are skipped", channel_id)

    def _look_at(self, channel_id: int, message_ids: Collection[int]) -> None:
        transcript = self._transcripts.known(channel_id)
        if transcript is None:
            return
        if gone := [each for each in message_ids if each in self._logged and each in transcript.deleted]:
            for message_id in gone:
                del self._logged[message_id]
            self._deleted(channel_id, gone)
        entries = [entry for message_id in message_ids if (entry := transcript.get(message_id)) is not None]
        entries = [entry for entry in entries if entry.created_at >= self._since or self._may_be_logged(entry)]
        reader = self._readers.logging(channel_id) if entries else None
        for entry in entries:
            self._log(replace(entry, reply_to=transcript.parent_of(entry)), channel_id, reader)

    def _may_be_logged(self, entry: Entry) -> bool:
        """Return whether the log may have an older text of the message."""
        hidden_later = not entry.hidden and not is_visible(entry)
        return entry.id in self._logged or entry.id in self._edited or hidden_later

    def _log(self, entry: Entry, channel_id: int, reader: ChannelReader | None) -> None:
        """Log the message. If the log was turned off, only messages that it already has are updated."""
        reader_before, fingerprint = self._logged.get(entry.id, (None, None))
        reader, speaker = reader or reader_before, entry.speaker
        guild = None if reader is None else reader.guild_id
        ignored = speaker.kind == "person" and self._is_ignored(speaker.id, speaker.roles, guild)
        keeps_words = entry.order is None and is_visible(entry) and not ignored and not speaker.is_service
        if reader is None or not (keeps_words or self._may_be_logged(entry)):
            return
        said = text_with_marks(entry)[:MAX_CHARACTERS] if keeps_words else ""
        now = hash((said, speaker.agent, entry.reply_to))
        if fingerprint != now:
            self._logged[entry.id] = reader, now
            place = {"channel_id": channel_id, "guild_id": reader.guild_id, "service": reader.service}
            message = {**_fields_of(entry), **place, "text": said, "reply_to": entry.reply_to, "read_at": self._clock()}
            self._record.log(reader.agent, LoggedMessage.model_construct(**message))


class RoomLog:
    """Finds messages of rooms that aren't recorded yet, or were edited since.

    There is one per process, called after each turn in a room. `clock`: in unix seconds.
    """

    def __init__(self, clock: Callable[[], float], is_ignored: IsIgnored) -> None:
        self._clock, self._is_ignored = clock, is_ignored
        self._noted: LRUCache[int, dict[int, int]] = LRUCache(MAX_ROOMS)  # thread → message → hash of its text

    def news(self, agent: str, thread_id: int, guild: int | None, entries: Sequence[Entry]) -> RoomWords | None:
        """Return the room's new and edited messages; None if there are none. Messages that are hidden, or from ignored
        people, other bots, or other webhooks, are left out."""
        noted = self._noted.setdefault(thread_id, {})
        of_the_room = (each for each in entries[-MAX_ROOM_MESSAGES:] if self._is_of_the_room(each, guild))
        shown = [RoomMessage.model_construct(**_fields_of(each)) for each in of_the_room]
        new = [each for each in shown if noted.get(each.message_id) != hash(each.text)]
        self._noted[thread_id] = {each.message_id: hash(each.text) for each in shown}
        return RoomWords(agent=agent, thread_id=thread_id, at=self._clock(), messages=tuple(new)) if new else None

    def _is_of_the_room(self, entry: Entry, guild: int | None) -> bool:
        speaker = entry.speaker
        if speaker.kind == "stranger" or not is_visible(entry):
            return False
        return speaker.kind == "agent" or not self._is_ignored(speaker.id, speaker.roles, guild)


def _fields_of(entry: Entry) -> dict[str, Any]:
    """Return the fields that LoggedMessage and RoomMessage have in common."""
    speaker = entry.speaker
    return {
        "message_id": entry.id,
        "author": speaker.kind,
        "author_id": None if speaker.kind == "agent" else speaker.id,
        "agent": speaker.agent,
        "name": speaker.name,
        "text": text_with_marks(entry)[:MAX_CHARACTERS],
        "at": entry.created_at,
    }


class GatewayNotes:
    """Notes reactions to agents' posts, and deletions. The bots of a process share it, as each gets the same events.

    `clock`: in unix seconds. `summaries`: of threads. `memory`: knows posts from earlier runs of the program.
    """

    def __init__(
        self,
        record: Notes,
        transcripts: Transcripts,
        clock: Callable[[], float],
        summaries: Summaries,
        memory: MemoryReader,
    ) -> None:
        self._record, self._transcripts, self._clock = record, transcripts, clock
        self._summaries, self._memory, self._background = summaries, memory, BackgroundTasks()
        self._deleted = LRUCache[int, None](MAX_DELETED)
        self._reactions = LRUCache[tuple[int, int, str], bool](MAX_REACTIONS)  # message, person, emoji → whether given

    def deleted(self, channel_id: int, message_ids: Collection[int]) -> None:
        """Note deleted messages once, in any channel, because `.history` also quotes other channels."""
        new = tuple(message_id for message_id in message_ids if message_id not in self._deleted)
        self._deleted.update(dict.fromkeys(new))
        if new:
            self._note_deleted(DeletionNote(channel_id=channel_id, message_ids=new, at=self._clock()))

    def channel_deleted(self, channel_id: int) -> None:
        """Note that a channel or thread was deleted with all its messages."""
        if channel_id not in self._deleted:
            self._deleted[channel_id] = None
            transcript = self._transcripts.known(channel_id)
            known = tuple(entry.id for entry in transcript.entries()) if transcript is not None else ()
            self._note_deleted(DeletionNote(channel_id=channel_id, message_ids=known, at=self._clock(), whole=True))

    def room_deleted(self, thread_id: int) -> None:
        """Note that a person deleted a room with its record."""
        note = DeletionNote(channel_id=thread_id, message_ids=(), at=self._clock(), whole=True, room=True)
        self._note_deleted(note)

    def _note_deleted(self, note: DeletionNote) -> None:
        self._record.note(note)
        covered = self._summaries.drop_covering(note.channel_id, None if note.whole else note.message_ids)
        self._background.start(covered, f"summary of {note.channel_id}")

    def reacted(
        self, agent: str, channel_id: int, message_id: int, user_id: int, emoji: str, *, given: bool = True
    ) -> None:
        """Note a reaction to an agent's post. `agent`: whose bot got the event, since all bots get it. The author's own
        bot notes it. If the author is a persona without a bot, the first bot of this process does."""
        transcript = self._transcripts.known(channel_id)
        post = transcript.get(message_id) if transcript is not None else None
        note = ReactionNote(
            message_id=message_id, channel_id=channel_id, user_id=user_id, emoji=emoji, at=self._clock(), given=given
        )
        if post is None:
            self._background.start(self._note_if_posted_by(agent, note), f"reaction to {message_id}")
        else:
            self._note_reaction(agent, post.speaker.agent, note)

    async def _note_if_posted_by(self, agent: str, note: ReactionNote) -> None:
        self._note_reaction(agent, await self._memory.posted_by(note.message_id), note)

    def _note_reaction(self, agent: str, author: str | None, note: ReactionNote) -> None:
        if author is None:
            return
        if author != agent:
            key = note.message_id, note.user_id, note.emoji
            if self._transcripts.directory.id_of(author) is not None or self._reactions.get(key) == note.given:
                return
            self._reactions[key] = note.given
        self._record.note(note)


class Consents:
    """Notes whether people want unprompted messages, in the record and in Redis, where it takes effect immediately.

    The agents of a process share it. `clock`: in unix seconds. `because`: see ConsentNote.
    """

    def __init__(self, record: Notes, unasked: ProactiveMessages, clock: Callable[[], float]) -> None:
        self._record, self._unasked, self._clock = record, unasked, clock

    async def refuse(self, user_id: int, *, because: str, once: bool = False) -> bool:
        """Note that the person wants none; return whether this process was first. `once`: other processes get the same
        event, and only the first notes it."""
        first = await self._unasked.refuse(user_id)
        if first or not once:
            self._note(user_id, False, because)
        return first

    async def allow(self, user_id: int, *, because: str) -> None:
        await self._unasked.allow(user_id)
        self._note(user_id, True, because)

    def _note(self, user_id: int, unasked: bool, because: str) -> None:
        self._record.note(ConsentNote(user_id=user_id, unasked=unasked, because=because, at=self._clock()))


class TurnWatcher(Protocol):
    """Is told about turns that begin after the limits allowed them, and about all turns that end. Its methods don't
    block. The methods of `words` do, so call them in a thread.
    """

    def began(self, notice: TurnNotice) -> None: ...
    def ended(self, record: TurnRecord, words: TurnWords) -> None: ...


class TurnWatchers:
    """Tells several watchers. If a watcher fails, that is logged; the turn and the other watchers continue."""

    def __init__(self, *watchers: TurnWatcher) -> None:
        self._watchers = list(watchers)

    def add(self, watcher: TurnWatcher) -> None:
        self._watchers.append(watcher)

    def began(self, notice: TurnNotice) -> None:
        self._tell(lambda watcher: watcher.began(notice))

    def ended(self, record: TurnRecord, words: TurnWords) -> None:
        self._tell(lambda watcher: watcher.ended(record, words))

    def _tell(self, call: Callable[[TurnWatcher], None]) -> None:
        for watcher in self._watchers:
            try:
                call(watcher)
            except Exception:
                log.exception("%s failed at the start or the end of a turn; the turn continues", type(watcher).__name__)
