"""Changes of what was said: edits, deletions, messages that vanish, and reactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Protocol

from cachetools import LRUCache

from agentic.chat.service import Person, PersonReaction
from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.account import SignalAccount
from agentic.services.signal.chats import MOST, Chat
from agentic.services.signal.contacts import Contact
from agentic.services.signal.ids import message_id, timestamp_of
from agentic.services.signal.messages import MessageReader, name_of
from agentic.services.signal.models import EditMessage, Reaction
from agentic.services.signal.reading import Heard

MOST_REACTIONS = 10_000  # remembered, to know which one another takes the place of


class ChangeHandler(Protocol):
    """Acts on changes. The transcript has them already."""

    async def on_edit(self, heard: Heard) -> None:
        """A person edited a message; `heard` has the number and time of the first version."""

    async def on_delete(self, chat: Chat, message_ids: Collection[int]) -> None:
        """Messages were deleted by their authors, or have vanished as the chat is set."""

    async def on_reaction(self, chat: Chat, reaction: PersonReaction, *, given: bool) -> None:
        """A person gave a reaction, or took one back."""


class VanishingStore(Protocol):
    """When messages vanish, for a later run; agentic.services.signal.vanishing has it in Redis. No method raises."""

    async def note(self, channel_id: int, message_id: int, at: float) -> None: ...
    async def gone(self, channel_id: int, message_id: int) -> None: ...
    async def all(self) -> list[tuple[int, int, float]]: ...


class Changes:
    """Keeps the transcripts of one account true. `clock` gives unix seconds."""

    def __init__(
        self,
        account: SignalAccount,
        reader: MessageReader,
        handler: ChangeHandler,
        store: VanishingStore | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._account, self._reader, self._handler = account, reader, handler
        self._store, self._clock = store, clock
        self._reactions: LRUCache[tuple[int, int], str] = LRUCache(MOST_REACTIONS)  # message, person → emoji
        self._vanishing: dict[int, asyncio.TimerHandle] = {}
        self._timers: LRUCache[int, tuple[float, int]] = LRUCache(
            MOST
        )  # chat → seconds until messages vanish, the first that does
        self._background = BackgroundTasks()
        self._unwatch: Callable[[], None] | None = None

    def open(self) -> None:
        """Notice messages that vanish, until `aclose`."""
        self._unwatch = self._account.transcripts.watch(self._on_entry)

    async def aclose(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        for timer in self._vanishing.values():
            timer.cancel()
        self._vanishing.clear()
        await self._background.cancel()

    # -- edits and deletions ------------------------------------------------------------------------------------------

    async def edit(self, who: Contact, chat: Chat, edit: EditMessage) -> None:
        """A message is edited by its author alone, and keeps its number."""
        known = self._reader.own(who, chat, edit.target_sent_timestamp)
        if known is None:
            return
        if edit.data_message.timestamp is not None:
            self._reader.note_version(chat, edit.data_message.timestamp, known.id)
        heard = await self._reader.read(who, chat, edit.data_message, timestamp_of(known.id), former=known)
        if heard is None:
            return
        self._account.transcripts.changed(chat.channel_id, (known.id,))
        self._account.transcript(chat).revise(heard.entry)
        if who.agent is None:
            await self._handler.on_edit(heard)

    async def delete(self, who: Contact, chat: Chat, timestamp: int) -> None:
        """A message is deleted by its author alone. One that this process has not heard may be kept somewhere."""
        known = self._reader.own(who, chat, timestamp)
        await self._deleted(chat, known.id if known is not None else message_id(who.base, timestamp))

    def note_timer(self, chat: Chat, seconds: float | None, message: int) -> None:
        """How long messages stay in a chat, as this one says; None for ever."""
        known, first = self._timers.get(chat.channel_id, (None, message))
        if seconds is None:
            self._timers.pop(chat.channel_id, None)
        else:
            self._timers[chat.channel_id] = (seconds, first if seconds == known else message)

    def _on_entry(self, channel_id: int, message: int) -> None:
        """A message came into a transcript, or has changed: it vanishes here when it does from everybody's chat."""
        chat = self._account.chats.get(channel_id)
        seconds, first = self._timers.get(channel_id, (None, 0))
        if seconds is None or chat is None or message < first or message in self._vanishing:
            return
        if message not in self._account.transcript(chat):
            return
        self._vanishes(chat, message, seconds)
        if self._store is not None:
            noted = self._store.note(channel_id, message, self._clock() + seconds)
            self._background.start(noted, "Signal: when a message vanishes")

    def _vanishes(self, chat: Chat, message: int, seconds: float) -> None:
        def gone() -> None:
            self._background.start(self._deleted(chat, message), "Signal: a message vanishes")

        self._vanishing[message] = asyncio.get_running_loop().call_later(seconds, gone)

    async def restore(self) -> None:
        """Let vanish what an earlier run heard, which the record may have; at once what should be gone by now."""
        now = self._clock()
        for channel_id, message, at in await self._store.all() if self._store is not None else ():
            chat = self._account.chats.get(channel_id)
            if chat is not None and self._account.number in chat.accounts and message not in self._vanishing:
                self._vanishes(chat, message, max(0.0, at - now))

    async def _deleted(self, chat: Chat, message: int) -> None:
        timer = self._vanishing.pop(message, None)
        if timer is not None:
            timer.cancel()
        self._account.transcripts.changed(chat.channel_id, (message,))
        self._account.transcript(chat).delete(message)
        await self._handler.on_delete(chat, (message,))
        if timer is not None and self._store is not None:
            await self._store.gone(chat.channel_id, message)

    # -- reactions ----------------------------------------------------------------------------------------------------

    async def react(self, who: Contact, chat: Chat, reaction: Reaction) -> None:
        """A person has one reaction a message: another one takes the place of the first."""
        message = self._reader.message_at(chat, reaction.who, reaction.target_sent_timestamp)
        former = self._reactions.pop((message, who.base), None)
        given = None if reaction.is_remove else reaction.emoji
        if given is not None:
            self._reactions[message, who.base] = given
        taken = former if former is not None else reaction.emoji if reaction.is_remove else None
        if taken is not None and taken != given:
            await self._reacted(who, chat, message, taken, given=False)
        if given is not None and given != former:
            await self._reacted(who, chat, message, given, given=True)

    async def _reacted(self, who: Contact, chat: Chat, message: int, emoji: str, *, given: bool) -> None:
        transcript, bot = self._account.transcript(chat), who.agent is not None
        if given:
            transcript.react(message, emoji, who.person, name_of(self._account, who), bot=bot)
        else:
            transcript.unreact(message, emoji, who.person, bot=bot)
        if bot:
            return
        entry, author = transcript.get(message), self._account.contacts.author_of(message)
        written_by = entry.speaker.id if entry is not None else author.person if author is not None else 0
        sign = PersonReaction(Person(who.person), chat.channel_id, message, written_by, emoji)
        await self._handler.on_reaction(chat, sign, given=given)
