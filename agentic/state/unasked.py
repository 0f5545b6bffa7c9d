"""Messages that nobody asked for: for whom each was, and who wants no more of them.

The record knows both too, and for longer, but learns of them a moment later, and may be on another machine. A person's
no must count at once: the agent looks here right before it posts. While Redis is away a no counts in the process that
heard it, and is written when Redis is back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from cachetools import LRUCache
from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

KEEP_SECONDS = 30 * 86400
REMEMBERED = 1000  # messages of this process

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnaskedMessage:
    """A message that `agent` posted unasked for a person. `task`: follow_up or discover."""

    person_id: int
    agent: str
    task: str


class UnaskedMessages:
    """`is_unwanted` raises RedisAway, the other methods do not."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._own = LRUCache[int, UnaskedMessage](REMEMBERED)
        self._unwritten: dict[int, bool] = {}  # person → whether they refused, while Redis is away
        link.when_back(self._write)

    async def note(self, message_ids: Iterable[int], message: UnaskedMessage) -> None:
        """These messages of one post were unasked."""
        ids = tuple(message_ids)
        self._own.update(dict.fromkeys(ids, message))
        text = f"{message.person_id} {message.agent} {message.task}"

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=False)
            for message_id in ids:
                pipe.set(keys.unasked(message_id), text, ex=KEEP_SECONDS)
            await pipe.execute()

        try:
            await self._link.call(write)
        except RedisAway as away:
            log.debug("an unasked message is known in this process alone: %s", away)

    async def read(self, message_id: int) -> UnaskedMessage | None:
        """None for a message that somebody asked for, and for one that is too old."""
        try:
            kept = await self._link.call(lambda redis: redis.get(keys.unasked(message_id)))
        except RedisAway as away:
            log.debug("only this process's unasked messages are known: %s", away)
            kept = None
        return _read(str(kept)) if kept else self._own.get(message_id)

    async def refuse(self, user_id: int) -> bool:
        """The person wants no more of them. False where that was known, in any process."""
        known = self._unwritten.get(user_id)
        try:
            first = await self._link.call(
                lambda redis: redis.set(keys.unwanted(user_id), "1", nx=True, ex=KEEP_SECONDS)
            )
        except RedisAway as away:
            log.debug("a person wants no unasked messages, which is written when Redis is back: %s", away)
            self._unwritten[user_id] = True
            return known is not True
        self._unwritten.pop(user_id, None)
        return bool(first)

    async def allow(self, user_id: int) -> None:
        """The person wants them again."""
        self._unwritten[user_id] = False
        await self._write()

    async def is_unwanted(self, user_id: int) -> bool:
        """Whether the person has said lately that they want no more. Raises RedisAway where nobody knows."""
        if (refused := self._unwritten.get(user_id)) is not None:
            return refused
        return bool(await self._link.call(lambda redis: redis.exists(keys.unwanted(user_id))))

    async def _write(self) -> None:
        """Write what people said while Redis was away."""
        waiting = dict(self._unwritten)
        if not waiting:
            return

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=False)
            for user_id, refused in waiting.items():
                if refused:
                    pipe.set(keys.unwanted(user_id), "1", ex=KEEP_SECONDS)
                else:
                    pipe.delete(keys.unwanted(user_id))
            await pipe.execute()

        try:
            await self._link.call(write)
        except RedisAway as away:
            log.debug("what people said of unasked messages is written when Redis is back: %s", away)
            return
        for user_id, refused in waiting.items():
            if self._unwritten.get(user_id) is refused:
                del self._unwritten[user_id]


def _read(text: str) -> UnaskedMessage | None:
    match text.split():
        case [person_id, agent, task] if person_id.isdecimal():
            return UnaskedMessage(int(person_id), agent, task)
    log.warning("an unasked message cannot be read and is ignored: %.80r", text)
    return None
