"""Which posts of agents came by instruction of the coordinator: known to every process and over restarts.

Agents may call each other, in chains that end; what an agent says because it was its turn in a conversation is no link
of such a chain. The script that ends a turn (`Ledger.settle`) marks its posts, so that there is no moment at which
neither the open turn nor a mark tells. A channel's newest posts are kept, longer than anybody goes on with a chain.
While Redis is away a process knows its own.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from redis.asyncio import Redis

from agent_protocol.connection.link import RedisAway, RedisLink
from agent_protocol.wire import keys

KEEP_SECONDS = 7 * 86400

MOST_POSTS = 1000  # a channel

REMEMBERED = 5000  # posts of all channels in this process

JOINING = " joining"


# mark(key, posts, now): `posts` are members, a line each. Another maker's value under this name is made anew.
MARK = f"""
local function mark(key, posts, now)
  if not ({{zset = 1, none = 1}})[redis.call('TYPE', key).ok] then redis.call('DEL', key) end
  for post in string.gmatch(posts, '[^\\n]+') do redis.call('ZADD', key, now, post) end
  redis.call('ZREMRANGEBYRANK', key, 0, {-1 - MOST_POSTS})
  redis.call('EXPIRE', key, {KEEP_SECONDS})
end
"""


log = logging.getLogger(__name__)


class InstructedPosts:
    """No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._own: OrderedDict[tuple[int, int], bool] = OrderedDict()

    def note(self, channel_id: int, message_ids: Iterable[int], *, joining: bool = False) -> str:
        """Note posts of a turn by instruction in this process; as MARK reads them for all, "" for none. `joining`: one
        in reaction to a person, not in a conversation."""
        ids = list(message_ids)
        self._own.update(((channel_id, message_id), joining) for message_id in ids)
        while len(self._own) > REMEMBERED:
            self._own.popitem(last=False)
        return "\n".join(f"{message_id}{JOINING if joining else ''}" for message_id in ids)

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


KEEP_WEBHOOK_SECONDS = 30 * 86400

MOST_WEBHOOK_POSTS = 1000  # a channel

UNWRITTEN = 1000  # posts of all channels that Redis was not there for


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
        """Agents by message id, the newest `MOST_WEBHOOK_POSTS` of the channel."""
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
                pipe.zremrangebyrank(key, 0, -1 - MOST_WEBHOOK_POSTS)
                pipe.expire(key, KEEP_WEBHOOK_SECONDS)
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
