"""Subscriptions that outlive connections: the only reconnect loop of the program.

Handlers may be registered at any time and survive a lost connection. A connection has two tasks: one reads, one sends
changed subscriptions and a PING now and then, to notice a peer that vanished silently. Pub/sub has no memory: messages
published while the connection was lost are gone.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from agentic.process.tasks import run_until_one_ends
from agentic.wire.handler_queue import HandlerQueue
from agentic.wire.link import CONNECT_TIMEOUT, RedisLink

Handler = Callable[[str], Awaitable[None] | None]
Callback = Callable[[], Awaitable[None] | None]
HEARTBEAT = 5.0
LONGEST_PAUSE = 2.0

log = logging.getLogger(__name__)


class Subscriber:
    """`ready` is set while every subscription is confirmed. `connected_since` (unix seconds) is None while away."""

    def __init__(
        self,
        link: RedisLink,
        *,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self.ready = asyncio.Event()
        self.connected_since: float | None = None
        self._link = link
        self._clock = clock
        self._rng = rng or random.Random()
        self._heartbeat = heartbeat
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        self._lanes: dict[str, HandlerQueue] = {}
        self._callbacks = HandlerQueue("the bus's own events")
        self._on_resubscribed: list[Callback] = []
        self._asked: set[str] = set()  # channels that SUBSCRIBE was sent for on this connection
        self._confirmed: set[str] = set()
        self._heard = asyncio.Event()
        self._changed = asyncio.Event()
        self._workers: asyncio.TaskGroup | None = None
        self._loss_said = False

    def subscribe(self, channel: str, handler: Handler) -> None:
        """Hand every message of `channel` to `handler`, in order of arrival. A handler that raises is logged."""
        self._handlers[channel].append(handler)
        if channel not in self._lanes:
            self._lanes[channel] = HandlerQueue(channel)
            self._start(self._lanes[channel])
        if channel not in self._confirmed:
            self.ready.clear()
        self._changed.set()

    def unsubscribe(self, channel: str) -> None:
        """Remove all handlers of `channel`. Messages that wait for them are dropped."""
        self._handlers.pop(channel, None)
        lane = self._lanes.pop(channel, None)
        if lane is not None:
            lane.close()
        self._changed.set()

    def on_resubscribed(self, callback: Callback) -> None:
        """Call `callback` after each new connection, the first one too, once all subscriptions are confirmed."""
        self._on_resubscribed.append(callback)

    async def run(self) -> None:
        """Stay connected until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._workers:
                for lane in (self._callbacks, *self._lanes.values()):
                    self._start(lane)
                await self._stay_connected()
        finally:
            self._workers = None
            self._disconnected()

    def became_ready(self, *, resubscribed: bool) -> None:
        """For subclasses: `ready` was just set. `resubscribed`: on a new connection."""

    async def _stay_connected(self) -> None:
        failures = 0
        while True:
            error = await self._hold_connection()
            failures = 0 if self.connected_since is not None else failures + 1
            self._disconnected()
            if not self._loss_said:
                log.warning("Redis is away: %s: %s", type(error).__name__, error)
            self._loss_said = True
            longest = min(LONGEST_PAUSE, 0.1 * 2 ** min(failures, 10))
            await asyncio.sleep(longest * self._rng.uniform(0.5, 1.0))

    async def _hold_connection(self) -> Exception:
        """Use one connection as long as it lasts; returns the error that ended it."""
        try:
            async with self._connect() as connection:
                await run_until_one_ends(self._read(connection), self._keep_up(connection))
        except (RedisError, OSError) as error:
            return error
        except Exception as error:  # the edge of the loop: a bug must not end all subscriptions
            log.exception("the connection to Redis failed unexpectedly, reconnecting")
            return error
        return ConnectionError("closed")

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[AbstractConnection]:
        # Not redis-py's PubSub: it reconnects by itself, in the reading and the writing task at the same time.
        pool = self._link.subscriber.connection_pool
        async with asyncio.timeout(CONNECT_TIMEOUT):
            connection = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            yield connection
        finally:
            await connection.disconnect(nowait=True)
            await pool.release(connection)

    async def _read(self, connection: AbstractConnection) -> None:
        while True:
            reply = await connection.read_response(disconnect_on_error=False, push_request=True)
            self._heard.set()
            match reply:
                case ["message", str() as channel, str() as text]:
                    self._deliver(channel, text)
                case ["subscribe", str() as channel, _]:
                    self._confirmed.add(channel)
                    self._check_ready()

    async def _keep_up(self, connection: AbstractConnection) -> None:
        while True:
            await self._send_changes(connection)
            try:
                async with asyncio.timeout(self._heartbeat):
                    await self._changed.wait()
            except TimeoutError:
                await self._expect_answer(connection)

    async def _send_changes(self, connection: AbstractConnection) -> None:
        self._changed.clear()
        wanted = set(self._handlers)
        new, gone, self._asked = wanted - self._asked, self._asked - wanted, wanted
        if gone:
            self._confirmed -= gone
            await self._write(connection, "UNSUBSCRIBE", *sorted(gone))
        if new:
            await self._write(connection, "SUBSCRIBE", *sorted(new))
        self._check_ready()

    async def _write(self, connection: AbstractConnection, *command: str) -> None:
        if not connection.is_connected:  # send_command would reconnect, without the subscriptions
            raise ConnectionError("the connection was closed")
        await connection.send_command(*command, check_health=False)

    async def _expect_answer(self, connection: AbstractConnection) -> None:
        self._heard.clear()
        await self._write(connection, "PING")
        async with asyncio.timeout(self._heartbeat):
            await self._heard.wait()

    def _deliver(self, channel: str, text: str) -> None:
        lane = self._lanes.get(channel)
        if lane is not None:
            for handler in self._handlers[channel]:
                lane.put(partial(handler, text))

    def _start(self, lane: HandlerQueue) -> None:
        if self._workers is not None:
            self._workers.create_task(lane.run(), name=f"lane {lane.name}")

    def _check_ready(self) -> None:
        if self.ready.is_set() or not set(self._handlers) <= self._confirmed:
            return
        self.ready.set()
        resubscribed = self.connected_since is None
        if resubscribed:
            self._connected()
        self.became_ready(resubscribed=resubscribed)

    def _connected(self) -> None:
        self.connected_since = self._clock()
        if self._loss_said:
            log.warning("Redis is back")
        self._loss_said = False
        for callback in self._on_resubscribed:
            self._callbacks.put(callback)

    def _disconnected(self) -> None:
        self.ready.clear()
        self.connected_since = None
        self._asked = set()
        self._confirmed.clear()
