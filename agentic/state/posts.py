"""Facts about our posts that a chat service doesn't tell, and claims for things that all processes do only once.

Which posts were instructed, and which agent spoke through a webhook: a sorted set per channel has its newest posts, for
all processes. While Redis is unavailable, a process knows only its own. An instructed post was its author's turn in a
conversation, so it isn't part of a chain of agents that call each other, which must end. The script that ends a turn
(`Turns.settle`) marks its posts, so that at every moment either the open turn or the mark shows it. Marks outlive any
chain.

Things that are done once are claimed first, with a key that expires. A process remembers its own claims; while Redis is
unavailable, it knows only those.
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
from agentic.wire.entries import StoredValue

NOTICE_SECONDS = 30 * 86400
PART_SECONDS = 86400  # far longer than any turn
MAX_CLAIMS = 10_000  # remembered by this process, of each kind
MAX_POSTS = 1000  # a channel and kind
INSTRUCTED_SECONDS = 7 * 86400
WEBHOOK_SECONDS = 30 * 86400
AVATAR_SECONDS = 90 * 86400  # after the last upload or new address
REMEMBERED_INSTRUCTED = 5000  # by this process, in all channels
REMEMBERED_UNWRITTEN = 1000  # webhook posts, while Redis is unavailable
JOINING = " joining"

# mark(key, posts, now): `posts` are members, one per line. Another program's key of another type is replaced.
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
    """Claims for things that are done once. No method raises StateUnavailable."""

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
        return bool(await self._link.redis.set(key, self._mark, nx=True, px=round(seconds * 1000)))


class Notices(_Claims):
    """Let only one bot report a problem with a person's message: the first to claim it."""

    async def first(self, message_id: int, what: str) -> bool:
        """Claim the notice `what` about the message. Another `what` is another notice: the message may be edited."""
        digest = hashlib.blake2b(what.encode(), digest_size=6).hexdigest()
        return await self._claim_first(keys.notice(message_id, digest), NOTICE_SECONDS)


class PostClaims(_Claims):
    """Claim each part of a post before it is sent, on a service that doesn't detect duplicates."""

    async def first(self, agent: str, part: str) -> bool:
        """Claim a part of the agent's post."""
        return await self._claim_first(_post_claim(agent, part), PART_SECONDS)

    async def give_up(self, agent: str, part: str) -> None:
        """Release this process's claim on a part that was certainly not sent. While Redis is unavailable, the claim
        stays: a missing part is better than a duplicate."""
        key = _post_claim(agent, part)
        try:
            await self._link.script(RELEASE, [key], [self._mark])  # another process may have sent the part
        except StateUnavailable as away:
            log.warning("a part of a post was not sent and stays claimed, so it may be missing: %s", away)
        else:
            self._claimed.pop(key, None)


def _post_claim(agent: str, part: str) -> str:
    return keys.post_claim(agent, hashlib.blake2b(part.encode(), digest_size=12).hexdigest())


class ReplayGuard(_Claims):
    """Accept each signed request once. `clock` gives unix seconds."""

    def __init__(self, link: RedisConnection, clock: Callable[[], float] = time.time) -> None:
        super().__init__(link)
        self._clock = clock
        self._seen = FIFOCache[str, float](MAX_CLAIMS)  # digest → unix seconds until which it is claimed

    async def first(self, digest: str, seconds: float) -> bool:
        """Claim the request for `seconds`. Returns False for a replay."""
        now = self._clock()
        if self._seen.get(digest, 0.0) > now:
            return False
        self._seen[digest] = now + seconds
        return await self._claim(keys.event(digest), seconds)

    @or_default(None, "a refused request cannot be sent again until its claim expires")
    async def forget(self, digest: str) -> None:
        """Release the claim: the request was refused and may be sent again."""
        self._seen.pop(digest, None)
        await self._link.redis.delete(keys.event(digest))


class InstructedPosts:
    """Posts that came by instruction. No method raises StateUnavailable."""

    def __init__(self, link: RedisConnection) -> None:
        self._link = link
        self._own = FIFOCache[tuple[int, int], bool](REMEMBERED_INSTRUCTED)

    def note(self, channel_id: int, message_ids: Iterable[int], *, joining: bool = False) -> str:
        """Remember a turn's posts in this process, and return them encoded for MARK. `joining`: the turn was
        reactive."""
        ids = list(message_ids)
        self._own.update(((channel_id, message_id), joining) for message_id in ids)
        return "\n".join(f"{message_id}{JOINING if joining else ''}" for message_id in ids)

    async def read(self, channel_id: int) -> Mapping[int, bool]:
        """Return the channel's newest posts: message id → whether the turn was reactive."""
        own = {message: joining for (channel, message), joining in self._own.items() if channel == channel_id}
        found = (member.partition(" ") for member in await _read_members(self._link, keys.instructed(channel_id)))
        return {int(message): bool(joining) for message, _, joining in found if message.isdecimal()} | own


class UploadedAvatar(StoredValue):
    """An agent's picture that was uploaded to a channel. `digest`: of the file. `url` expires."""

    digest: str
    channel_id: int
    message_id: int
    url: str


class UploadedAvatars(Store):
    """The uploaded pictures, by agent. All methods raise StateUnavailable."""

    async def read(self, agent: str) -> UploadedAvatar | None:
        text = await self._link.redis.hget(keys.AVATARS, agent)
        return None if text is None else UploadedAvatar.parse(str(text))

    async def keep(self, agent: str, avatar: UploadedAvatar) -> None:
        await self._put(keys.AVATARS, AVATAR_SECONDS, {agent: avatar.model_dump_json()})


class WebhookPosts(Store):
    """Which agent spoke through a webhook. No method raises StateUnavailable."""

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
        """Return the channel's newest posts: message id → agent."""
        own = {message: agent for (channel, message), agent in self._unwritten.items() if channel == channel_id}
        found = await _read_members(self._link, keys.webhook_posts(channel_id))
        return {**dict(filter(None, map(read_post, found))), **own}


@or_default((), "only this process's instructed posts and webhook posts are known")
async def _read_members(link: RedisConnection, key: str) -> Sequence[str]:
    members = await link.redis.zrange(key, 0, -1)
    return [str(member) for member in members]


def read_post(member: str) -> tuple[int, str] | None:
    """Read "message agent" as (message id, agent key); None for anything else."""
    message_id, _, agent = member.partition(" ")
    if not (message_id.isdecimal() and agent):
        log.warning("ignoring a webhook post that can't be read: %.80r", member)
        return None
    return int(message_id), agent
