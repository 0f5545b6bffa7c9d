"""Ignored people: a bounded set in Redis that every process holds in memory, where a check is cheap.

A notice publishes each change; after a loss of Redis the set is read again. Once used, the set is never empty (EVER):
where it is missing Redis was emptied, and a living process writes it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator
from typing import Literal

from agentic.wire import keys
from agentic.wire.following import follow
from agentic.wire.link import RedisLink
from agentic.wire.messages import IgnoreNotice
from agentic.wire.reading import read
from agentic.wire.subscriptions import Subscriber

MOST = 1000  # people
CHECK_EVERY = 5.0  # seconds between two checks that Redis still has the set
EVER = "-"  # not a user id

# KEYS: the set; ARGV: the person, the set's bound, the channel for the notice, the notice
ADD = f"""
redis.call('SADD', KEYS[1], '{EVER}')
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 'known' end
if redis.call('SCARD', KEYS[1]) > tonumber(ARGV[2]) then return 'full' end
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 'added'
"""
REMOVE = f"""
redis.call('SADD', KEYS[1], '{EVER}')
local was = redis.call('SREM', KEYS[1], ARGV[1])
if was == 1 then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return was
"""

log = logging.getLogger(__name__)


class Ignores(Collection[int]):
    """The user ids. Call `start()` before the bus runs, and `run()` in a task."""

    def __init__(self, link: RedisLink, bus: Subscriber, *, check_every: float = CHECK_EVERY) -> None:
        self._link, self._bus, self._check_every = link, bus, check_every
        self._users: set[int] = set()
        self._changed: dict[int, bool] = {}  # since the last reading began
        self._behind = asyncio.Event()

    def __contains__(self, user_id: object) -> bool:
        return user_id in self._users

    def __iter__(self) -> Iterator[int]:
        return iter(self._users)

    def __len__(self) -> int:
        return len(self._users)

    def start(self) -> None:
        """Subscribe to the notices of other processes."""
        self._bus.subscribe(keys.COORDINATOR_IGNORES, self._on_notice)
        self._bus.on_resubscribed(self._behind.set)

    async def run(self) -> None:
        """Until cancelled: after each new connection, and where Redis lost the set, call `read`."""
        await follow(
            self._link,
            self._behind,
            "ignored people",
            check_every=self._check_every,
            lost=self._forgotten,
            read=self.read,
        )

    async def read(self) -> None:
        """Read the set, after writing it if Redis was emptied. Raises RedisAway."""
        self._changed.clear()
        if await self._forgotten():
            known = [EVER, *map(str, self._users)]
            await self._link.call(lambda redis: redis.sadd(keys.COORDINATOR_IGNORED, *known))
        members = await self._link.call(lambda redis: redis.smembers(keys.COORDINATOR_IGNORED))
        self._users = {int(member) for member in members if str(member).isdecimal()}
        for user_id, ignored in self._changed.items():
            self._note(user_id, ignored)

    async def add(self, user_id: int) -> Literal["added", "known", "full"]:
        """Ignore this person. Raises RedisAway."""
        notice = IgnoreNotice(user_id=user_id, ignored=True).to_wire()
        arguments: list[str | int | float] = [str(user_id), MOST, keys.COORDINATOR_IGNORES, notice]
        outcome: Literal["added", "known", "full"] = await self._link.script(ADD, [keys.COORDINATOR_IGNORED], arguments)
        if outcome != "full":
            self._note(user_id, True)
        return outcome

    async def remove(self, user_id: int) -> bool:
        """Whether the person was ignored. Raises RedisAway."""
        notice = IgnoreNotice(user_id=user_id, ignored=False).to_wire()
        arguments: list[str | int | float] = [str(user_id), keys.COORDINATOR_IGNORES, notice]
        removed = await self._link.script(REMOVE, [keys.COORDINATOR_IGNORED], arguments)
        self._note(user_id, False)
        return bool(removed)

    async def _forgotten(self) -> bool:
        if not self._users:
            return False
        return not await self._link.call(lambda redis: redis.exists(keys.COORDINATOR_IGNORED))

    def _on_notice(self, raw: str) -> None:
        notice = read(IgnoreNotice, raw)
        if notice is not None:
            self._note(notice.user_id, notice.ignored)

    def _note(self, user_id: int, ignored: bool) -> None:
        self._changed[user_id] = ignored
        if ignored:
            self._users.add(user_id)
        else:
            self._users.discard(user_id)
