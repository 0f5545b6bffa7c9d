from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from fakeredis import FakeServer

from agentic.wire.bus import Bus
from agentic.wire.connection import RedisLink
from tests.support.redis_server import PATIENT, RedisServer

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


@pytest.fixture(scope="session")
def shared() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
def emptied(shared: RedisServer) -> RedisServer:
    """A server that other tests have used before."""
    shared.flush()
    return shared


@pytest.fixture(params=["server", "in-process"])
def address(request: pytest.FixtureRequest) -> str | FakeServer:
    """Both kinds of Redis that the program may run on."""
    if request.param != "server":
        return FakeServer()
    own = "server" in request.fixturenames  # to kill it, say
    return request.getfixturevalue("server" if own else "emptied").url


@pytest.fixture
async def link(address: str | FakeServer) -> AsyncIterator[RedisLink]:
    async with RedisLink(address, command_timeout=PATIENT) as opened:
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

        async def open_one(address: str | FakeServer, **options: Any) -> Bus:
            link = await stack.enter_async_context(RedisLink(address, command_timeout=PATIENT))
            return await stack.enter_async_context(running(Bus(link, **{**FAST, **options})))

        yield open_one
