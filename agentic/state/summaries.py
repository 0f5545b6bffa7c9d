"""Summaries of what lies before the windows of a room's members: one a thread, which all of them are shown.

A summary ends with the message `upto`; the windows begin after it. It stays the same, to the byte, until the next one
replaces it. One turn at a time makes the next: it claims the thread, asks a model, and keeps the answer only while it
still holds the claim. The deletion of a message, and a person's wish to be forgotten, take summary and claim away, so
that nothing of theirs is kept by a turn that read it before.

Where a summary is lost, or cannot be made, members see less. So a missing Redis is no error here: reading then gives
the summary that this process read last.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from cachetools import LRUCache
from pydantic import BaseModel, ConfigDict, ValidationError
from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

KEEP_SECONDS = 30 * 86400
CLAIM_SECONDS = 120
REMEMBERED = 1000  # threads, in this process
SCAN_COUNT = 500
MOST_MESSAGES = 400

# KEYS: the summary, the claim. ARGV: who claims, the text, the seconds to keep it.
KEEP = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1
"""

log = logging.getLogger(__name__)


class Summary(BaseModel):
    """A summary of what was said in a thread, from the message `first` to the message `upto`, also by way of former
    summaries. `messages`: those that went into it, the newest MOST_MESSAGES; `people`: their authors, as far as they
    are people, and those of all older ones."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    text: str
    first: int
    upto: int
    messages: tuple[int, ...] = ()
    people: frozenset[int] = frozenset()

    def covers(self, message_id: int) -> bool:
        """Whether the message went into it, or may have: the oldest are not known one by one."""
        older = self.first <= message_id < self.messages[0] if len(self.messages) >= MOST_MESSAGES else False
        return older or message_id in self.messages


class Summaries:
    """All summaries. `forgotten`, `drop`, `drop_covering` and `forget_person` raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._read: LRUCache[int, Summary | None] = LRUCache(REMEMBERED)

    async def read(self, thread_id: int) -> Summary | None:
        """The thread's summary; None for none, or one that cannot be read."""
        try:
            text = await self._link.call(lambda redis: redis.get(keys.summary(thread_id)))
        except RedisAway as away:
            log.debug("a summary cannot be read: %s", away)
            return self._read.get(thread_id)
        self._read[thread_id] = found = _summary(text, thread_id)
        return found

    async def claim(self, thread_id: int, former: Summary | None) -> str | None:
        """Claim the making of the summary after `former`; None where another turn does, or has done so."""
        token = secrets.token_hex(8)
        claim = keys.summary_claim(thread_id)
        try:
            got = await self._link.call(lambda redis: redis.set(claim, token, nx=True, ex=CLAIM_SECONDS))
            if not got:
                return None
            if await self.read(thread_id) == former:
                return token
            await self._link.call(lambda redis: redis.delete(claim))
        except RedisAway as away:
            log.debug("a summary is not made: %s", away)
        return None

    async def keep(self, thread_id: int, token: str, summary: Summary) -> bool:
        """Keep the summary for thirty days; False where the claim is lost."""
        names = [keys.summary(thread_id), keys.summary_claim(thread_id)]
        try:
            kept = await self._link.script(KEEP, names, [token, summary.model_dump_json(), KEEP_SECONDS])
        except RedisAway as away:
            log.debug("a summary is not kept: %s", away)
            return False
        return bool(kept)

    async def forgotten(self) -> Mapping[int, float]:
        """When people asked to be forgotten, in unix seconds, by their ids. Raises RedisAway."""
        found: Any = await self._link.call(
            lambda redis: redis.zrange(keys.COORDINATOR_FORGOTTEN, 0, -1, withscores=True)
        )
        return {int(user_id): at / 1000 for user_id, at in found if str(user_id).isdecimal()}

    async def drop(self, thread_id: int) -> None:
        """Remove the thread's summary, also one that is being made. Raises RedisAway."""
        self._read.pop(thread_id, None)
        names = (keys.summary(thread_id), keys.summary_claim(thread_id))
        await self._link.call(lambda redis: redis.delete(*names))

    async def drop_covering(self, thread_id: int, message_ids: Collection[int] | None) -> None:
        """Remove the thread's summary where one of these messages went into it, or may; None: in any case. Raises
        RedisAway."""
        summary = await self.read(thread_id)
        if summary is None or message_ids is None or any(map(summary.covers, message_ids)):
            await self.drop(thread_id)

    async def forget_person(self, user_id: int) -> int:
        """Remove the summaries with words of the person, and those that are being made; how many there were. Raises
        RedisAway."""
        forgotten = 0
        for name in await self._names(keys.summary("*")):
            thread_id = int(name.rpartition(":")[2])
            summary = await self.read(thread_id)
            if summary is not None and user_id in summary.people:
                await self.drop(thread_id)
                forgotten += 1
        claims = await self._names(keys.summary_claim("*"))
        if claims:
            await self._link.call(lambda redis: redis.delete(*claims))
        return forgotten

    async def _names(self, pattern: str) -> list[str]:
        found: list[str] = []
        cursor = 0
        while True:
            cursor, page = await self._link.call(partial(_scan, pattern, cursor))
            found += page
            if cursor == 0:
                return [name for name in dict.fromkeys(found) if name.rpartition(":")[2].isdecimal()]


async def _scan(pattern: str, cursor: int, redis: Redis) -> tuple[int, list[str]]:
    found: Any = await redis.scan(cursor, match=pattern, count=SCAN_COUNT)
    return int(found[0]), [str(name) for name in found[1]]


def _summary(text: str | bytes | None, thread_id: int) -> Summary | None:
    try:
        return Summary.model_validate_json(text) if text else None
    except ValidationError:
        log.warning("the summary of thread %d cannot be read, it has none", thread_id)
        return None
