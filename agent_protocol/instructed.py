"""Which posts of agents came by instruction of the coordinator: known to every process and over restarts.

Agents may call each other, in chains that end; what an agent says because it was its turn in a conversation is no link
of such a chain. The script that ends a turn (`Ledger.settle`) marks its posts, so that there is no moment at which
neither the open turn nor a mark tells. A channel's newest posts are kept, longer than anybody goes on with a chain.
While Redis is away a process knows its own.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink

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


class Instructed:
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
