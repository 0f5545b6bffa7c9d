"""Clients that hold up a server: each sends the beginning of a request, and then nothing."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp

from tests.support.ports import free_port

HOST = "127.0.0.1"
WITHIN = 10.0  # seconds in which an honest client has its answer
PORTS = {
    "EVENTS_PORT": b"POST /events/claude HTTP/1.1\r\nHost: localhost\r\nX-Half",
    "HEALTH_PORT": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Half",
    "CONSOLE_PORT": b"GET /api/me HTTP/1.1\r\nHost: localhost\r\nX-Half",
}
"""The setting of each port → what is sent to it."""
HONEST = {"EVENTS_PORT": ("/events/claude", 405), "HEALTH_PORT": ("/healthz", 200), "CONSOLE_PORT": ("/", 200)}
"""The setting of each port → an address, and the status of the answer."""


def free_ports() -> dict[str, int]:
    return {name: free_port() for name in PORTS}


def settings_of(ports: Mapping[str, int]) -> dict[str, str]:
    """The settings by which a program serves these ports."""
    others = {"EVENTS_SECRET": "a-secret-of-some-length", "CONSOLE": "true"}
    return {**{name: str(port) for name, port in ports.items()}, **others}


@asynccontextmanager
async def half_sent(port: int, count: int, data: bytes) -> AsyncIterator[None]:
    """While entered, so many connections that have sent `data`, as far as the server leaves them open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 2 * count + 500:
        resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 500, hard))
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await loop.sock_connect(client, (HOST, port))
                    await loop.sock_sendall(client, data)
        yield


async def honest_answer(setting: str, port: int) -> None:
    """Return once an honest client was answered. Raises TimeoutError."""
    path, status = HONEST[setting]
    async with asyncio.timeout(WITHIN), aiohttp.ClientSession() as client:
        while True:
            with suppress(aiohttp.ClientError):
                async with client.get(f"http://{HOST}:{port}{path}") as response:
                    assert response.status == status
                    return
            await asyncio.sleep(0.05)
