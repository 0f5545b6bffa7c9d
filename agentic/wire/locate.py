"""Locates Redis: the given address; else the machine's own on its usual port; else a private server under the data
folder; else, where no server binary is found, one inside this process that loses everything at its end.

The same code talks to all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from agentic.wire.ping import answers
from agentic.wire.server_binary import find_redis_binary

if TYPE_CHECKING:
    from fakeredis import FakeServer

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 6379
NO_SERVER = (
    "no redis-server found: Redis runs inside this process, NOTHING OUTLIVES IT, and no other process can join. "
    "Install one (apt install redis-server, brew install redis, or valkey) or set REDIS_URL."
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RedisPlace:
    """`address` is for RedisLink; `description` is for people, without a password."""

    address: str | FakeServer
    description: str


@asynccontextmanager
async def locate_redis(
    url: str | None,
    data_dir: Path,
    *,
    runtime_dir: Path | None = None,
    use_default_port: bool = True,
    default_port: int = DEFAULT_PORT,
) -> AsyncIterator[RedisPlace]:
    """A Redis for as long as the context lasts; a private one is restarted when it dies.

    `runtime_dir`: the folder of a private server's socket, XDG_RUNTIME_DIR (None: the temporary directory).
    `use_default_port=False` skips the machine's own. Raises RedisStartError where a private one does not start.
    """
    if url:
        yield RedisPlace(url, f"Redis at {without_password(url)}")
        return
    if use_default_port and await answers((DEFAULT_HOST, default_port)):
        place = f"redis://{DEFAULT_HOST}:{default_port}"
        log.info("using the Redis that answers at %s", place)
        yield RedisPlace(place, f"Redis at {place}")
        return
    binary = await find_redis_binary()
    if binary is None:
        yield _in_process()
        return
    async with _private(binary, data_dir, runtime_dir) as private:
        yield private


def without_password(url: str) -> str:
    """The URL without user and query, which may be secret, and without a path that contains a misplaced password."""
    parts = urlsplit(url)
    path = "" if "@" in parts.path else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


@asynccontextmanager
async def _private(binary: Path, data_dir: Path, runtime_dir: Path | None) -> AsyncIterator[RedisPlace]:
    from agentic.wire.private_server import PrivateRedis

    async with PrivateRedis(binary, data_dir, runtime_dir) as server:
        watch = asyncio.create_task(server.supervise(), name="private-redis")
        try:
            yield RedisPlace(f"unix://{quote(str(server.socket))}", f"private Redis under {data_dir}")
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


def _in_process() -> RedisPlace:
    from fakeredis import FakeServer  # only where no server could be found

    log.warning(NO_SERVER)
    return RedisPlace(FakeServer(), "Redis inside this process; nothing outlives it")
