"""Facts about our posts that a chat service does not tell, and things done once over all processes.

Which posts came by instruction, and which agent spoke through a webhook: a sorted set a channel keeps its newest posts,
over restarts and for all processes. While Redis is unavailable a process knows its own. Chains of agents that call each
other must end, and a post by instruction belongs to no chain: it was its author's turn in a conversation. The script
that ends a turn (`Turns.settle`) marks its posts, so that at every moment the open turn or the mark shows it. Marks
are kept for longer than any chain lasts.

What is done once is claimed first, by a key that expires. A process remembers its claims too: while Redis is
unavailable each process knows only its own.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from cachetools import FIFOCache, LRUCache
from redis.asyncio.client import Pipeline

from agentic.state.leases import RELEASE
from agentic.wire import keys
from agentic.wire.connection import RedisConnection, StateUnavailable, Store, or_default, when_back

NOTICE_SECONDS = 30 * 86400
PART_SECONDS = 86400  # far longer than any turn
MAX_CLAIMS = 10_000  # remembered by this process, of each kind
MAX_POSTS = 1000  # a channel and kind
INSTRUCTED_SECONDS = 7 * 86400
WEBHOOK_SECONDS = 30 * 86400
REMEMBERED_INSTRUCTED = 5000  # by this process, of all channels
REMEMBERED_UNWRITTEN = 1000  # webhook posts, while Redis is unavailable
JOINING = " joining"

# mark(key, posts, now): `posts` are members, a line each. A key of another type, by another program, is replaced.
MARK = f"""
local function mark(key, posts, now)
  if not ({{zset = 1, none = 1}})[redis.call('TYPE', key).ok] then redis.call('DEL', key) end
  for post in string.gmatch(posts, '[^\\n]+') do redis.call('ZADD', key, now, post) end
  redis.call('ZREMRANGEBYRANK', key, 0, {-1 - MAX_POSTS})
  redis.call('EXPIRE', key, {INSTRUCTED_SECONDS})
end
"""

log = logging.getLogger(__name__)


class _Claims:
    """Claims of things that are done once. No method raises StateUnavailable."""

    def __init__(self, link: RedisConnection) -> None:
        self._link, self._mark = link, secrets.token_hex(8)
        self._claimed: LRUCache[str, None] = LRUCache(MAX_CLAIMS)

    async def _claim_first(self, key: str, seconds: float) -> bool:
        if key in self._claimed:
            return False
        self._claimed[key] = None
        return await self._claim(key, seconds)

    @or_default(True, "a claim is known in this process only")
    async def _claim(self, key: str, seconds: float) -> bool:
        return bool(await self._link.call(lambda redis: redis.set(key, self._mark, nx=True, px=round(seconds * 1000))))


class Notices(_Claims):
    """Let only one bot report a problem with a person's message: the first to claim it."""

    async def first(self, message_id: int, what: str) -> bool:
        """Claim the notice `what` on that message. Another `what` is another notice: the message may be edited."""
        digest = hashlib.blake2b(what.encode(), digest_size=6).hexdigest()
        return await self._claim_first(keys.notice(message_id, digest), NOTICE_SECONDS)


class PostClaims(_Claims):
    """Parts of posts on a service that does not know a repeated post: each is claimed before it is sent, once over all
    processes and runs."""

    async def first(self, agent: str, part: str) -> bool:
        """Claim a part of the agent's post."""
        return await self._claim_first(_post_claim(agent, part), PART_SECONDS)

    async def give_up(self, agent: str, part: str) -> None:
        """Give up this process's claim of a part that was certainly not sent. Without Redis the claim stays: the part
        is rather missing than there twice."""
        key = _post_claim(agent, part)
        try:
            await self._link.script(RELEASE, [key], [self._mark])  # another process may have sent the part
        except StateUnavailable as away:
            log.warning("a part of a post was not sent and stays claimed, it may be missing: %s", away)
        else:
            self._claimed.pop(key, None)


def _post_claim(agent: str, part: str) -> str:
    return keys.post_claim(agent, hashlib.blake2b(part.encode(), digest_size=12).hexdigest())


class ReplayGuard(_Claims):
    """Takes each signed request once. `clock` gives unix seconds."""

    def __init__(self, link: RedisConnection, clock: Callable[[], float] = time.time) -> None:
        super().__init__(link)
        self._clock = clock
        self._seen = FIFOCache[str, float](MAX_CLAIMS)  # until when

    async def first(self, digest: str, seconds: float) -> bool:
        """Claim the request for so many seconds; False for a replay."""
        now = self._clock()
        if self._seen.get(digest, 0.0) > now:
            return False
        self._seen[digest] = now + seconds
        return await self._claim(keys.event(digest), seconds)

    @or_default(None, "a refused request cannot be sent again until its claim expires")
    async def forget(self, digest: str) -> None:
        """Give up the claim: the request was refused and may be sent again."""
        self._seen.pop(digest, None)
        await self._link.call(lambda redis: redis.delete(keys.event(digest)))


class InstructedPosts:
    """No method raises StateUnavailable."""

    def __init__(self, link: RedisConnection) -> None:
        self._link = link
        self._own = FIFOCache[tuple[int, int], bool](REMEMBERED_INSTRUCTED)

    def note(self, channel_id: int, message_ids: Iterable[int], *, joining: bool = False) -> str:
        """Remember a turn's posts here, and return them as MARK reads them. `joining`: the turn was reactive."""
        ids = list(message_ids)
        self._own.update(((channel_id, message_id), joining) for message_id in ids)
        return "\n".join(f"{message_id}{JOINING if joining else ''}" for message_id in ids)

    async def read(self, channel_id: int) -> Mapping[int, bool]:
        """The channel's newest: message id → whether the turn was reactive."""
        own = {message: joining for (channel, message), joining in self._own.items() if channel == channel_id}
        found = (member.partition(" ") for member in await _read_members(self._link, keys.instructed(channel_id)))
        return {int(message): bool(joining) for message, _, joining in found if message.isdecimal()} | own


class WebhookPosts(Store):
    """`clock` gives unix seconds. No method raises StateUnavailable."""

    def __init__(self, link: RedisConnection, clock: Callable[[], float] = time.time) -> None:
        super().__init__(link, clock)
        self._unwritten = FIFOCache[tuple[int, int], str](REMEMBERED_UNWRITTEN)

    async def add(self, channel_id: int, message_id: int, agent: str) -> None:
        self._unwritten[channel_id, message_id] = agent
        await self._write(channel_id, message_id, agent, self._clock())

    @when_back("webhook posts", limit=REMEMBERED_UNWRITTEN)
    async def _write(self, channel_id: int, message_id: int, agent: str, at: float) -> None:
        key, member = keys.webhook_posts(channel_id), f"{message_id} {agent}"

        def write(pipe: Pipeline) -> None:
            pipe.zadd(key, {member: at})
            pipe.zremrangebyrank(key, 0, -1 - MAX_POSTS)
            pipe.expire(key, WEBHOOK_SECONDS)
            pipe.publish(keys.WEBHOOK_POSTED, member)

        await self._link.batch(write)
        self._unwritten.pop((channel_id, message_id), None)

    async def read(self, channel_id: int) -> Mapping[int, str]:
        """The channel's newest: message id → agent."""
        own = {message: agent for (channel, message), agent in self._unwritten.items() if channel == channel_id}
        found = await _read_members(self._link, keys.webhook_posts(channel_id))
        return {**dict(filter(None, map(read_post, found))), **own}


@or_default((), "only this process's posts by instruction and by webhook are known")
async def _read_members(link: RedisConnection, key: str) -> Sequence[str]:
    members = await link.call(lambda redis: redis.zrange(key, 0, -1))
    return [str(member) for member in members]


def read_post(member: str) -> tuple[int, str] | None:
    """The message and its agent's key, of "message agent"; None for anything else."""
    message_id, _, agent = member.partition(" ")
    if not (message_id.isdecimal() and agent):
        log.warning("a webhook post cannot be read and is ignored: %.80r", member)
        return None
    return int(message_id), agent
