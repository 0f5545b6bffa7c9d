"""Rooms that are not open yet: those of which a person has still to choose the members, and those whose thread is
being made.

What is being made survives a crash at each step: it is kept before the first message is posted, and dropped when the
coordinator has the room. The bot that began goes on with it (agentic/rooms/opening.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pydantic import ValidationError
from redis.asyncio import Redis

from agentic.state.rooms import Room, RoomValue
from agentic.wire import keys
from agentic.wire.link import RedisLink

DRAFT_SECONDS = 15 * 60  # as long as Discord takes answers to a command
KEEP_SECONDS = 3600  # of what is being made; it is given up long before

log = logging.getLogger(__name__)


class RoomOpening(RoomValue):
    """A room whose thread is being made, by the bot of `agent`. `request` is the id of the command, which is older
    than all that is made for it. The room's thread is 0 until there is one."""

    request: int
    agent: str
    at: float  # unix seconds
    room: Room
    name: str  # of the thread
    text: str  # of the message above it


class RoomOpenings:
    """All methods raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def keep(self, opening: RoomOpening) -> None:
        """Store it as it is now."""
        text = opening.model_dump_json()

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=True)
            pipe.hset(keys.ROOM_OPENINGS, str(opening.request), text)
            pipe.expire(keys.ROOM_OPENINGS, KEEP_SECONDS)
            await pipe.execute()

        await self._link.call(write)

    async def drop(self, request: int) -> None:
        await self._link.call(lambda redis: redis.hdel(keys.ROOM_OPENINGS, str(request)))

    async def of(self, agent: str) -> Sequence[RoomOpening]:
        """Those that the bot of this agent began."""
        texts = await self._link.call(lambda redis: redis.hvals(keys.ROOM_OPENINGS))
        return [opening for text in texts if (opening := _read(str(text))) is not None and opening.agent == agent]

    async def keep_draft(self, request: int, draft: str) -> None:
        """Store what a person asked for until they have chosen the members."""
        await self._link.call(lambda redis: redis.set(keys.room_opening(str(request)), draft, ex=DRAFT_SECONDS))

    async def draft(self, request: int) -> str | None:
        """None for one that has expired, or was taken."""
        found = await self._link.call(lambda redis: redis.get(keys.room_opening(str(request))))
        return None if found is None else str(found)

    async def take_draft(self, request: int) -> bool:
        """Remove it; false where it is gone already, so that one choice makes one room."""
        return bool(await self._link.call(lambda redis: redis.delete(keys.room_opening(str(request)))))


def _read(text: str) -> RoomOpening | None:
    try:
        return RoomOpening.model_validate_json(text)
    except ValidationError:
        log.warning("the opening of a room cannot be read, perhaps written by another version; it is skipped")
        return None
