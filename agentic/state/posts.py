"""Facts about posts that Discord does not tell: which came by instruction, and which agent spoke through a webhook.

A sorted set a channel keeps its newest posts, over restarts and for all processes. While Redis is away a process knows
its own.

Chains of agents that call each other must end. A post by instruction belongs to no chain: it was its author's turn in a
conversation. The script that ends a turn (`Ledger.settle`) marks its posts, so that at every moment the open turn or
the mark shows it. Marks are kept for longer than any chain lasts.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

MOST_POSTS = 1000  # a channel and kind
INSTRUCTED_SECONDS = 7 * 86400
WEBHOOK_SECONDS = 30 * 86400
REMEMBERED_INSTRUCTED = 5000  # by this process, of all channels
REMEMBERED_UNWRITTEN = 1000  # webhook posts, while Redis is away
JOINING = " joining"

# mark(key, posts, now): `posts` are members, a line each. A key of another type, by another program, is replaced.
MARK = f"""
local function mark(key, posts, now)
  if not ({{zset = 1, none = 1}})[redis.call('TYPE', key).ok] then redis.call('DEL', key) end
  for post in string.gmatch(posts, '[^\\n]+') do redis.call('ZADD', key, now, post) end
  redis.call('ZREMRANGEBYRANK', key, 0, {-1 - MOST_POSTS})
  redis.call('EXPIRE', key, {INSTRUCTED_SECONDS})
end
"""

log = logging.getLogger(__name__)


class InstructedPosts:
    """No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._own: OrderedDict[tuple[int, int], bool] = OrderedDict()

    def note(self, channel_id: int, message_ids: Iterable[int], *, joining: bool = False) -> str:
        """Remember a turn's posts here, and return them as MARK reads them. `joining`: the turn was reactive."""
        ids = list(message_ids)
        self._own.update(((channel_id, message_id), joining) for message_id in ids)
        while len(self._own) > REMEMBERED_INSTRUCTED:
            self._own.popitem(last=False)
        return "\n".join(f"{message_id}{JOINING if joining else ''}" for message_id in ids)

    async def read(self, channel_id: int) -> Mapping[int, bool]:
        """The channel's newest: message id → whether the turn was reactive."""
        own = {message: joining for (channel, message), joining in self._own.items() if channel == channel_id}
        try:
            kept = await self._link.call(lambda redis: redis.zrange(keys.instructed(channel_id), 0, -1))
        except RedisAway as away:
            log.debug("only this process's posts by instruction are known: %s", away)
            return own
        found = (str(member).partition(" ") for member in kept)
        return {int(message): bool(joining) for message, _, joining in found if message.isdecimal()} | own


class WebhookPosts:
    """`clock` gives unix seconds. No method raises RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock
        self._unwritten: OrderedDict[tuple[int, int], str] = OrderedDict()

    async def add(self, channel_id: int, message_id: int, agent: str) -> None:
        """Record the agent of a post."""
        self._unwritten[channel_id, message_id] = agent
        if len(self._unwritten) > REMEMBERED_UNWRITTEN:
            self._unwritten.popitem(last=False)
        try:
            await self._write()
        except RedisAway as away:
            log.debug("a webhook post will be recorded with the next one: %s", away)

    async def read(self, channel_id: int) -> Mapping[int, str]:
        """The channel's newest: message id → agent."""
        own = {message: agent for (channel, message), agent in self._unwritten.items() if channel == channel_id}
        try:
            kept = await self._link.call(lambda redis: redis.zrange(keys.webhook_posts(channel_id), 0, -1))
        except RedisAway as away:
            log.debug("only this process's webhook posts are known: %s", away)
            return own
        return {**dict(filter(None, map(read_post, map(str, kept)))), **own}

    async def _write(self) -> None:
        waiting, now = dict(self._unwritten), self._clock()

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=False)
            for (channel_id, message_id), agent in waiting.items():
                key = keys.webhook_posts(channel_id)
                pipe.zadd(key, {f"{message_id} {agent}": now})
                pipe.zremrangebyrank(key, 0, -1 - MOST_POSTS)
                pipe.expire(key, WEBHOOK_SECONDS)
                pipe.publish(keys.WEBHOOK_POSTED, f"{message_id} {agent}")
            await pipe.execute()

        await self._link.call(write)
        for key in waiting:
            self._unwritten.pop(key, None)


def read_post(member: str) -> tuple[int, str] | None:
    """The message and its agent's key, of "message agent"; None for anything else."""
    message_id, _, agent = member.partition(" ")
    if not (message_id.isdecimal() and agent):
        log.warning("a webhook post cannot be read and is ignored: %.80r", member)
        return None
    return int(message_id), agent
