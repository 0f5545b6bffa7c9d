"""Things done once over all processes: the first to claim one does it.

A claim is a key that expires. This process remembers its claims too: while Redis is away each process knows only its
own.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from cachetools import LRUCache

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink

NOTICE_SECONDS = 30 * 86400
PART_SECONDS = 86400  # far longer than any turn
REMEMBERED_NOTICES = 1000
REMEMBERED_REQUESTS = 10_000

# The claim of another process stays: it may have sent the part.
_DELETE_OWN = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"

log = logging.getLogger(__name__)


class Notices:
    """Let only one bot report a problem with a person's message: the first to claim it. No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._claimed: LRUCache[str, None] = LRUCache(REMEMBERED_NOTICES)

    async def first(self, message_id: int, what: str) -> bool:
        """Claim the notice `what` on that message. Another `what` is another notice: the message may be edited."""
        key = keys.notice(message_id, hashlib.blake2b(what.encode(), digest_size=6).hexdigest())
        if key in self._claimed:
            return False
        self._claimed[key] = None
        try:
            return bool(await self._link.call(lambda redis: redis.set(key, "1", nx=True, ex=NOTICE_SECONDS)))
        except RedisAway as away:
            log.debug("a notice is claimed in this process only: %s", away)
            return True


class PostClaims:
    """Parts of posts on a service that does not know a repeated post: each is claimed before it is sent, once over all
    processes and runs. No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link, self._mark = link, secrets.token_hex(8)
        self._claimed: LRUCache[str, None] = LRUCache(REMEMBERED_REQUESTS)

    async def first(self, agent: str, part: str) -> bool:
        """Claim a part of the agent's post."""
        key = _post_claim(agent, part)
        if key in self._claimed:
            return False
        self._claimed[key] = None
        try:
            return bool(await self._link.call(lambda redis: redis.set(key, self._mark, nx=True, ex=PART_SECONDS)))
        except RedisAway as away:
            log.debug("a part of a post is claimed in this process only: %s", away)
            return True

    async def give_up(self, agent: str, part: str) -> None:
        """Give up this process's claim of a part that was certainly not sent. Without Redis the claim stays: the part
        is rather missing than there twice."""
        key = _post_claim(agent, part)
        try:
            await self._link.script(_DELETE_OWN, [key], [self._mark])
        except RedisAway as away:
            log.warning("a part of a post was not sent and stays claimed, it may be missing: %s", away)
        else:
            self._claimed.pop(key, None)


def _post_claim(agent: str, part: str) -> str:
    return keys.post_claim(agent, hashlib.blake2b(part.encode(), digest_size=12).hexdigest())


class ReplayGuard:
    """Takes each signed request once. `clock` gives unix seconds. No method raises RedisAway."""

    def __init__(self, link: RedisLink, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock
        self._seen: OrderedDict[str, float] = OrderedDict()

    async def first(self, digest: str, seconds: float) -> bool:
        """Claim the request for so many seconds; False for a replay."""
        now = self._clock()
        if self._seen.get(digest, 0.0) > now:
            return False
        self._seen[digest] = now + seconds
        if len(self._seen) > REMEMBERED_REQUESTS:
            self._seen.popitem(last=False)
        try:
            taken = await self._link.call(
                lambda redis: redis.set(keys.event(digest), "1", nx=True, px=round(seconds * 1000))
            )
        except RedisAway as away:
            log.debug("a signed request is claimed in this process only: %s", away)
            return True
        return bool(taken)

    async def forget(self, digest: str) -> None:
        """Give up the claim: the request was refused and may be sent again."""
        self._seen.pop(digest, None)
        try:
            await self._link.call(lambda redis: redis.delete(keys.event(digest)))
        except RedisAway as away:
            log.debug("a refused request cannot be sent again until its claim expires: %s", away)
