"""Reads messages of a chat with what the transcript, the contacts and the server know about them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from cachetools import LRUCache

from agentic.context.entries import Attachment, Entry
from agentic.net.addresses import FetchRefused
from agentic.services.signal.account import SignalAccount
from agentic.services.signal.chats import Chat
from agentic.services.signal.contacts import Contact, shown_name
from agentic.services.signal.ids import ids_at, message_id
from agentic.services.signal.models import MAX_TEXT, Address, DataMessage, Quote
from agentic.services.signal.reading import Heard, Replied, as_attachment, heard_message, read_words

MOST_VERSIONS = 10_000  # edits remembered
# What stands for a message without words of its own.
PLACEHOLDERS = {"sticker": "(a sticker)", "contacts": "(a contact card)", "poll_create": "(a poll)"}
LONG_TEXT_SECONDS = 2.0  # of the owner's own server; a STOP behind the message waits for it

log = logging.getLogger(__name__)


class MessageReader:
    """Reads what one account receives. A message that was edited is found by the time of each of its versions."""

    def __init__(self, account: SignalAccount, clock: Callable[[], float] = time.time) -> None:
        self._account, self._clock = account, clock
        self._versions: LRUCache[tuple[int, int], int] = LRUCache(MOST_VERSIONS)  # chat, time → message

    async def read(
        self,
        who: Contact,
        chat: Chat,
        data: DataMessage,
        timestamp: int,
        received: float | None = None,
        former: Entry | None = None,
    ) -> Heard | None:
        """None where nobody says anything: a change of the group, a timer, a call. `received`: when Signal's
        server had it (unix seconds). An edit keeps the time of the `former` version, and its files if it has none."""
        account = self._account
        text, files = await self._text(data), self._files(data)
        if former is not None:
            received, files = former.created_at, files or former.attachments
        if not text and not files:
            return None
        return heard_message(
            who,
            chat,
            data,
            timestamp,
            words=read_words(text, data.mentions, account.contacts),
            replied=self._replied(chat, data.quote) if data.quote is not None else None,
            name=name_of(account, who),
            files=files,
            received=received,
            now=self._clock(),
        )

    async def _text(self, data: DataMessage) -> str:
        """The whole text: of one that is longer than a message, the message may have the beginning alone."""
        text, whole = data.message or "", data.long_text
        if whole is not None and whole.id is not None and len(text.encode("utf-8", "replace")) < (whole.size or 0):
            client = self._account.client
            try:
                found = await client.file(client.file_url(whole.id), 4 * MAX_TEXT, seconds=LONG_TEXT_SECONDS)
            except FetchRefused as error:
                log.warning("Signal: the rest of a long message could not be read, it ends early: %s", error)
            else:
                return found.decode("utf-8", "replace")[:MAX_TEXT]
        return text or next((shown for part, shown in PLACEHOLDERS.items() if getattr(data, part)), "")

    def _files(self, data: DataMessage) -> tuple[Attachment, ...]:
        url_of = self._account.client.file_url
        return tuple(as_attachment(file, url_of(file.id) if file.id is not None else "") for file in data.files)

    def _replied(self, chat: Chat, quote: Quote) -> Replied:
        """A quote is its sender's claim. Only signal-cli, which knows its own accounts, names this one by number and id
        together; an id alone may be any other person's, who would count as the agent from then on."""
        contacts, me = self._account.contacts, self._account.me
        if quote.who.number == self._account.number and me.account is None:
            contacts.learn(quote.who)  # how people's apps name this account
        number = self.message_at(chat, quote.who, quote.id)
        entry = self._account.transcript(chat).get(number)
        author = contacts.find(quote.who) if entry is None else contacts.of(entry.speaker.id)
        return Replied(number, author.person if author is not None else contacts.base_of(quote.who))

    # -- finding messages ---------------------------------------------------------------------------------------------

    def note_version(self, chat: Chat, timestamp: int, message: int) -> None:
        """The message was edited at this time: apps may name it by that time from now on."""
        self._versions[chat.channel_id, timestamp] = message

    def message_at(self, chat: Chat, author: Address, timestamp: int) -> int:
        """The number of the message that somebody sent at this time, or edited at this time."""
        if (first := self._versions.get((chat.channel_id, timestamp))) is not None:
            return first
        transcript = self._account.transcript(chat)
        number = message_id(self._account.contacts.base_of(author), timestamp)
        if number in transcript:
            return number
        # An author who is named in a way that was not heard before is found by the time.
        moment = ids_at(timestamp)
        return next((entry.id for entry in transcript.entries() if entry.id in moment), number)

    def own(self, who: Contact, chat: Chat, timestamp: int) -> Entry | None:
        """The author's own message of that time; None where it is not known, or another person's."""
        number = self._versions.get((chat.channel_id, timestamp)) or message_id(who.base, timestamp)
        entry = self._account.transcript(chat).get(number)
        return entry if entry is not None and entry.speaker.id == who.person else None


def name_of(account: SignalAccount, who: Contact) -> str:
    """The name in transcripts; a person's that looks like an agent's says that it is a person."""
    name = shown_name(who)
    return name if who.agent is not None else account.transcripts.directory.distinct_name(who.person, name)
