from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import PATIENT, RedisServer, shared_redis

FAST = {"republish_every": 0.05, "retry_every": 0.01}


class Clock:
    """Unix seconds that go on only when a test says so."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def emptied() -> RedisServer:
    """A server that other tests have used before."""
    server = shared_redis()
    server.flush()
    return server


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """An empty Redis: the test's own if it takes `server`, to kill it, say."""
    own = "server" in request.fixturenames
    server: RedisServer = request.getfixturevalue("server" if own else "emptied")
    return server.url


@pytest.fixture
async def link(address: str) -> AsyncIterator[RedisConnection]:
    async with RedisConnection(address, command_timeout=PATIENT) as opened:
        yield opened


@asynccontextmanager
async def running(bus: Bus) -> AsyncIterator[Bus]:
    task = asyncio.create_task(bus.run())
    try:
        async with asyncio.timeout(10):
            await bus.ready.wait()
        yield bus
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def open_bus(request: pytest.FixtureRequest) -> AsyncIterator[Callable[..., Any]]:
    """`await open_bus(address, **options)`: a bus that runs on a link of its own until the test ends."""
    async with AsyncExitStack() as stack:

        async def open_one(address: str, **options: Any) -> Bus:
            link = await stack.enter_async_context(RedisConnection(address, command_timeout=PATIENT))
            return await stack.enter_async_context(running(Bus(link, **{**FAST, **options})))

        yield open_one
