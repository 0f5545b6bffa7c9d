"""Reads rooms, and the script by which ConversationStore.keep writes one together with its conversation.

A room is a JSON text of its own key, and an index has the threads of all rooms by their last change. Both end 90 days
after the last change. A room that another version wrote is read as far as this version knows it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from functools import partial

from pydantic import ValidationError
from redis.asyncio import Redis

from agentic.state.rooms import Room, RoomStatus
from agentic.wire import keys
from agentic.wire.link import RedisLink
from agentic.wire.messages import RoomNotice

ROOM_SECONDS = 90 * 86400  # after the last change
MOST_ROOMS = 10_000
LISTED = 100
PAGE = 200  # rooms read at once
FORGIVEN = frozenset({"policy", "archive_minutes", "audience_seconds", "left", "moderator", "slot_until"})
"""Fields that count as missing where another version wrote what this one does not know."""

# write_room(at): KEYS[at] is the room, KEYS[at + 1] the index. The arguments are those of `room_args`. A room that is
# as it was is written too, in case Redis lost it, but is no change.
WRITE_ROOM = """
local function write_room(at, first)
  local text, thread, changed = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  local changes = redis.call('GET', KEYS[at]) ~= text
  redis.call('SET', KEYS[at], text, 'EX', ARGV[first + 3])
  redis.call('ZADD', KEYS[at + 1], changed, thread)
  redis.call('ZREMRANGEBYSCORE', KEYS[at + 1], '-inf', '(' .. (changed - ARGV[first + 3]))
  redis.call('ZREMRANGEBYRANK', KEYS[at + 1], 0, -1 - ARGV[first + 4])
  redis.call('EXPIRE', KEYS[at + 1], ARGV[first + 3])
  if changes then redis.call('PUBLISH', ARGV[first + 5], ARGV[first + 6]) end
end
"""

log = logging.getLogger(__name__)


def room_keys(room: Room) -> list[str]:
    return [keys.room(room.thread_id), keys.COORDINATOR_ROOMS]


def room_args(room: Room) -> list[str | int | float]:
    notice = RoomNotice(thread_id=room.thread_id).to_wire()
    bounds = (ROOM_SECONDS, MOST_ROOMS)
    return [room.model_dump_json(), room.thread_id, room.changed_at, *bounds, keys.ROOM_NOTICES, notice]


class RoomStore:
    """Only for reading; all methods raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def read(self, thread_id: int) -> Room | None:
        """The thread's room; None for none, or one that cannot be read."""
        text = await self._link.call(lambda redis: redis.get(keys.room(thread_id)))
        return None if text is None else _room(thread_id, str(text))

    async def list(self, status: RoomStatus | None = None, limit: int | None = LISTED) -> list[Room]:
        """The rooms of that status, the last changed first; at most `limit`, None for all."""
        found: list[Room] = []
        async for room in self._newest_first():
            if status in (None, room.status):
                found.append(room)
            if len(found) == limit:
                break
        return found

    async def _newest_first(self) -> AsyncIterator[Room]:
        """Page by page, since no command may take long. One that moves up meanwhile is not listed twice."""
        seen: set[int] = set()
        start = 0
        while page := await self._link.call(partial(_read_page, start)):
            start += len(page)
            for thread_id, text in page:
                if text is None or thread_id in seen:
                    continue
                seen.add(thread_id)
                if (room := _room(thread_id, text)) is not None:
                    yield room


async def _read_page(start: int, redis: Redis) -> list[tuple[int, str | None]]:
    threads = [int(str(thread)) for thread in await redis.zrevrange(keys.COORDINATOR_ROOMS, start, start + PAGE - 1)]
    texts = await redis.mget([keys.room(thread) for thread in threads]) if threads else []
    return [(thread, None if text is None else str(text)) for thread, text in zip(threads, texts, strict=True)]


def _room(thread_id: int, text: str) -> Room | None:
    try:
        return Room.model_validate_json(text)
    except ValidationError as error:
        wrong = {str(each["loc"][0]) if each["loc"] else "JSON" for each in error.errors()}
        if wrong <= FORGIVEN:
            return Room.model_validate({name: value for name, value in json.loads(text).items() if name not in wrong})
        log.warning("the room in thread %d cannot be read, its wrong fields: %s", thread_id, ", ".join(sorted(wrong)))
        return None
