"""Which posts of agents came by instruction of the coordinator: known to every process and over restarts.

Agents may call each other, in chains that end; what an agent says because it was its turn in a conversation is no link
of such a chain. A channel's newest posts are kept, longer than anybody goes on with a chain. While Redis is away a
process knows its own.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from redis.asyncio import Redis

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink

KEEP_SECONDS = 7 * 86400
MOST_POSTS = 1000  # a channel
REMEMBERED = 5000  # posts of all channels in this process

log = logging.getLogger(__name__)


class Instructed:
    """`clock` gives unix seconds. No method raises RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock
        self._own: OrderedDict[tuple[int, int], bool] = OrderedDict()

    async def add(self, channel_id: int, message_ids: Iterable[int], *, joining: bool = False) -> None:
        """Note posts of a turn by instruction; `joining`: one in reaction to a person, not in a conversation."""
        ids = list(message_ids)
        if not ids:
            return
        self._own.update(((channel_id, message_id), joining) for message_id in ids)
        while len(self._own) > REMEMBERED:
            self._own.popitem(last=False)
        key, now = keys.instructed(channel_id), self._clock()

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=False)
            pipe.zadd(key, {f"{message_id}{' joining' if joining else ''}": now for message_id in ids})
            pipe.zremrangebyrank(key, 0, -1 - MOST_POSTS)
            pipe.expire(key, KEEP_SECONDS)
            await pipe.execute()

        try:
            await self._link.call(write)
        except RedisAway as away:
            log.debug("posts by instruction are known to this process alone: %s", away)

    async def read(self, channel_id: int) -> Mapping[int, bool]:
        """The newest `MOST_POSTS` of the channel: message id → whether its author joined in."""
        own = {message: joining for (channel, message), joining in self._own.items() if channel == channel_id}
        try:
            kept = await self._link.call(lambda redis: redis.zrange(keys.instructed(channel_id), 0, -1))
        except RedisAway as away:
            log.debug("only this process's posts by instruction are known: %s", away)
            return own
        found = (str(member).partition(" ") for member in kept)
        return {int(message): bool(joining) for message, _, joining in found if message.isdecimal()} | own
