"""What is said once: of all processes and agents, the first that asks may tell a person what is wrong."""

from __future__ import annotations

import hashlib
import logging

from cachetools import LRUCache

from agent_protocol import keys
from agent_protocol.connection import RedisAway, RedisLink

KEEP_SECONDS = 30 * 86400
REMEMBERED = 1000  # in this process, for as long as Redis is away

log = logging.getLogger(__name__)


class Notices:
    """No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._told: LRUCache[str, None] = LRUCache(REMEMBERED)

    async def first(self, message_id: int, what: str) -> bool:
        """Whether nobody has told `what` of that message yet; from now on somebody has. A message that is wrong in
        another way after an edit may be told of again."""
        key = keys.notice(message_id, hashlib.blake2b(what.encode(), digest_size=6).hexdigest())
        if key in self._told:
            return False
        self._told[key] = None
        try:
            return bool(await self._link.call(lambda redis: redis.set(key, "1", nx=True, ex=KEEP_SECONDS)))
        except RedisAway as away:
            log.debug("a notice is remembered in this process alone: %s", away)
            return True
