"""People's requests to be forgotten, which every process applies to its own data.

A bounded sorted set in Redis, by time of request. A process remembers the last request that it applied, and applies the
later ones. A notice makes every process read the set, and so does a new connection. The times come from Redis's clock
and only grow, so no request is missed. The person's private chats are stored beside it: everything said there is
deleted, whoever said it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from agentic.ids import MAX_ID
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, or_default
from agentic.wire.entries import StoredValue
from agentic.wire.messages import ForgetNotice

KEEP_DAYS = 30
ANSWER_SECONDS = 600
MAX_REQUESTS = 1000  # people; beyond that the oldest requests are dropped

# KEYS: the requests, the person's chats; ARGV: the person, ms to keep a request, how many are kept, the time after
# which the request must be, then the chats
ORDER = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local at = string.format('%.0f', math.max(now, (last or 0) + 1, ARGV[4] + 1))
redis.call('ZADD', KEYS[1], at, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2]))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -ARGV[3] - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
for i = 5, #ARGV do redis.call('SADD', KEYS[2], ARGV[i]) end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return at
"""


class RemovedWords(StoredValue):
    """What the recorder removed for the request made at `at` (unix milliseconds), as counts: prompts with the person's
    words, turns that named the person, reactions, logged messages."""

    at: int
    prompts: int = 0
    turns: int = 0
    reactions: int = 0
    messages: int = 0


class ForgetRequests:
    """Call `start` before the bus runs. `news` is set when there may be new requests. The other methods raise
    StateUnavailable."""

    def __init__(self, link: RedisConnection) -> None:
        self._link = link
        self.news = asyncio.Event()

    def start(self, bus: Bus) -> None:
        bus.subscribe(keys.COORDINATOR_FORGETS, lambda _: self.news.set())
        bus.on_resubscribed(self.news.set)

    async def order(self, user_id: int, chats: Collection[int] = (), *, after: int = 0) -> int:
        """Add a person's request, with their private chats; it replaces an earlier one. Returns its time in unix
        milliseconds, which is later than `after`: a new Redis's clock may be behind."""
        names = [keys.COORDINATOR_FORGOTTEN, keys.forgotten_chats(user_id)]
        arguments = [user_id, KEEP_DAYS * 86_400_000, MAX_REQUESTS, after, *chats]
        return int(await self._link.script(ORDER, names, arguments))

    async def chats_of(self, user_id: int) -> set[int]:
        """Return the private chats that the person's requests named."""
        found: Any = await self._link.redis.smembers(keys.forgotten_chats(user_id))
        return {int(each) for each in found}

    @or_default(None, "processes read requests to be forgotten when Redis is back")
    async def tell(self) -> None:
        """Make every process read the requests now."""
        await self._link.redis.publish(keys.COORDINATOR_FORGETS, ForgetNotice().to_wire())

    async def after(self, last: int) -> list[tuple[int, int]]:
        """Return the requests after `last`, oldest first, as (unix milliseconds, user id). If the newest is older, this
        is a new Redis, whose requests nobody has applied: returns all of them."""
        key = keys.COORDINATOR_FORGOTTEN
        newest: Any = await self._link.redis.zrange(key, -1, -1, withscores=True)
        start = f"({last}" if newest and newest[0][1] >= last else "-inf"
        found: Any = await self._link.redis.zrangebyscore(key, start, "+inf", withscores=True)
        orders = [(int(at), int(member)) for member, at in found if member.isascii() and member.isdecimal()]
        return [(at, user_id) for at, user_id in orders if 0 < user_id <= MAX_ID]

    async def answer(self, user_id: int, removed: RemovedWords) -> None:
        """Report what the recorder removed."""
        await self._link.redis.set(keys.forgotten_words(user_id), removed.model_dump_json(), ex=ANSWER_SECONDS)

    async def answered(self, user_id: int, at: int) -> RemovedWords | None:
        """Return the recorder's answer to the request made at `at`; None until it comes."""
        removed = RemovedWords.parse(await self._link.redis.get(keys.forgotten_words(user_id)))
        return removed if removed is not None and removed.at >= at else None

    async def recorder_acts(self) -> bool:
        """Whether any process writes the record now."""
        return bool(await self._link.redis.exists(keys.RECORDER_OWNER))
