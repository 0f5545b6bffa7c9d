"""Where an agent's context of a channel begins: windows, sessions, resets, and summaries of rooms.

- The start of a window is stored, so that after a restart a provider's cache still fits. It is read once per channel
  and process, and written after the turn that cut it. A lost window is cut again, which only costs money.
- A session is a coding agent's, in one channel.
- A reset is the id of the last message that is no longer context. A notice publishes it to every process. A process
  reads a reset that it doesn't know when it first needs it, so a turn waits for Redis once per channel.
- A summary covers the messages before the windows of a room's members; all members get the same one. It ends with the
  message `upto`, and doesn't change by a byte until the next one replaces it. One turn at a time makes the next: it
  claims the thread, asks a model, and stores the answer only while it still holds the claim. A deleted message, or a
  person's request to be forgotten, removes summary and claim, so that a turn that read the summary before stores
  nothing.

While Redis is unavailable, a process uses what it knows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cachetools import FIFOCache, LRUCache
from pydantic import ValidationError
from redis.asyncio.client import Pipeline

from agentic.context.window import WINDOW_STATE, WindowMemory
from agentic.process.tasks import BackgroundTasks
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable, Store, or_default, when_back
from agentic.wire.entries import StoredValue
from agentic.wire.messages import ResetNotice, read

WINDOW_SECONDS = 7 * 86400
SESSION_SECONDS = 30 * 86400  # as long as the Claude Agent SDK keeps a session on disk
RESET_SECONDS = 365 * 86400
SUMMARY_SECONDS = 30 * 86400
CLAIM_SECONDS = 120
MAX_CHANNELS = 2000  # remembered in this process
MAX_THREADS = 1000  # whose summaries are remembered in this process
MAX_MESSAGES = 400  # of a summary

# KEYS: the summary, the claim. ARGV: the claim's token, the text, seconds to keep it.
KEEP_SUMMARY = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1
"""

log = logging.getLogger(__name__)


class KeptWindows:
    """One agent's windows: in `memory`, and stored in `store`."""

    def __init__(self, agent: str, store: ContextWindows) -> None:
        self.memory = WindowMemory()
        self._agent, self._store = agent, store
        self._read: set[tuple[int, str]] = set()
        self._cut: set[tuple[int, str]] = set()  # since the last `write`
        self._background = BackgroundTasks()

    async def restore(self, channel_id: int, kind: str) -> None:
        """Restore a window that an earlier run stored. Only the first call for a window reads it."""
        if (channel_id, kind) in self._read:
            return
        self._read.add((channel_id, kind))
        kept = await self._store.kept(self._agent, channel_id, kind)
        if kept is None:
            return
        try:
            self.memory.restore(channel_id, kind, WINDOW_STATE.validate_python(kept))
        except ValidationError as error:
            window = f"{self._agent}: the kept window of channel {channel_id}"
            log.warning("%s can't be used (%d errors); making a new one", window, error.error_count())

    def keep(self, channel_id: int, kind: str) -> None:
        """Note that a window was cut; the next `write` stores it."""
        self._cut.add((channel_id, kind))

    def write(self) -> None:
        """Store the windows that were cut, in the background."""
        cut, self._cut = self._cut, set()
        for channel_id, kind in cut:
            state = self.memory.state(channel_id, kind)
            if state is not None:
                writing = self._store.keep(self._agent, channel_id, kind, WINDOW_STATE.dump_python(state))
                self._background.start(writing, f"window {self._agent} {channel_id}")


class ContextWindows(Store):
    """A small record per window. No method raises StateUnavailable."""

    @or_default(None, "a context window is not stored")
    async def keep(self, agent: str, channel_id: int, kind: str, state: Mapping[str, Any]) -> None:
        await self._link.redis.set(keys.window(agent, channel_id, kind), json.dumps(dict(state)), ex=WINDOW_SECONDS)

    @or_default(None, "an earlier context window cannot be read")
    async def kept(self, agent: str, channel_id: int, kind: str) -> dict[str, Any] | None:
        """Return the stored state; None if there is none or it can't be read."""
        return await _read_object(self._link, keys.window(agent, channel_id, kind))


class Sessions(Store):
    """A small record of plain values per agent and channel. No method raises StateUnavailable: while Redis is
    unavailable, this process's memory is used."""

    def __init__(self, link: RedisConnection) -> None:
        super().__init__(link)
        self._unwritten = FIFOCache[str, dict[str, Any] | None](MAX_CHANNELS)

    @or_default(None, "an earlier session cannot be read")
    async def read(self, agent: str, channel_id: int) -> dict[str, Any] | None:
        """Return the session; None if there is none or it can't be read."""
        key = keys.session(agent, channel_id)
        return self._unwritten[key] if key in self._unwritten else await _read_object(self._link, key)

    async def keep(self, agent: str, channel_id: int, session: Mapping[str, Any]) -> None:
        await self._write(keys.session(agent, channel_id), dict(session))

    async def drop(self, agent: str, channel_id: int) -> None:
        await self._write(keys.session(agent, channel_id), None)

    async def _write(self, key: str, session: dict[str, Any] | None) -> None:
        self._unwritten[key] = session
        await self._write_newest(key)

    @when_back("sessions", limit=MAX_CHANNELS)
    async def _write_newest(self, key: str) -> None:
        if key not in self._unwritten:  # written meanwhile
            return
        session = self._unwritten[key]
        if session is None:
            await self._link.redis.delete(key)
        else:
            await self._link.redis.set(key, json.dumps(session), ex=SESSION_SECONDS)
        if self._unwritten.get(key) is session:
            self._unwritten.pop(key, None)  # another write, of a reset, may have been faster


async def _read_object(link: RedisConnection, key: str) -> dict[str, Any] | None:
    """Return the key's JSON object; None if there is none or it can't be read. Raises StateUnavailable."""
    text = await link.redis.get(key)
    try:
        found = json.loads(text) if text else None
    except ValueError:
        log.warning("%s can't be read; making a new one", key)
        return None
    return found if isinstance(found, dict) else None


class Resets:
    """Where each agent's view of each channel begins. Call `start()` before the bus runs."""

    def __init__(self, link: RedisConnection) -> None:
        self._link = link
        self._known: LRUCache[str, int] = LRUCache(MAX_CHANNELS)
        self._reading = asyncio.Lock()

    def start(self, bus: Bus) -> None:
        """Subscribe to other processes' notices. After a lost connection, everything is read again."""
        bus.subscribe(keys.COORDINATOR_RESETS, self._on_notice)
        bus.on_resubscribed(self._known.clear)

    async def since(self, agent: str, channel_id: int) -> int:
        """Return the id of the last message that is no longer context there, 0 if there is none. While Redis is
        unavailable: as far as this process knows."""
        key = keys.reset(agent, channel_id)
        if key in self._known:
            return self._known[key]
        async with self._reading:
            try:
                text = await self._link.redis.get(key)
            except StateUnavailable as away:
                log.debug("the reset of %s in channel %d can't be read: %s", agent, channel_id, away)
                return self._known.get(key, 0)
        read = int(text) if text is not None and str(text).isdecimal() else 0
        self._known[key] = max(read, self._known.get(key, 0))
        return self._known[key]

    async def reset(self, agents: Iterable[str], channel_id: int, message_id: int) -> None:
        """Remove `message_id` and all before it from these agents' context. Raises StateUnavailable."""
        names = tuple(agents)
        notice = ResetNotice(channel_id=channel_id, message_id=message_id, agents=names)

        def write(pipe: Pipeline) -> None:
            for name in names:
                pipe.set(keys.reset(name, channel_id), message_id, ex=RESET_SECONDS)
                pipe.delete(keys.session(name, channel_id))
            pipe.publish(keys.COORDINATOR_RESETS, notice.to_wire())

        await self._link.batch(write, transaction=True)
        self._take(notice)

    def _on_notice(self, raw: str) -> None:
        notice = read(ResetNotice, raw)
        if notice is not None:
            self._take(notice)

    def _take(self, notice: ResetNotice) -> None:
        for name in notice.agents:
            key = keys.reset(name, notice.channel_id)
            self._known[key] = max(notice.message_id, self._known.get(key, 0))


class Summary(StoredValue):
    """A summary of a thread's messages from `first` to `upto`, including earlier summaries. `messages`: ids of the
    newest MAX_MESSAGES that went into it. `people`: ids of the people who wrote these or earlier ones."""

    text: str
    first: int
    upto: int
    messages: tuple[int, ...] = ()
    people: frozenset[int] = frozenset()

    def covers(self, message_id: int) -> bool:
        """Whether the message went into it, or may have: the oldest ids are not stored."""
        older = self.first <= message_id < self.messages[0] if len(self.messages) >= MAX_MESSAGES else False
        return older or message_id in self.messages


class Summaries(Store):
    """All summaries. Only `forget_person` raises StateUnavailable."""

    def __init__(self, link: RedisConnection) -> None:
        super().__init__(link)
        self._read: LRUCache[int, Summary | None] = LRUCache(MAX_THREADS)

    async def read(self, thread_id: int) -> Summary | None:
        """Return the thread's summary; None if there is none or it can't be read."""
        try:
            text = await self._text(keys.summary(thread_id))
        except StateUnavailable as away:
            log.debug("a summary can't be read: %s", away)
            return self._read.get(thread_id)
        self._read[thread_id] = found = Summary.parse(text)
        return found

    @or_default(None, "a summary is not made")
    async def claim(self, thread_id: int, former: Summary | None) -> str | None:
        """Claim the making of the summary after `former`. Returns a token, or None if another turn makes or made it."""
        token, claim = secrets.token_hex(8), keys.summary_claim(thread_id)
        if not await self._link.redis.set(claim, token, nx=True, ex=CLAIM_SECONDS):
            return None
        if await self.read(thread_id) == former:
            return token
        await self._link.redis.delete(claim)
        return None

    @or_default(False, "a summary is not stored")
    async def keep(self, thread_id: int, token: str, summary: Summary) -> bool:
        """Store the summary for thirty days. Returns False if the claim is lost."""
        names = [keys.summary(thread_id), keys.summary_claim(thread_id)]
        args = [token, summary.model_dump_json(), SUMMARY_SECONDS]
        return bool(await self._link.script(KEEP_SUMMARY, names, args))

    @or_default(None, "a summary is not made")
    async def forgotten(self) -> Mapping[int, float] | None:
        """Return user id → when they asked to be forgotten (unix seconds); None if Redis is unavailable."""
        found: Any = await self._link.redis.zrange(keys.COORDINATOR_FORGOTTEN, 0, -1, withscores=True)
        return {int(user_id): at / 1000 for user_id, at in found if str(user_id).isdecimal()}

    async def drop(self, thread_id: int) -> None:
        """Remove the thread's summary, even one that is being made."""
        self._read.pop(thread_id, None)
        await self._drop_later(thread_id)

    @when_back("summaries that are outdated")
    async def _drop_later(self, thread_id: int) -> None:
        await self._drop_now(thread_id)

    async def _drop_now(self, thread_id: int) -> None:
        self._read.pop(thread_id, None)
        await self._link.redis.delete(keys.summary(thread_id), keys.summary_claim(thread_id))

    async def drop_covering(self, thread_id: int, message_ids: Collection[int] | None) -> None:
        """Remove the thread's summary if one of these messages (None: any) went into it, or may have."""
        summary = await self.read(thread_id)
        if summary is None or message_ids is None or any(map(summary.covers, message_ids)):
            await self.drop(thread_id)

    async def forget_person(self, user_id: int) -> int:
        """Remove summaries of the person's messages, and those being made. Returns the number of the former."""
        forgotten = 0
        for name in await self._names(keys.summary("*")):
            thread_id = int(name.rpartition(":")[2])
            summary = await self.read(thread_id)
            if summary is not None and user_id in summary.people:
                await self._drop_now(thread_id)
                forgotten += 1
        claims = await self._names(keys.summary_claim("*"))
        if claims:
            await self._link.redis.delete(*claims)
        return forgotten

    async def _names(self, pattern: str) -> list[str]:
        found = [name async for page in self._link.scan(pattern) for name in page]
        return [name for name in dict.fromkeys(found) if name.rpartition(":")[2].isdecimal()]
