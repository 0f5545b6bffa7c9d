"""Sessions of coding agents, and resets of context: both of one agent in one channel.

A reset is the id of the last message that is no longer context. A notice publishes it to every process; a process reads
a reset that it has not heard of when it first needs it, so that a turn waits for Redis once per channel.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from cachetools import LRUCache
from redis.asyncio import Redis

from agentic.wire import keys
from agentic.wire.link import RedisAway, RedisLink
from agentic.wire.messages import ResetNotice
from agentic.wire.reading import read
from agentic.wire.subscriptions import Subscriber

SESSION_SECONDS = 30 * 86400  # as long as the Claude Agent SDK keeps one on the disk
RESET_SECONDS = 365 * 86400
REMEMBERED = 2000  # channels, in this process

log = logging.getLogger(__name__)


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
