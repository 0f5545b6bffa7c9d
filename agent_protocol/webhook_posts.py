"""Which posts of webhooks are ours, and whose: known to every process and over restarts, by their ids.

A channel's newest ones are kept for as long as anybody may see them in a context. While Redis is away a process knows
its own.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from redis.asyncio import Redis

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink

KEEP_SECONDS = 30 * 86400
MOST_POSTS = 1000  # a channel
UNWRITTEN = 1000  # posts of all channels that Redis was not there for

log = logging.getLogger(__name__)


class WebhookPosts:
    """`clock` gives unix seconds. No method raises RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock
        self._unwritten: OrderedDict[tuple[int, int], str] = OrderedDict()

    async def add(self, channel_id: int, message_id: int, agent: str) -> None:
        """Note a post of `agent`'s."""
        self._unwritten[channel_id, message_id] = agent
        if len(self._unwritten) > UNWRITTEN:
            self._unwritten.popitem(last=False)
        try:
            await self._write()
        except RedisAway as away:
            log.debug("a webhook's post is noted later: %s", away)

    async def read(self, channel_id: int) -> Mapping[int, str]:
        """Agents by message id, the newest `MOST_POSTS` of the channel."""
        own = {message: agent for (channel, message), agent in self._unwritten.items() if channel == channel_id}
        try:
            kept = await self._link.call(lambda redis: redis.zrange(keys.webhook_posts(channel_id), 0, -1))
        except RedisAway as away:
            log.debug("only this process's webhook posts are known: %s", away)
            return own
        return {**dict(filter(None, map(_read, map(str, kept)))), **own}

    async def _write(self) -> None:
        waiting, now = dict(self._unwritten), self._clock()

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=False)
            for (channel_id, message_id), agent in waiting.items():
                key = keys.webhook_posts(channel_id)
                pipe.zadd(key, {f"{message_id} {agent}": now})
                pipe.zremrangebyrank(key, 0, -1 - MOST_POSTS)
                pipe.expire(key, KEEP_SECONDS)
            await pipe.execute()

        await self._link.call(write)
        for key in waiting:
            self._unwritten.pop(key, None)


def _read(member: str) -> tuple[int, str] | None:
    message_id, _, agent = member.partition(" ")
    if not (message_id.isdecimal() and agent):
        log.warning("a webhook's post cannot be read: %.80r", member)
        return None
    return int(message_id), agent
