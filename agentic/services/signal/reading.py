"""A message of Signal as an entry of the transcript, and as the facts that decide whether it calls an agent. Pure.

Signal puts U+FFFC where a person is mentioned, and says beside the text who it is; offsets count UTF-16 units. Some
releases of signal-cli leave the mention out (AsamK/signal-cli#1940), so an agent is also called by its name after an @,
and by its name at the beginning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from agentic.chat.directory import NOBODY
from agentic.chat.service import IncomingMessage
from agentic.context.commands import order_in
from agentic.context.entries import Attachment, Entry, Speaker, hidden_by_text
from agentic.ids import sent_at
from agentic.services.signal.chats import Chat
from agentic.services.signal.contacts import Contact, Contacts, shown_name
from agentic.services.signal.ids import file_id, message_id, timestamp_of
from agentic.services.signal.models import DataMessage, File, Mention

PLACEHOLDER = "\ufffc"  # stands in a text where somebody is mentioned
_UNIT = 2  # bytes


@dataclass(frozen=True, slots=True)
class Words:
    """A text as it is shown, without what addresses an agent (`bare`), and the numbers of all who are mentioned."""

    shown: str
    bare: str
    mentions: frozenset[int]


@dataclass(frozen=True, slots=True)
class Replied:
    """The message that another one answers, and its author as the program knows them."""

    message_id: int
    author: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message that somebody wrote in a chat. `vanishes_after`: seconds until it vanishes from everybody's chat."""

    facts: IncomingMessage
    entry: Entry
    chat: Chat
    vanishes_after: float | None = None


def read_words(text: str, mentions: Iterable[Mention], contacts: Contacts) -> Words:
    """A text with `@Name` for each mention, those of agents also where they are typed."""
    units = text.encode("utf-16-le", "surrogatepass")
    shown, bare = units, units
    found: set[int] = set()
    end = len(units)
    for mention in sorted(mentions, key=lambda one: one.start, reverse=True):
        start, after = mention.start * _UNIT, (mention.start + mention.length) * _UNIT
        if after > end:  # beyond the text, or over another mention
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
        pattern = _addressed(shown_name(agent))
        if pattern.search(plain):
            found.add(agent.person)
            plain = pattern.sub(" ", plain)
    return Words(words, plain.strip(), frozenset(found))


@lru_cache(maxsize=256)
def _addressed(name: str) -> re.Pattern[str]:
    """An agent's name after an @, or at the beginning of a text."""
    return re.compile(rf"(?:(?<![\w@])@|\A\s*){re.escape(name)}(?!\w)[,:!]?", re.IGNORECASE)


def heard_message(
    who: Contact,
    chat: Chat,
    data: DataMessage,
    timestamp: int,
    *,
    words: Words,
    replied: Replied | None,
    name: str,
    files: Collection[Attachment],
    received: float | None,
    now: float,
) -> Heard:
    """The message as plain values. `name` is the author's, as transcripts show it. `received`: when Signal's server had
    it, unix seconds; that counts, where it is known, since a sender's clock may be wrong. Nothing is later than `now`.
    """
    number = message_id(who.base, timestamp)
    facts = IncomingMessage(
        message_id=number,
        author_id=who.person,
        by_person=who.agent is None,
        guild_id=None,
        group=chat.is_group,
        channel_id=chat.channel_id,
        mentioned_users=words.mentions,
        replied_to=replied.author if replied is not None else None,
    )
    entry = Entry(
        id=number,
        speaker=Speaker(who.person, name, "person" if who.agent is None else "agent", who.agent),
        text=words.shown,
        created_at=min(max(received or timestamp_of(number) / 1000, sent_at(0)), now),
        reply_to=replied.message_id if replied is not None else None,
        attachments=tuple(files),
        mentions=words.mentions,
        replied_to=facts.replied_to,
        hidden=hidden_by_text(words.bare, private=facts.is_private),
        private=facts.is_private,
        order=order_in(words.bare) if who.agent is None else None,
    )
    return Heard(facts=facts, entry=entry, chat=chat, vanishes_after=data.expires_in_seconds or None)


def as_attachment(file: File, url: str) -> Attachment:
    """An attachment; one without a name has its id, which ends as its kind does. One without an id can't be read."""
    return Attachment(
        file_id(file.id or f"{file.filename}/{file.content_type}/{file.size}"),
        (file.filename or file.id or "file")[:100],
        url,
        file.size or 0,
        (file.content_type or "").partition(";")[0].strip().lower(),
    )
