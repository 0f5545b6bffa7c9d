"""Arenas: a question, two answers by agents whose names are hidden, and a vote that is under way.

One hash has all of them, by their channels, so a channel has one at a time. An arena is written before each of its
steps, and dropped when its end was said (agentic/rooms/arena.py).
"""

from __future__ import annotations

import logging

from pydantic import ValidationError
from redis.asyncio import Redis

from agentic.state.rooms import RoomValue
from agentic.wire import keys
from agentic.wire.link import RedisLink

KEEP_SECONDS = 2 * 86400  # after the last change of any arena

log = logging.getLogger(__name__)


class ArenaAnswer(RoomValue):
    """A contender with its answer. `model` is provider/model."""

    agent: str
    shown: str
    model: str
    text: str


class Arena(RoomValue):
    """`id` is that of the command. `begun`: the contenders were asked; `answers` are theirs once both have answered,
    `until` (unix seconds) is set once people can vote on the message."""

    id: int
    channel_id: int
    guild_id: int | None = None
    parent_id: int | None = None  # of a thread: its channel
    question: str
    asked_by: int
    minutes: int
    at: float  # unix seconds
    begun: bool = False
    answers: tuple[ArenaAnswer, ...] = ()
    message_id: int | None = None
    until: float | None = None


class Arenas:
    """All methods raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def open(self, arena: Arena) -> bool:
        """Store a new one; False where the channel has one already."""

        async def write(redis: Redis) -> int:
            pipe = redis.pipeline(transaction=True)
            pipe.hsetnx(keys.COORDINATOR_ARENAS, str(arena.channel_id), arena.model_dump_json())
            pipe.expire(keys.COORDINATOR_ARENAS, KEEP_SECONDS)
            return int((await pipe.execute())[0])

        return bool(await self._link.call(write))

    async def keep(self, arena: Arena) -> None:
        """Store how far it is."""
        text = arena.model_dump_json()
        await self._link.call(lambda redis: redis.hset(keys.COORDINATOR_ARENAS, str(arena.channel_id), text))

    async def drop(self, channel_id: int) -> None:
        await self._link.call(lambda redis: redis.hdel(keys.COORDINATOR_ARENAS, str(channel_id)))

    async def all(self) -> list[Arena]:
        """Those that are not over."""
        texts = await self._link.call(lambda redis: redis.hvals(keys.COORDINATOR_ARENAS))
        return [arena for text in texts if (arena := _read(str(text))) is not None]

    async def has_host(self) -> bool:
        """Whether a process acts for arenas: the one that acts for the personas."""
        return bool(await self._link.call(lambda redis: redis.exists(keys.PERSONAS_OWNER)))


def _read(text: str) -> Arena | None:
    try:
        return Arena.model_validate_json(text)
    except ValidationError:
        log.warning("an arena cannot be read, perhaps written by another version; it is skipped")
        return None
