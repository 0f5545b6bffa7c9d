"""Addresses of a service whose chats cannot be listed: what a later run needs to write into them again.

Two hashes of texts that another package makes and reads (agentic.services.signal): people by their number in the
program, and chats by theirs. Both are bounded, and end when nothing was noted for a quarter of a year.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from agentic.wire import keys
from agentic.wire.connection import RedisAway, RedisLink

MOST = 2_000  # entries of a hash
KEEP_SECONDS = 90 * 86400

# One entry more; beyond the bound another one goes.
_NOTE = """
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
redis.call('expire', KEYS[1], ARGV[3])
while redis.call('hlen', KEYS[1]) > tonumber(ARGV[4]) do
  local known = redis.call('hkeys', KEYS[1])
  redis.call('hdel', KEYS[1], known[1] == ARGV[1] and known[2] or known[1])
end
return redis.call('hlen', KEYS[1])
"""

log = logging.getLogger(__name__)


class AddressBook:
    """The addresses of Signal. No method but `forget` raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def people(self) -> Mapping[int, str]:
        """The texts of people, by number; none while Redis is away."""
        return await self._read(keys.SIGNAL_PEOPLE)

    async def chats(self) -> Mapping[int, str]:
        """The texts of chats, by number; none while Redis is away."""
        return await self._read(keys.SIGNAL_CHATS)

    async def note_person(self, person: int, text: str) -> None:
        await self._note(keys.SIGNAL_PEOPLE, person, text)

    async def note_chat(self, chat: int, text: str) -> None:
        await self._note(keys.SIGNAL_CHATS, chat, text)

    async def forget(self, people: Collection[int], chats: Collection[int]) -> None:
        """Remove people and chats. Raises RedisAway."""
        await self._remove(keys.SIGNAL_PEOPLE, people)
        await self._remove(keys.SIGNAL_CHATS, chats)

    async def _remove(self, key: str, numbers: Collection[int]) -> None:
        if names := [str(number) for number in numbers]:
            await self._link.call(lambda redis: redis.hdel(key, *names))

    async def _note(self, key: str, number: int, text: str) -> None:
        try:
            await self._link.script(_NOTE, [key], [str(number), text, str(KEEP_SECONDS), str(MOST)])
        except RedisAway as away:
            log.debug("an address is not kept, Redis is away: %s", away)

    async def _read(self, key: str) -> Mapping[int, str]:
        try:
            found = await self._link.call(lambda redis: redis.hgetall(key))
        except RedisAway as away:
            log.info("addresses of an earlier run are not known, Redis is away: %s", away)
            return {}
        return {int(number): str(text) for number, text in found.items() if str(number).isdecimal()}
