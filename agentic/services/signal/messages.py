"""Turns envelopes into transcript entries, and into the facts that decide whether a message calls an agent."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from cachetools import LRUCache

from agentic.chat.directory import NOBODY
from agentic.chat.heard import HeardMessage
from agentic.chat.service import IncomingMessage
from agentic.context.commands import order_in
from agentic.context.entries import Addressees, Attachment, Entry, Speaker, hidden_by_text
from agentic.ids import sent_at
from agentic.net.addresses import FetchRefused
from agentic.services.signal.contacts import Chat, Contact, Contacts, SignalAccount, shown_name
from agentic.services.signal.envelopes import (
    MAX_TEXT,
    Address,
    DataMessage,
    File,
    Mention,
    Quote,
    file_id,
    ids_at,
    message_id,
    timestamp_of,
)

PLACEHOLDER = "\ufffc"  # marks the place of a mention in a text
# The text of a message that has none.
PLACEHOLDERS = {"sticker": "(a sticker)", "contacts": "(a contact card)", "poll_create": "(a poll)"}
MAX_VERSIONS = 10_000  # edits remembered
LONG_TEXT_SECONDS = 2.0  # to read it from the owner's own server; a STOP sent after the message waits for it
_UNIT = 2  # bytes

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Words:
    """A text as people see it, the text without mentions of agents (`bare`), and the ids of everyone mentioned."""

    shown: str
    bare: str
    mentions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(HeardMessage):
    """A message with its chat. `vanishes_after`: seconds until it vanishes from everybody's chat."""

    chat: Chat
    vanishes_after: float | None = None


class MessageReader:
    """Reads what one account receives. An edited message can be found by the time of each of its versions."""

    def __init__(self, account: SignalAccount) -> None:
        self._account = account
        self._versions: LRUCache[tuple[int, int], int] = LRUCache(MAX_VERSIONS)  # chat, time → message

    async def read(
        self,
        who: Contact,
        chat: Chat,
        data: DataMessage,
        timestamp: int,
        received: float | None = None,
        former: Entry | None = None,
    ) -> Heard | None:
        """Return the message, or None if the envelope has none: a change of the group, a timer, a call.

        `received` is when Signal's server got it (unix seconds). If it is known it is used as the message's time,
        because a sender's clock may be wrong. An edit keeps the time of the `former` version, and the former files if
        it has none of its own.
        """
        account = self._account
        text, files = await self._text(data), tuple(self._attachment(file) for file in data.files)
        if former is not None:
            received, files = former.created_at, files or former.attachments
        if not text and not files:
            return None
        words = read_words(text, data.mentions, account.contacts)
        answered, replied_to = self._replied(chat, data.quote) if data.quote is not None else (None, None)
        number = message_id(who.base, timestamp)
        facts = IncomingMessage(
            message_id=number,
            author_id=who.person,
            by_person=who.agent is None,
            guild_id=None,
            group=chat.is_group,
            channel_id=chat.channel_id,
            mentioned_users=words.mentions,
            replied_to=replied_to,
        )
        entry = Entry(
            id=number,
            speaker=Speaker(who.person, name_of(account, who), "person" if who.agent is None else "agent", who.agent),
            text=words.shown,
            created_at=min(max(received or timestamp_of(number) / 1000, sent_at(0)), time.time()),
            reply_to=answered,
            attachments=files,
            addressees=Addressees(words.mentions, replied_to),
            hidden=hidden_by_text(words.bare, private=facts.is_private),
            private=facts.is_private,
            order=order_in(words.bare) if who.agent is None else None,
        )
        return Heard(facts=facts, entry=entry, chat=chat, vanishes_after=data.expires_in_seconds or None)

    async def _text(self, data: DataMessage) -> str:
        """Return the whole text: the message may contain only the beginning of a long text."""
        text, whole, client = data.message or "", data.long_text, self._account.client
        if whole is not None and whole.id is not None and len(text.encode("utf-8", "replace")) < (whole.size or 0):
            try:
                found = await client.file(client.file_url(whole.id), 4 * MAX_TEXT, seconds=LONG_TEXT_SECONDS)
                return found.decode("utf-8", "replace")[:MAX_TEXT]
            except FetchRefused as error:
                log.warning("Signal: reading the rest of a long message failed: %s; its text is cut short", error)
        return text or next((shown for part, shown in PLACEHOLDERS.items() if getattr(data, part)), "")

    def _attachment(self, file: File) -> Attachment:
        """Build an attachment. A file without a name gets its id as the name, which has the right extension. A file
        without an id can't be read."""
        return Attachment(
            file_id(file.id or f"{file.filename}/{file.content_type}/{file.size}"),
            (file.filename or file.id or "file")[:100],
            self._account.client.file_url(file.id) if file.id is not None else "",
            file.size or 0,
            (file.content_type or "").partition(";")[0].strip().lower(),
        )

    def _replied(self, chat: Chat, quote: Quote) -> tuple[int, int]:
        """Return the ids of the quoted message and of its author.

        A quote is only its sender's claim. If it names this account by number and account id, the pair comes from
        signal-cli, which knows its own accounts, so the id is learned. An id alone isn't learned: it may be someone
        else's, who would then be taken for the agent.
        """
        contacts, me = self._account.contacts, self._account.me
        if quote.who.number == self._account.number and me.account is None:
            contacts.learn(quote.who)  # people's apps name this account by its id
        number = self.message_at(chat, quote.who, quote.id)
        entry = self._account.transcript(chat).get(number)
        author = contacts.find(quote.who) if entry is None else contacts.of(entry.speaker.id)
        return number, author.person if author is not None else contacts.base_of(quote.who)

    def note_version(self, chat: Chat, timestamp: int, message: int) -> None:
        """Note that the message was edited at this time: apps may name it by that time from now on."""
        self._versions[chat.channel_id, timestamp] = message

    def message_at(self, chat: Chat, author: Address, timestamp: int) -> int:
        """Return the id of the message that somebody sent or edited at this time."""
        if (first := self._versions.get((chat.channel_id, timestamp))) is not None:
            return first
        transcript = self._account.transcript(chat)
        number = message_id(self._account.contacts.base_of(author), timestamp)
        if number in transcript:
            return number
        # The author is named in an unknown way: find the message by its time alone.
        moment = ids_at(timestamp)
        return next((entry.id for entry in transcript.entries() if entry.id in moment), number)

    def own(self, who: Contact, chat: Chat, timestamp: int) -> Entry | None:
        """Return the author's message of that time, or None if it is unknown or somebody else's."""
        number = self._versions.get((chat.channel_id, timestamp)) or message_id(who.base, timestamp)
        entry = self._account.transcript(chat).get(number)
        return entry if entry is not None and entry.speaker.id == who.person else None


def name_of(account: SignalAccount, who: Contact) -> str:
    """Return the name for transcripts. A person's name that resembles an agent's is marked as a person's."""
    name = shown_name(who)
    return name if who.agent is not None else account.transcripts.directory.distinct_name(who.person, name)


def read_words(text: str, mentions: Iterable[Mention], contacts: Contacts) -> Words:
    """Return a text with `@Name` for each mention.

    Signal puts U+FFFC in the text for each mention, and lists separately who is meant; offsets are in UTF-16 units.
    Some releases of signal-cli leave the mention out (AsamK/signal-cli#1940), so an agent's name also counts as a
    mention if it follows an @ or begins the text.
    """
    units = text.encode("utf-16-le", "surrogatepass")
    shown, bare = units, units
    found: set[int] = set()
    end = len(units)
    for mention in sorted(mentions, key=lambda one: one.start, reverse=True):
        start, after = mention.start * _UNIT, (mention.start + mention.length) * _UNIT
        if after > end:  # beyond the text, or overlapping another mention
            continue
        end = start
        who = contacts.find(mention.who)
        if who is not None:
            found.add(who.person)
        name = f"@{shown_name(who) if who is not None else NOBODY}".encode("utf-16-le")
        shown, bare = shown[:start] + name + shown[after:], bare[:start] + bare[after:]
    words = shown.decode("utf-16-le", "replace").replace(PLACEHOLDER, f"@{NOBODY}")
    plain = bare.decode("utf-16-le", "replace").replace(PLACEHOLDER, "")
    for agent in contacts.agents():
        pattern = _mention_pattern(shown_name(agent))
        if pattern.search(plain):
            found.add(agent.person)
            plain = pattern.sub(" ", plain)
    return Words(words, plain.strip(), frozenset(found))


@lru_cache(maxsize=256)
def _mention_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of an agent's name after an @ or at the beginning of a text."""
    return re.compile(rf"(?:(?<![\w@])@|\A\s*){re.escape(name)}(?!\w)[,:!]?", re.IGNORECASE)
