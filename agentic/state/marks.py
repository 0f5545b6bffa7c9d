"""Marks of what was done in a room's thread: a hash for each room, kept for 90 days after its last change.

Only the process that acts for the personas writes them (agentic/rooms/threads.py). `locked` is written before the
thread is locked, so a lock of ours is never mistaken for a moderator's.
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisLink

MARK_SECONDS = 90 * 86400

log = logging.getLogger(__name__)


class Marks(BaseModel):
    """`standing`: the room's standing that was said, such as "paused stopped". `slot`: the audience's slot that was
    announced, by its end (unix seconds). `locked`: the thread's lock is ours; `lock_done`: the thread is locked, not
    only about to be. `unlockable`: it was said that we may not lock it. `archived`: we have archived it.
    `line`: the newest of the room's lines that was posted."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    standing: str = ""
    slot: float = 0.0
    locked: bool = False
    lock_done: bool = False
    unlockable: bool = False
    archived: bool = False
    line: int = 0


class RoomMarks:
    """All methods raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def read(self, thread_id: int) -> Marks:
        found: dict[Any, Any] = await self._link.call(lambda redis: redis.hgetall(keys.room_marks(thread_id)))
        try:
            return Marks.model_validate(found)
        except ValidationError:
            log.warning("the marks of room %d cannot be read, perhaps written by another version", thread_id)
            return Marks()

    async def set(self, thread_id: int, **marks: str | float | bool) -> None:
        """Set some of them."""
        values: dict[Any, Any] = {
            name: int(value) if isinstance(value, bool) else value for name, value in marks.items()
        }
        key = keys.room_marks(thread_id)

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=True)
            pipe.hset(key, mapping=values)
            pipe.expire(key, MARK_SECONDS)
            await pipe.execute()

        await self._link.call(write)
