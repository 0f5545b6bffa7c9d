"""Worlds to play scenes in: the program in this process, or in processes of its own, on a real Redis."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from unittest.mock import patch

from agent_config import AGENTS
from agentic.runtime.process import Runtime
from agentic.state.conversation_state import ConversationState
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection
from tests.chaos.scene import IN_ORDER, TALK, WITHIN, Scene, until
from tests.chaos.slow_redis import SlowRedis
from tests.support.flow import flow
from tests.support.redis_group import WatchedRedis
from tests.support.redis_server import PATIENT, RedisServer


class Inside(Scene):
    """The program in this process. `redis` may be killed, `way` to it made slow, the master of `servers` killed."""

    runtime: Runtime
    redis: RedisServer
    way: SlowRedis
    servers: WatchedRedis

    def talk(self) -> asyncio.Task[ConversationState | None]:
        """Begins a conversation."""
        self.next_talk()
        assert self.runtime.coordinator is not None
        return asyncio.create_task(self.runtime.coordinator.start_conversation(self.f.channel(TALK)))

    async def heard_out(self, talking: asyncio.Task[ConversationState | None], within: float = WITHIN) -> None:
        report = await asyncio.wait_for(talking, within)
        if report is not None and report.ended_because in IN_ORDER:
            self.orderly += 1
        elif report is not None:
            self.wrong.append(f"a conversation ended because: {report.ended_because}")

    async def await_moment(self, talking: asyncio.Task[ConversationState | None], sprung: asyncio.Event) -> None:
        """Returns when the trap has sprung; a conversation that ended before is a fault of the scene."""
        waiting = asyncio.create_task(sprung.wait())
        done, _ = await asyncio.wait((waiting, talking), timeout=WITHIN, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        assert sprung.is_set() or not done, "the conversation was over before anything happened"

    async def settled(self) -> None:
        """Returns when no bot has anything to do."""
        inboxes = [bot.cog.host.queue.inbox for bot in self.runtime.bots.values()]
        await until(lambda: not any(inbox.channels for inbox in inboxes))


class _Faults(logging.Handler):
    """Hears of the program's own faults: what it logs with a traceback."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(logging.ERROR)
        self._scene = scene

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._scene.wrong.append(f"{record.getMessage()}: {record.exc_info[0]}")


@contextmanager
def _hearing_faults(scene: Scene) -> Iterator[None]:
    handler = _Faults(scene)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


@asynccontextmanager
async def inside(
    folder: Path, seed: int, *, quick: bool = False, slow: bool = False, **settings: str
) -> AsyncIterator[Inside]:
    """All four bots and the coordinator, online."""
    with RedisServer() as redis:
        async with SlowRedis(redis.socket) as way, AsyncExitStack() as stack:
            used = way.url if slow else redis.url
            scene = await stack.enter_async_context(_online(folder, seed, redis.url, used, quick=quick, **settings))
            scene.redis, scene.way = redis, way
            yield scene


@asynccontextmanager
async def behind_sentinels(folder: Path, seed: int) -> AsyncIterator[Inside]:
    """The same with a master, a replica and a Sentinel as its Redis."""
    with WatchedRedis(folder) as servers:
        async with _online(folder, seed, servers.url, servers.url) as scene:
            scene.servers = servers
            yield scene


@asynccontextmanager
async def _online(
    folder: Path, seed: int, url: str, way: str, *, quick: bool = False, **settings: str
) -> AsyncIterator[Inside]:
    """The program on that way to the Redis of `url`."""
    async with AsyncExitStack() as stack:
        f = await stack.enter_async_context(flow(folder, redis_url=way, COORDINATOR_MAX_ROUNDS="1", **settings))
        link = await stack.enter_async_context(RedisConnection(url, command_timeout=PATIENT))
        scene = Inside(f, link, seed, quick=quick, present=tuple(AGENTS))
        stack.enter_context(_hearing_faults(scene))
        if quick:
            stack.enter_context(patch.dict(Bus.__init__.__kwdefaults__, republish_every=1.0))
        scene.runtime = await stack.enter_async_context(f.running())
        await scene.begin()
        yield scene
