"""Windows, resets, sessions, room summaries.

Keep an agent's windows over restarts: read once a channel and process, written after the turn that cut them.

Stores where an agent's context of a channel begins, so that after a restart a provider's cache still fits.

The state is the context engine's own mapping. Where it is lost the window is only cut again, which costs money; so a
missing Redis is no error here.

Sessions of coding agents, and resets of context: both of one agent in one channel.

A reset is the id of the last message that is no longer context. A notice publishes it to every process; a process reads
a reset that it has not heard of when it first needs it, so that a turn waits for Redis once per channel.

Summaries of what lies before the windows of a room's members: one a thread, which all of them are shown.

A summary ends with the message `upto`; the windows begin after it. It stays the same, to the byte, until the next one
replaces it. One turn at a time makes the next: it claims the thread, asks a model, and keeps the answer only while it
still holds the claim. The deletion of a message, and a person's wish to be forgotten, take summary and claim away, so
that nothing of theirs is kept by a turn that read it before.

Where a summary is lost, or cannot be made, members see less. So a missing Redis is no error here: reading then gives
the summary that this process read last.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

from cachetools import LRUCache
from pydantic import BaseModel, ConfigDict, ValidationError
from redis.asyncio import Redis

from agentic.context.window import WindowMemory, WindowState
from agentic.process.tasks import BackgroundTasks
from agentic.wire import keys
from agentic.wire.bus import Subscriber
from agentic.wire.connection import RedisAway, RedisLink
from agentic.wire.messages import ResetNotice, read

log = logging.getLogger(__name__)


class WindowStore(Protocol):
    """A store of window states; agentic.state.context is the one in Redis. Raises no RedisAway."""

    async def keep(self, agent: str, channel_id: int, kind: str, state: Mapping[str, Any]) -> None: ...
    async def kept(self, agent: str, channel_id: int, kind: str) -> dict[str, Any] | None: ...


class KeptWindows:
    """The windows of one agent: those in `memory`, kept in `store`."""

    def __init__(self, agent: str, store: WindowStore) -> None:
        self.memory = WindowMemory()
        self._agent, self._store = agent, store
        self._read: set[tuple[int, str]] = set()
        self._cut: set[tuple[int, str]] = set()  # since the last `write`
        self._background = BackgroundTasks()

    async def restore(self, channel_id: int, kind: str) -> None:
        """Restore a window that an earlier run kept. Only the first call for a window reads it."""
        if (channel_id, kind) in self._read:
            return
        self._read.add((channel_id, kind))
        kept = await self._store.kept(self._agent, channel_id, kind)
        if kept is None:
            return
        try:
            self.memory.restore(channel_id, kind, WindowState.from_json(kept))
        except (KeyError, TypeError, ValueError) as error:
            log.warning(
                "%s: the kept window of channel %d cannot be used, a new one is laid: %r",
                self._agent,
                channel_id,
                error,
            )

    def keep(self, channel_id: int, kind: str) -> None:
        """Note that a window was cut; the next `write` keeps it."""
        self._cut.add((channel_id, kind))

    def write(self) -> None:
        """Keep the windows that were cut, in the background."""
        cut, self._cut = self._cut, set()
        for channel_id, kind in cut:
            state = self.memory.state(channel_id, kind)
            if state is not None:
                writing = self._store.keep(self._agent, channel_id, kind, state.to_json())
                self._background.start(writing, f"window {self._agent} {channel_id}")


KEEP_SECONDS = 7 * 86400


class ContextWindows:
    """A small record a window. No method raises RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def keep(self, agent: str, channel_id: int, kind: str, state: Mapping[str, Any]) -> None:
        """Store the state for seven days."""
        key, text = keys.window(agent, channel_id, kind), json.dumps(dict(state))
        try:
            await self._link.call(lambda redis: redis.set(key, text, ex=KEEP_SECONDS))
        except RedisAway as away:
            log.debug("a context window is not stored: %s", away)

    async def kept(self, agent: str, channel_id: int, kind: str) -> dict[str, Any] | None:
        """The stored state; None for none, or one that cannot be read."""
        try:
            text = await self._link.call(lambda redis: redis.get(keys.window(agent, channel_id, kind)))
            state = json.loads(text) if text else None
        except RedisAway as away:
            log.debug("an earlier context window cannot be read: %s", away)
            return None
        except ValueError:
            log.warning("the context window of %s in channel %d cannot be read, a new one is cut", agent, channel_id)
            return None
        return state if isinstance(state, dict) else None


SESSION_SECONDS = 30 * 86400  # as long as the Claude Agent SDK keeps one on the disk
RESET_SECONDS = 365 * 86400
REMEMBERED = 2000  # channels, in this process


class Sessions:
    """A small record of plain values per agent and channel.

    No method raises RedisAway: while Redis is away this process's memory is used.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._unwritten: OrderedDict[str, dict[str, Any] | None] = OrderedDict()

    async def read(self, agent: str, channel_id: int) -> dict[str, Any] | None:
        """None for none, or one that cannot be read."""
        key = keys.session(agent, channel_id)
        if key in self._unwritten:
            return self._unwritten[key]
        try:
            text = await self._link.call(lambda redis: redis.get(key))
            session = json.loads(text) if text else None
        except RedisAway as away:
            log.debug("an earlier session cannot be read: %s", away)
            return None
        except ValueError:
            log.warning("the session of %s in channel %d cannot be read, a new one begins", agent, channel_id)
            return None
        return session if isinstance(session, dict) else None

    async def keep(self, agent: str, channel_id: int, session: Mapping[str, Any]) -> None:
        """Store it for thirty days."""
        await self._write(keys.session(agent, channel_id), dict(session))

    async def drop(self, agent: str, channel_id: int) -> None:
        await self._write(keys.session(agent, channel_id), None)

    async def _write(self, key: str, session: dict[str, Any] | None) -> None:
        self._unwritten[key] = session
        if len(self._unwritten) > REMEMBERED:
            self._unwritten.popitem(last=False)

        async def write(redis: Redis) -> None:
            if session is None:
                await redis.delete(key)
            else:
                await redis.set(key, json.dumps(session), ex=SESSION_SECONDS)

        try:
            await self._link.call(write)
        except RedisAway as away:
            log.debug("a session is stored in this process only: %s", away)
            return
        if self._unwritten.get(key) is session:
            del self._unwritten[key]


class Resets:
    """The start of each agent's view of each channel. Call `start()` before the bus runs."""

    def __init__(self, link: RedisLink, bus: Subscriber) -> None:
        self._link, self._bus = link, bus
        self._known: LRUCache[str, int] = LRUCache(REMEMBERED)
        self._reading = asyncio.Lock()

    def start(self) -> None:
        """Subscribe to the notices of other processes. After a lost connection everything is read again."""
        self._bus.subscribe(keys.COORDINATOR_RESETS, self._on_notice)
        self._bus.on_resubscribed(self._known.clear)

    async def since(self, agent: str, channel_id: int) -> int:
        """The id of the last message that is no longer context there, 0 for none. While Redis is away: as far as this
        process knows."""
        key = keys.reset(agent, channel_id)
        if key in self._known:
            return self._known[key]
        async with self._reading:
            try:
                text = await self._link.call(lambda redis: redis.get(key))
            except RedisAway as away:
                log.debug("the reset of %s in channel %d cannot be read: %s", agent, channel_id, away)
                return self._known.get(key, 0)
        read = int(text) if text is not None and str(text).isdecimal() else 0
        self._known[key] = max(read, self._known.get(key, 0))
        return self._known[key]

    async def reset(self, agents: Iterable[str], channel_id: int, message_id: int) -> None:
        """Remove `message_id` and all before it from these agents' context. Raises RedisAway."""
        names = tuple(agents)
        notice = ResetNotice(channel_id=channel_id, message_id=message_id, agents=names)

        async def write(redis: Redis) -> None:
            pipe = redis.pipeline(transaction=True)
            for name in names:
                pipe.set(keys.reset(name, channel_id), message_id, ex=RESET_SECONDS)
                pipe.delete(keys.session(name, channel_id))
            pipe.publish(keys.COORDINATOR_RESETS, notice.to_wire())
            await pipe.execute()

        await self._link.call(write)
        self._take(notice)

    def _on_notice(self, raw: str) -> None:
        notice = read(ResetNotice, raw)
        if notice is not None:
            self._take(notice)

    def _take(self, notice: ResetNotice) -> None:
        for name in notice.agents:
            key = keys.reset(name, notice.channel_id)
            self._known[key] = max(notice.message_id, self._known.get(key, 0))


SUMMARIES_KEEP_SECONDS = 30 * 86400
CLAIM_SECONDS = 120
SUMMARIES_REMEMBERED = 1000  # threads, in this process
SCAN_COUNT = 500
MOST_MESSAGES = 400

# KEYS: the summary, the claim. ARGV: who claims, the text, the seconds to keep it.
KEEP = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1
"""


class Summary(BaseModel):
    """A summary of what was said in a thread, from the message `first` to the message `upto`, also by way of former
    summaries. `messages`: those that went into it, the newest MOST_MESSAGES; `people`: their authors, as far as they
    are people, and those of all older ones."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    text: str
    first: int
    upto: int
    messages: tuple[int, ...] = ()
    people: frozenset[int] = frozenset()

    def covers(self, message_id: int) -> bool:
        """Whether the message went into it, or may have: the oldest are not known one by one."""
        older = self.first <= message_id < self.messages[0] if len(self.messages) >= MOST_MESSAGES else False
        return older or message_id in self.messages


class Summaries:
    """All summaries. `forgotten`, `drop`, `drop_covering` and `forget_person` raise RedisAway."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._read: LRUCache[int, Summary | None] = LRUCache(SUMMARIES_REMEMBERED)

    async def read(self, thread_id: int) -> Summary | None:
        """The thread's summary; None for none, or one that cannot be read."""
        try:
            text = await self._link.call(lambda redis: redis.get(keys.summary(thread_id)))
        except RedisAway as away:
            log.debug("a summary cannot be read: %s", away)
            return self._read.get(thread_id)
        self._read[thread_id] = found = _summary(text, thread_id)
        return found

    async def claim(self, thread_id: int, former: Summary | None) -> str | None:
        """Claim the making of the summary after `former`; None where another turn does, or has done so."""
        token = secrets.token_hex(8)
        claim = keys.summary_claim(thread_id)
        try:
            got = await self._link.call(lambda redis: redis.set(claim, token, nx=True, ex=CLAIM_SECONDS))
            if not got:
                return None
            if await self.read(thread_id) == former:
                return token
            await self._link.call(lambda redis: redis.delete(claim))
        except RedisAway as away:
            log.debug("a summary is not made: %s", away)
        return None

    async def keep(self, thread_id: int, token: str, summary: Summary) -> bool:
        """Keep the summary for thirty days; False where the claim is lost."""
        names = [keys.summary(thread_id), keys.summary_claim(thread_id)]
        try:
            kept = await self._link.script(KEEP, names, [token, summary.model_dump_json(), SUMMARIES_KEEP_SECONDS])
        except RedisAway as away:
            log.debug("a summary is not kept: %s", away)
            return False
        return bool(kept)

    async def forgotten(self) -> Mapping[int, float]:
        """When people asked to be forgotten, in unix seconds, by their ids. Raises RedisAway."""
        found: Any = await self._link.call(
            lambda redis: redis.zrange(keys.COORDINATOR_FORGOTTEN, 0, -1, withscores=True)
        )
        return {int(user_id): at / 1000 for user_id, at in found if str(user_id).isdecimal()}

    async def drop(self, thread_id: int) -> None:
        """Remove the thread's summary, also one that is being made. Raises RedisAway."""
        self._read.pop(thread_id, None)
        names = (keys.summary(thread_id), keys.summary_claim(thread_id))
        await self._link.call(lambda redis: redis.delete(*names))

    async def drop_covering(self, thread_id: int, message_ids: Collection[int] | None) -> None:
        """Remove the thread's summary where one of these messages went into it, or may; None: in any case. Raises
        RedisAway."""
        summary = await self.read(thread_id)
        if summary is None or message_ids is None or any(map(summary.covers, message_ids)):
            await self.drop(thread_id)

    async def forget_person(self, user_id: int) -> int:
        """Remove the summaries with words of the person, and those that are being made; how many there were. Raises
        RedisAway."""
        forgotten = 0
        for name in await self._names(keys.summary("*")):
            thread_id = int(name.rpartition(":")[2])
            summary = await self.read(thread_id)
            if summary is not None and user_id in summary.people:
                await self.drop(thread_id)
                forgotten += 1
        claims = await self._names(keys.summary_claim("*"))
        if claims:
            await self._link.call(lambda redis: redis.delete(*claims))
        return forgotten

    async def _names(self, pattern: str) -> list[str]:
        found: list[str] = []
        cursor = 0
        while True:
            cursor, page = await self._link.call(partial(_scan, pattern, cursor))
            found += page
            if cursor == 0:
                return [name for name in dict.fromkeys(found) if name.rpartition(":")[2].isdecimal()]


async def _scan(pattern: str, cursor: int, redis: Redis) -> tuple[int, list[str]]:
    found: Any = await redis.scan(cursor, match=pattern, count=SCAN_COUNT)
    return int(found[0]), [str(name) for name in found[1]]


def _summary(text: str | bytes | None, thread_id: int) -> Summary | None:
    try:
        return Summary.model_validate_json(text) if text else None
    except ValidationError:
        log.warning("the summary of thread %d cannot be read, it has none", thread_id)
        return None
