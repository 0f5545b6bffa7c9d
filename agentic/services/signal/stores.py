"""Signal's stores in Redis: addresses of people and chats, and messages that vanish. Both are bounded and expire."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentic.wire.connection import Store, or_default, when_back

SIGNAL_PEOPLE = "coordinator:signal_people"  # hash: who is who on Signal
SIGNAL_CHATS = "coordinator:signal_chats"  # hash: where a chat of Signal is
SIGNAL_VANISHING = "coordinator:signal_vanishing"  # sorted set: messages of Signal by the time at which they vanish
KEEP_SECONDS = 90 * 86400  # after the last one was noted; apps let messages stay for four weeks at most
MAX_ADDRESSES = 2_000  # of people, and of chats
MAX_MESSAGES = 20_000  # of more those that vanish first

# One entry more; beyond the bound another one goes.
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

log = logging.getLogger(__name__)


class AddressBook(Store):
    """People by their number in the program, and chats by theirs, as texts that contacts.py makes and reads: the chats
    of Signal can't be listed, and a later run needs them to write there again. No method but `forget` raises
    StateUnavailable."""

    async def people(self) -> Mapping[int, str]:
        """Return the texts of people, by number; none while Redis is unavailable."""
        return await self._read(SIGNAL_PEOPLE)

    async def chats(self) -> Mapping[int, str]:
        """Return the texts of chats, by number; none while Redis is unavailable."""
        return await self._read(SIGNAL_CHATS)

    async def note_person(self, person: int, text: str) -> None:
        await self._note(SIGNAL_PEOPLE, person, text)

    async def note_chat(self, chat: int, text: str) -> None:
        await self._note(SIGNAL_CHATS, chat, text)

    async def forget(self, people: Collection[int], chats: Collection[int]) -> None:
        """Remove people and chats. Raises StateUnavailable."""
        await self._remove(SIGNAL_PEOPLE, people)
        await self._remove(SIGNAL_CHATS, chats)

    async def _remove(self, key: str, numbers: Collection[int]) -> None:
        if names := [str(number) for number in numbers]:
            await self._link.call(lambda redis: redis.hdel(key, *names))

    @when_back("addresses on Signal", limit=MAX_ADDRESSES)
    async def _note(self, key: str, number: int, text: str) -> None:
        await self._link.script(_NOTE_ADDRESS, [key], [str(number), text, str(KEEP_SECONDS), str(MAX_ADDRESSES)])

    @or_default({}, "addresses on Signal of an earlier run are not known")
    async def _read(self, key: str) -> Mapping[int, str]:
        found = await self._link.call(lambda redis: redis.hgetall(key))
        return {int(number): str(text) for number, text in found.items() if str(number).isdecimal()}


class VanishingMessages(Store):
    """Messages that vanish from their chats at a set time, so that a later run removes them too: "channel:message" by
    the time (unix seconds) at which it vanishes. No method raises StateUnavailable: the process that heard a message
    removes it by itself, as long as it runs."""

    @when_back("messages that vanish", limit=MAX_MESSAGES)
    async def note(self, channel_id: int, message_id: int, at: float) -> None:
        arguments = [str(at), f"{channel_id}:{message_id}", str(MAX_MESSAGES), str(KEEP_SECONDS)]
        await self._link.script(_NOTE_VANISHING, [SIGNAL_VANISHING], arguments)

    @when_back("messages that have vanished", limit=MAX_MESSAGES)
    async def gone(self, channel_id: int, message_id: int) -> None:
        await self._link.call(lambda redis: redis.zrem(SIGNAL_VANISHING, f"{channel_id}:{message_id}"))

    @or_default((), "messages of an earlier run that vanish are not known")
    async def all(self) -> Sequence[tuple[int, int, float]]:
        """Return channel, message and time of each; none while Redis is unavailable."""
        found: Any = await self._link.call(lambda redis: redis.zrange(SIGNAL_VANISHING, 0, -1, withscores=True))
        each = [(re.fullmatch(r"([0-9]+):([0-9]+)", str(name)), float(at)) for name, at in found]
        return [(int(match[1]), int(match[2]), at) for match, at in each if match is not None]
