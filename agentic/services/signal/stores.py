"""Signal's stores in Redis: addresses of people and chats, and vanishing messages. Both are bounded and expire."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from agentic.chat.transcript import Transcripts
from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.contacts import Chat, Chats, Contact, Contacts, to_text
from agentic.wire.connection import RedisConnection, Store, or_default, when_back

SIGNAL_PEOPLE = "coordinator:signal_people"  # hash: id → addresses of a person
SIGNAL_CHATS = "coordinator:signal_chats"  # hash: id → name and members of a chat
SIGNAL_VANISHING = "coordinator:signal_vanishing"  # sorted set: messages by the time at which they vanish
KEEP_SECONDS = 90 * 86400  # after the last write; in Signal's apps messages vanish after at most four weeks
MAX_ADDRESSES = 2_000  # of people, and of chats
MAX_MESSAGES = 20_000  # beyond that, messages that vanish first are kept

# Adds an entry, and deletes others beyond the bound.
_NOTE_ADDRESS = """
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
redis.call('expire', KEYS[1], ARGV[3])
while redis.call('hlen', KEYS[1]) > tonumber(ARGV[4]) do
  local known = redis.call('hkeys', KEYS[1])
  redis.call('hdel', KEYS[1], known[1] == ARGV[1] and known[2] or known[1])
end
return redis.call('hlen', KEYS[1])
"""

_NOTE_VANISHING = """
redis.call('zadd', KEYS[1], ARGV[1], ARGV[2])
redis.call('zremrangebyrank', KEYS[1], ARGV[3], -1)
return redis.call('expire', KEYS[1], ARGV[4])
"""


class AddressBook(Store):
    """Saves the addresses of people and chats for later runs by the program's ids, which the server doesn't know. Only
    `forget` raises StateUnavailable."""

    def __init__(self, link: RedisConnection, contacts: Contacts, chats: Chats, transcripts: Transcripts) -> None:
        super().__init__(link)
        self._contacts, self._chats, self._transcripts = contacts, chats, transcripts
        self._writing = BackgroundTasks()

    async def restore(self) -> None:
        """Restore the addresses of earlier runs, and save new ones from now on."""
        people, kept = await asyncio.gather(self.read(SIGNAL_PEOPLE), self.read(SIGNAL_CHATS))
        contacts: list[tuple[int, str]] = []
        for text in people.values():
            with suppress(ValueError, TypeError):
                base, contact = json.loads(text)
                if isinstance(base, int) and isinstance(contact, str):
                    contacts.append((base, contact))
        chats: list[Chat] = []
        for number, text in kept.items():
            with suppress(ValueError, TypeError):
                name, accounts, person, group = json.loads(text)
                if (person is None) != (group is None):
                    chats.append(Chat(number, str(name), frozenset(map(str, accounts)), person=person, group=group))
        self._contacts.restore(contacts)
        self._chats.restore(chats)
        self._contacts.on_change(self._note_person)
        self._chats.on_change(self._note_chat)

    async def forget(self, person: int) -> None:
        """Delete a person's addresses, chats, and messages in the transcripts. Raises StateUnavailable."""
        people = self._contacts.forget(person)
        own = self._chats.forget(people)
        for chat in self._chats.all():
            transcript = self._transcripts.known(chat.channel_id)  # `of` would create it and evict another
            if transcript is None:
                continue
            for entry in transcript.entries():
                if chat.channel_id in own or entry.speaker.id == person:
                    transcript.delete(entry.id)
        # a linked person is stored under their Discord id
        await self._link.redis.hdel(SIGNAL_PEOPLE, *map(str, {*people, person}))
        if own:
            await self._link.redis.hdel(SIGNAL_CHATS, *map(str, own))

    async def aclose(self) -> None:
        await self._writing.cancel()

    def _note_person(self, who: Contact) -> None:
        if who.agent is None:
            text = json.dumps([who.base, to_text(who)])
            self._writing.start(self.note(SIGNAL_PEOPLE, who.person, text), "Signal: a person's address")

    def _note_chat(self, chat: Chat) -> None:
        text = json.dumps([chat.name, sorted(chat.accounts), chat.person, chat.group])
        self._writing.start(self.note(SIGNAL_CHATS, chat.channel_id, text), "Signal: a chat's address")

    @when_back("addresses on Signal", limit=MAX_ADDRESSES)
    async def note(self, key: str, number: int, text: str) -> None:
        await self._link.script(_NOTE_ADDRESS, [key], [str(number), text, str(KEEP_SECONDS), str(MAX_ADDRESSES)])

    @or_default({}, "people and chats of earlier runs on Signal are unknown")
    async def read(self, key: str) -> Mapping[int, str]:
        """Return the entries of SIGNAL_PEOPLE or SIGNAL_CHATS, or none if Redis is unavailable."""
        found = await self._link.redis.hgetall(key)
        return {int(number): str(text) for number, text in found.items() if str(number).isdecimal()}


class VanishingMessages(Store):
    """Messages that vanish at a set time, so that later runs delete them too: "channel:message" by the time (unix
    seconds) at which it vanishes. No method raises StateUnavailable: the process that got a message deletes it without
    Redis as long as it runs."""

    @when_back("vanishing messages", limit=MAX_MESSAGES)
    async def note(self, channel_id: int, message_id: int, at: float) -> None:
        arguments = [str(at), f"{channel_id}:{message_id}", str(MAX_MESSAGES), str(KEEP_SECONDS)]
        await self._link.script(_NOTE_VANISHING, [SIGNAL_VANISHING], arguments)

    @when_back("deletions of vanished messages", limit=MAX_MESSAGES)
    async def gone(self, channel_id: int, message_id: int) -> None:
        await self._link.redis.zrem(SIGNAL_VANISHING, f"{channel_id}:{message_id}")

    @or_default((), "vanishing messages of earlier runs on Signal are unknown")
    async def all(self) -> Sequence[tuple[int, int, float]]:
        """Return each message's channel, id, and time, or none if Redis is unavailable."""
        found: Any = await self._link.redis.zrange(SIGNAL_VANISHING, 0, -1, withscores=True)
        each = [(re.fullmatch(r"([0-9]+):([0-9]+)", str(name)), float(at)) for name, at in found]
        return [(int(match[1]), int(match[2]), at) for match, at in each if match is not None]
