"""The ears of one account: envelopes → transcripts, and plain values for the handler that acts on them.

People who are not allowed are not heard: nothing of their messages is kept, logged or passed on, in groups too. Nor is
what the account's owner writes with another device, what is to be seen once, and what is no message at all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from cachetools import LRUCache

from agentic.context.commands import MAX_ORDER, order_in
from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.account import SignalAccount
from agentic.services.signal.changes import ChangeHandler, Changes, VanishingStore
from agentic.services.signal.chats import Chat
from agentic.services.signal.contacts import Contact
from agentic.services.signal.errors import Refused, SignalError, Unreachable
from agentic.services.signal.ids import masked
from agentic.services.signal.messages import MessageReader
from agentic.services.signal.models import DataMessage, Envelope, read_envelope
from agentic.services.signal.reading import Heard, read_words
from agentic.services.signal.receiving import Receiver

MOST_WAITING = 10_000  # envelopes that wait to be handled
MOST_AHEAD = 86400.0  # seconds that a sender's clock may be ahead
STOP_SIGN = "🛑"  # a reaction that is an order
MOST_SEEN = 10_000  # messages remembered, to know one that comes twice
FIRST_LOOK_UP, LONGEST_LOOK_UP = 1.0, 60.0  # seconds between tries to read contacts and groups; doubled each time
NAMES_SECONDS = 20.0  # for which somebody who may be allowed waits for the contacts to be read

log = logging.getLogger(__name__)


class SignalHandler(ChangeHandler, Protocol):
    """Acts on the things heard. The transcript has them already."""

    async def on_message(self, heard: Heard) -> None:
        """A person wrote in a chat."""

    async def on_agent_message(self, heard: Heard) -> None:
        """Another agent of ours wrote in a group."""


class _Taken:
    """An envelope that waits. It is handled after `after`, which is urgent and came before it."""

    __slots__ = ("after", "envelope", "handled")

    def __init__(self, envelope: Envelope, after: _Taken | None = None) -> None:
        self.envelope, self.after, self.handled = envelope, after, asyncio.Event()


class SignalListener:
    """Listens to one account and hands on what it hears, one after the other, but orders and deletions at once."""

    def __init__(
        self,
        account: SignalAccount,
        handler: SignalHandler,
        *,
        vanishing: VanishingStore | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._account, self._handler = account, handler
        self.receiver = Receiver(account.client, account.number, self.take, connected=self._look_up, sleep=sleep)
        self._sleep, self._background = sleep, BackgroundTasks()
        self._names_read, self._wait_for_names_until = asyncio.Event(), 0.0
        self._names_read.set()
        self._reader = MessageReader(account)
        self._changes = Changes(account, self._reader, handler, vanishing)
        self._waiting: asyncio.Queue[_Taken] = asyncio.Queue(MOST_WAITING)
        self._urgent: asyncio.Queue[_Taken] = asyncio.Queue(MOST_WAITING)
        self._last_urgent: _Taken | None = None
        self._seen: LRUCache[tuple[int, int], None] = LRUCache(MOST_SEEN)
        self._unheard = self._skipped = 0

    async def run(self) -> None:
        """Listen until cancelled."""
        with suppress(Unreachable):  # the receiver reports it
            await self._changes.restore()
            await self._account.client.ready()
        self._changes.open()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.receiver.run(), name="Signal: receive")
                tasks.create_task(self._work(self._waiting), name="Signal: hear")
                tasks.create_task(self._work(self._urgent), name="Signal: hear what is urgent")
        finally:
            await asyncio.gather(self._changes.aclose(), self._background.cancel())

    def take(self, frame: str) -> None:
        """Takes a frame in, to be handled in its turn. What is urgent does not wait for what came before it, and what
        comes after it waits for it."""
        try:
            envelope = read_envelope(frame)
            if envelope is None:
                return
            if self._is_urgent(envelope):
                self._urgent.put_nowait(urgent := _Taken(envelope))
                self._last_urgent = urgent
            else:
                self._waiting.put_nowait(_Taken(envelope, self._last_urgent))
        except asyncio.QueueFull:
            self._skipped += 1
            if self._skipped & (self._skipped - 1) == 0:  # the first, the second, the fourth ...
                log.warning(
                    "Signal: %d envelopes wait already, %d came since and are skipped", MOST_WAITING, self._skipped
                )
        except Exception:  # an odd envelope must not end the connection
            log.exception("Signal: an envelope could not be read, it is skipped")

    def _is_urgent(self, envelope: Envelope) -> bool:
        """Whether it is an order, or a deletion: neither may be lost among more messages than are kept."""
        data, contacts = envelope.data_message, self._account.contacts
        if data is None or not envelope.who or not contacts.allows(envelope.who):
            return False
        if data.reaction is not None:
            return data.reaction.emoji == STOP_SIGN and not data.reaction.is_remove
        if data.remote_delete is not None:
            return True
        text = data.message or ""
        return len(text) <= MAX_ORDER and order_in(read_words(text, data.mentions, contacts).bare) is not None

    async def _work(self, queue: asyncio.Queue[_Taken]) -> None:
        while True:
            taken = await queue.get()
            if taken.after is not None:
                await taken.after.handled.wait()
            try:
                await self.hear(taken.envelope)
            except Exception:  # an odd envelope must not end the listener
                log.exception("Signal: an envelope could not be handled, it is skipped")
            finally:
                taken.handled.set()
            await asyncio.sleep(0)  # so that neither what is urgent nor the connection waits for all of a full queue

    async def _look_up(self) -> None:
        """Learn who is who, and the names of groups: a message may name its author by an account id alone."""
        account, contacts = self._account, self._account.contacts
        try:
            for person in await account.client.contacts(account.number):
                if person.who and (contacts.allows(person.who) or contacts.find(person.who)):
                    contacts.learn(person.who, person.name or person.profile_name)
            for group in await account.client.groups(account.number):
                account.chats.group(account.number, group.internal_id, group.name)
        except SignalError as error:
            if not self._names_read.is_set():  # it was reported, and is tried again
                return
            self._names_read.clear()
            self._wait_for_names_until = asyncio.get_running_loop().time() + NAMES_SECONDS
            self._background.start(self._look_up_again(), "Signal: who is who")
            if isinstance(error, Refused) and error.status == 400:  # its answer for an account that it does not have
                what = "Signal: the server does not know the account %s, is the number registered there? (%s)"
                log.warning(what, masked(account.number), error)
            else:
                what = "Signal: contacts and groups of the account %s are not known: %s"
                log.info(what, masked(account.number), error)
        else:
            self._names_read.set()

    async def _look_up_again(self) -> None:
        """Look up names until it works: the REST API may be back before its signal-cli is."""
        pause = FIRST_LOOK_UP
        while not self._names_read.is_set():
            await self._sleep(pause)
            await self._look_up()
            pause = min(2 * pause, LONGEST_LOOK_UP)

    # -- envelopes ----------------------------------------------------------------------------------------------------

    async def hear(self, envelope: Envelope) -> None:
        """Handles one envelope."""
        data = _data_of(envelope)
        if data is None or data.story_context is not None:
            return
        if not envelope.who or (who := await self._author(envelope)) is None:
            return
        chat = self._chat(who, data)
        if envelope.edit_message is not None:
            await self._changes.edit(who, chat, envelope.edit_message)
        elif data.reaction is not None:
            await self._changes.react(who, chat, data.reaction)
        elif data.remote_delete is not None:
            await self._changes.delete(who, chat, data.remote_delete.timestamp)
        else:
            await self._on_message(who, chat, data, envelope)

    async def _author(self, envelope: Envelope) -> Contact | None:
        """None for a person who is not heard, and for the account itself: own messages enter from the send's answer.
        Somebody named by an account id alone may be in contacts that are not read yet, so their message waits."""
        contacts = self._account.contacts
        if not envelope.who.number and not contacts.allows(envelope.who):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._wait_for_names_until):
                    await self._names_read.wait()
        if not contacts.allows(envelope.who):
            self._unheard += 1
            log.debug("Signal: %d messages of people outside of SIGNAL_ALLOWED were not heard", self._unheard)
            return None
        who = contacts.learn(envelope.who, envelope.source_name)
        return None if who is self._account.me else who

    def _chat(self, who: Contact, data: DataMessage) -> Chat:
        number, group = self._account.number, data.group_info
        if group is None:
            return self._account.chats.direct(number, who)
        return self._account.chats.group(number, group.group_id, group.group_name)

    async def _on_message(self, who: Contact, chat: Chat, data: DataMessage, envelope: Envelope) -> None:
        timestamp, received = data.timestamp or envelope.timestamp, envelope.server_received_timestamp
        if timestamp is None or data.view_once:
            return
        if timestamp / 1000 > time.time() + MOST_AHEAD:
            log.info("Signal: a message of a clock that is over a day ahead is skipped: it would stay the newest one")
            return
        heard = await self._reader.read(who, chat, data, timestamp, received / 1000 if received else None)
        if heard is None or (chat.channel_id, heard.entry.id) in self._seen:
            return
        self._seen[chat.channel_id, heard.entry.id] = None
        if heard.entry.id in self._account.transcript(chat).deleted:  # its deletion came before it
            return
        self._changes.note_timer(chat, heard.vanishes_after, heard.entry.id)
        self._account.transcript(chat).add(heard.entry)
        if who.agent is None:
            await self._handler.on_message(heard)
        else:
            await self._handler.on_agent_message(heard)


def _data_of(envelope: Envelope) -> DataMessage | None:
    return envelope.edit_message.data_message if envelope.edit_message is not None else envelope.data_message
