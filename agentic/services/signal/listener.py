"""One Signal account: its connection, the queue of its envelopes, and changes to messages."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp
from cachetools import LRUCache

from agentic.chat.service import Person, PersonReaction
from agentic.context.commands import MAX_ORDER, order_in
from agentic.process.tasks import BackgroundTasks
from agentic.services.handler import AccountHandler
from agentic.services.signal.client import Refused, SignalClient, SignalError, Unreachable, broken_connection
from agentic.services.signal.contacts import MOST, Chat, Contact, SignalAccount
from agentic.services.signal.envelopes import (
    DataMessage,
    EditMessage,
    Envelope,
    Reaction,
    mask_address,
    message_id,
    read_envelope,
    timestamp_of,
)
from agentic.services.signal.messages import MessageReader, name_of, read_words
from agentic.services.signal.stores import VanishingMessages

FIRST_PAUSE = 1.0  # seconds before a lost connection is made again; doubled each time
MAX_PAUSE = 4.0  # messages that arrive while nobody is connected may be lost
STABLE = 10.0  # seconds after which a connection is stable: if it breaks then, the pauses start over
NEVER_THERE = "the server at SIGNAL_API_URL can't be reached for the account %s; is its container running?"
REFUSED = (
    "the server at SIGNAL_API_URL delivers no messages of the account %s; is the number registered there, and is its"
    " mode json-rpc?"
)

MOST_WAITING = 10_000  # envelopes waiting to be handled
MAX_AHEAD = 86400.0  # seconds that a sender's clock may be ahead
MAX_SEEN = 10_000  # messages remembered to recognize duplicates
MAX_REACTIONS = 10_000  # remembered to know which reaction a new one replaces
FIRST_LOOK_UP, MAX_LOOK_UP = 1.0, 60.0  # seconds between tries to read contacts and groups; doubled each time
NAMES_SECONDS = 20.0  # that a message of a possibly allowed person waits for the contacts to be read
STOP_SIGN = "🛑"  # a reaction that is a command

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Queued:
    """An envelope that waits. It is handled after `after`, an urgent envelope that came before it."""

    envelope: Envelope
    after: _Queued | None = None
    handled: asyncio.Event = field(default_factory=asyncio.Event)


class SignalListener:
    """Listens to one account and hands on its messages in order; commands and deletions go first.

    Messages of people who aren't allowed are dropped, in groups too: nothing of them is stored, logged, or passed on.
    The same goes for view-once messages and for messages that the account's owner writes on another device.
    """

    def __init__(
        self, account: SignalAccount, handler: AccountHandler, *, vanishing: VanishingMessages | None = None
    ) -> None:
        self._account, self._handler = account, handler
        self.receiver = Receiver(account.client, account.number, self.take, connected=self._look_up)
        self._background = BackgroundTasks()
        self._names_read, self._wait_for_names_until = asyncio.Event(), 0.0
        self._names_read.set()
        self._reader = MessageReader(account)
        self._changes = Changes(account, self._reader, handler, vanishing)
        self._waiting: asyncio.Queue[_Queued] = asyncio.Queue(MOST_WAITING)
        self._urgent: asyncio.Queue[_Queued] = asyncio.Queue(MOST_WAITING)
        self._last_urgent: _Queued | None = None
        self._seen: LRUCache[tuple[int, int], None] = LRUCache(MAX_SEEN)
        self._unheard = self._skipped = 0

    async def run(self) -> None:
        with suppress(Unreachable):  # the receiver logs it
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
        """Queue a frame. An urgent envelope doesn't wait for earlier ones, and later ones wait for it."""
        try:
            envelope = read_envelope(frame)
            if envelope is None:
                return
            if self._is_urgent(envelope):
                self._urgent.put_nowait(urgent := _Queued(envelope))
                self._last_urgent = urgent
            else:
                self._waiting.put_nowait(_Queued(envelope, self._last_urgent))
        except asyncio.QueueFull:
            self._skipped += 1
            if self._skipped & (self._skipped - 1) == 0:  # the first, the second, the fourth ...
                log.warning("Signal: the queue is full with %d envelopes; %d skipped", MOST_WAITING, self._skipped)
        except Exception:  # an odd envelope must not end the connection
            log.exception("Signal: reading an envelope failed; it is skipped")

    def _is_urgent(self, envelope: Envelope) -> bool:
        """Return whether an envelope is a command or a deletion, which must not be lost if the queue is full."""
        data, contacts = envelope.data_message, self._account.contacts
        if data is None or not envelope.who or not contacts.allows(envelope.who):
            return False
        if data.reaction is not None:
            return data.reaction.emoji == STOP_SIGN and not data.reaction.is_remove
        if data.remote_delete is not None:
            return True
        text = data.message or ""
        return len(text) <= MAX_ORDER and order_in(read_words(text, data.mentions, contacts).bare) is not None

    async def _work(self, queue: asyncio.Queue[_Queued]) -> None:
        while True:
            queued = await queue.get()
            if queued.after is not None:
                await queued.after.handled.wait()
            try:
                await self.hear(queued.envelope)
            except Exception:  # an odd envelope must not end the listener
                log.exception("Signal: handling an envelope failed; it is skipped")
            finally:
                queued.handled.set()
            await asyncio.sleep(0)  # so that urgent envelopes and the connection don't wait for a whole full queue

    async def _look_up(self) -> None:
        """Learn people's numbers and the names of groups: a message may name its author by an account id alone."""
        account, contacts = self._account, self._account.contacts

        async def look_up_again() -> None:
            """Repeat until it works: the REST API may be back before its signal-cli is."""
            pause = FIRST_LOOK_UP
            while not self._names_read.is_set():
                await asyncio.sleep(pause)
                await self._look_up()
                pause = min(2 * pause, MAX_LOOK_UP)

        try:
            for person in await account.client.contacts(account.number):
                if person.who and (contacts.allows(person.who) or contacts.find(person.who)):
                    contacts.learn(person.who, person.name or person.profile_name)
            for group in await account.client.groups(account.number):
                account.chats.group(account.number, group.internal_id, group.name)
        except SignalError as error:
            if not self._names_read.is_set():  # already logged and being repeated
                return
            self._names_read.clear()
            self._wait_for_names_until = asyncio.get_running_loop().time() + NAMES_SECONDS
            self._background.start(look_up_again(), "Signal: who is who")
            if isinstance(error, Refused) and error.status == 400:  # its answer for an unknown account
                what = "Signal: the server has no account %s: %s; is the number registered there?"
                log.warning(what, mask_address(account.number), error)
            else:
                what = "Signal: reading contacts and groups of the account %s failed: %s; trying again"
                log.info(what, mask_address(account.number), error)
        else:
            self._names_read.set()

    async def hear(self, envelope: Envelope) -> None:
        data = envelope.data_message if envelope.edit_message is None else envelope.edit_message.data_message
        if data is None or data.story_context is not None:
            return
        if not envelope.who or (who := await self._author(envelope)) is None:
            return
        number, chats, group = self._account.number, self._account.chats, data.group_info
        chat = chats.direct(number, who) if group is None else chats.group(number, group.group_id, group.group_name)
        if envelope.edit_message is not None:
            await self._changes.edit(who, chat, envelope.edit_message)
        elif data.reaction is not None:
            await self._changes.react(who, chat, data.reaction)
        elif data.remote_delete is not None:
            await self._changes.delete(who, chat, data.remote_delete.timestamp)
        else:
            await self._on_message(who, chat, data, envelope)

    async def _author(self, envelope: Envelope) -> Contact | None:
        """Return the author, or None for a person who isn't allowed and for the account itself, whose messages enter
        the transcript when they are sent. If the author is named by an account id alone, the message waits for the
        contacts to be read, because they may contain the author's number."""
        contacts = self._account.contacts
        if not envelope.who.number and not contacts.allows(envelope.who):
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._wait_for_names_until):
                    await self._names_read.wait()
        if not contacts.allows(envelope.who):
            self._unheard += 1
            log.debug("Signal: dropped %d messages of people outside of SIGNAL_ALLOWED", self._unheard)
            return None
        who = contacts.learn(envelope.who, envelope.source_name)
        return None if who is self._account.me else who

    async def _on_message(self, who: Contact, chat: Chat, data: DataMessage, envelope: Envelope) -> None:
        timestamp, received = data.timestamp or envelope.timestamp, envelope.server_received_timestamp
        if timestamp is None or data.view_once:
            return
        if timestamp / 1000 > time.time() + MAX_AHEAD:
            log.info("Signal: skipped a message dated more than a day ahead: it would stay the newest")
            return
        heard = await self._reader.read(who, chat, data, timestamp, received / 1000 if received else None)
        if heard is None or (chat.channel_id, heard.entry.id) in self._seen:
            return
        self._seen[chat.channel_id, heard.entry.id] = None
        if heard.entry.id in self._account.transcript(chat).deleted:  # its deletion came first
            return
        self._changes.note_timer(chat, heard.vanishes_after, heard.entry.id)
        self._account.transcript(chat).add(heard.entry)
        if who.agent is None:
            await self._handler.on_message(heard)
        else:
            await self._handler.on_agent_message(heard)


class Receiver:
    """The connection that delivers an account's messages. It reconnects when the connection is lost.

    Each envelope is delivered once, to the connections that are open at that moment. So a process has one connection
    per account, and never closes it to open another. `hear` gets each frame in order and must not raise. `connected` is
    called after each connect.
    """

    def __init__(
        self,
        client: SignalClient,
        number: str,
        hear: Callable[[str], None],
        *,
        connected: Callable[[], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client, self._number, self._hear, self._connected, self._sleep = client, number, hear, connected, sleep
        self._lost_at: float | None = None
        self._was_connected = self.is_connected = False

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            why, advice = await self._receive()
            if asyncio.get_running_loop().time() - began >= STABLE:
                pause = FIRST_PAUSE
            self._client.note_lost()
            if self._lost_at is None:
                self._lost_at = asyncio.get_running_loop().time()
                what = "the connection of the account %s is lost" if self._was_connected else advice
                text = f"Signal: {what} (%s); trying again every %.0f to %.0f s"
                log.warning(text, mask_address(self._number), why, FIRST_PAUSE, MAX_PAUSE)
            await self._sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)

    async def _receive(self) -> tuple[str, str]:
        """Receive until the connection ends. Return why, and the log line if there never was a connection."""
        account = mask_address(self._number)
        try:
            socket = await self._client.receive(self._number)
        except SignalError as error:
            return str(error), REFUSED if isinstance(error, Refused) else NEVER_THERE
        try:
            if self._was_connected and self._lost_at is not None:
                away = asyncio.get_running_loop().time() - self._lost_at
                log.info("Signal: the connection of the account %s is back after %.0f s", account, away)
            elif not self._was_connected:
                log.info("Signal: the account %s is connected", account)
            self._lost_at, self._was_connected, self.is_connected = None, True, True
            await self._connected()
            async for frame in socket:
                if frame.type is aiohttp.WSMsgType.TEXT:
                    self._hear(frame.data)
                elif frame.type is aiohttp.WSMsgType.ERROR:
                    break
            failure = socket.exception()
            closed = f"closed with code {socket.close_code}"
            return str(broken_connection(failure)) if isinstance(failure, Exception) else closed, NEVER_THERE
        finally:
            self.is_connected = False
            await socket.close()


class Changes:
    """Applies edits, deletions, reactions, and vanishing messages to an account's transcripts."""

    def __init__(
        self,
        account: SignalAccount,
        reader: MessageReader,
        handler: AccountHandler,
        store: VanishingMessages | None = None,
    ) -> None:
        self._account, self._reader, self._handler, self._store = account, reader, handler, store
        self._reactions: LRUCache[tuple[int, int], str] = LRUCache(MAX_REACTIONS)  # message, person → emoji
        self._vanishing: dict[int, asyncio.TimerHandle] = {}
        # chat → seconds until messages vanish, the first message that does
        self._timers: LRUCache[int, tuple[float, int]] = LRUCache(MOST)
        self._background = BackgroundTasks()
        self._unwatch: Callable[[], None] | None = None

    def open(self) -> None:
        """Watch the transcripts for messages that vanish, until `aclose`."""
        self._unwatch = self._account.transcripts.watch(self._on_entry)

    async def aclose(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
        for timer in self._vanishing.values():
            timer.cancel()
        self._vanishing.clear()
        await self._background.cancel()

    async def edit(self, who: Contact, chat: Chat, edit: EditMessage) -> None:
        """Apply an edit if it comes from the message's author. The message keeps its id."""
        if (known := self._reader.own(who, chat, edit.target_sent_timestamp)) is None:
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
        """Delete the author's message of this time, even if this process never got it: another store may have it."""
        known = self._reader.own(who, chat, timestamp)
        await self._remove(chat, known.id if known is not None else message_id(who.base, timestamp))

    def note_timer(self, chat: Chat, seconds: float | None, message: int) -> None:
        """Note the chat's timer as this message has it. `seconds`: until messages vanish, or None if they never do."""
        known, first = self._timers.get(chat.channel_id, (None, message))
        if seconds is None:
            self._timers.pop(chat.channel_id, None)
        else:
            self._timers[chat.channel_id] = (seconds, first if seconds == known else message)

    def _on_entry(self, channel_id: int, message: int) -> None:
        """Let a new or changed message vanish from the transcript when it vanishes from people's chats."""
        chat = self._account.chats.get(channel_id)
        seconds, first = self._timers.get(channel_id, (None, 0))
        if seconds is None or chat is None or message < first or message in self._vanishing:
            return
        if message not in self._account.transcript(chat):
            return
        self._schedule_deletion(chat, message, seconds)
        if self._store is not None:
            noted = self._store.note(channel_id, message, time.time() + seconds)
            self._background.start(noted, "Signal: when a message vanishes")

    def _schedule_deletion(self, chat: Chat, message: int, seconds: float) -> None:
        def delete() -> None:
            self._background.start(self._remove(chat, message), "Signal: a message vanishes")

        self._vanishing[message] = asyncio.get_running_loop().call_later(seconds, delete)

    async def restore(self) -> None:
        """Schedule the deletion of an earlier run's messages, which the history may have; overdue ones go now."""
        now = time.time()
        for channel_id, message, at in await self._store.all() if self._store is not None else ():
            chat = self._account.chats.get(channel_id)
            if chat is not None and self._account.number in chat.accounts and message not in self._vanishing:
                self._schedule_deletion(chat, message, max(0.0, at - now))

    async def _remove(self, chat: Chat, message: int) -> None:
        if (timer := self._vanishing.pop(message, None)) is not None:
            timer.cancel()
        self._account.transcripts.changed(chat.channel_id, (message,))
        self._account.transcript(chat).delete(message)
        await self._handler.on_delete(chat.channel_id, (message,))
        if timer is not None and self._store is not None:
            await self._store.gone(chat.channel_id, message)

    async def react(self, who: Contact, chat: Chat, reaction: Reaction) -> None:
        """Apply a reaction. A person has one reaction per message, so a new one replaces the former."""
        message = self._reader.message_at(chat, reaction.who, reaction.target_sent_timestamp)
        former = self._reactions.pop((message, who.base), None)
        given = None if reaction.is_remove else reaction.emoji
        if given is not None:
            self._reactions[message, who.base] = given
        taken = former if former is not None else reaction.emoji if reaction.is_remove else None
        if taken is not None and taken != given:
            await self._apply_reaction(who, chat, message, taken, given=False)
        if given is not None and given != former:
            await self._apply_reaction(who, chat, message, given, given=True)

    async def _apply_reaction(self, who: Contact, chat: Chat, message: int, emoji: str, *, given: bool) -> None:
        transcript, bot = self._account.transcript(chat), who.agent is not None
        if given:
            transcript.react(message, emoji, who.person, name_of(self._account, who), bot=bot)
        else:
            transcript.unreact(message, emoji, who.person, bot=bot)
        if bot:
            return
        entry, author = transcript.get(message), self._account.contacts.author_of(message)
        written_by = entry.speaker.id if entry is not None else author.person if author is not None else 0
        reaction = PersonReaction(Person(who.person), chat.channel_id, message, written_by, emoji)
        await self._handler.on_reaction(reaction, given=given)
