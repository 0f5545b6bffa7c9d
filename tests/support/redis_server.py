"""A real Redis server for tests, on a unix socket in a folder of its own, that can be killed, restarted, and paused.

The binary is found as the program finds it. If there is none, the tests that need one are skipped by name.
`empty_redis` gives a test an empty database on one server that all tests of the process share. `BlockingLink` is for
tests that move the time.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.driver_info import DriverInfo

from agentic.wire.connection import RedisConnection
from agentic.wire.server import candidates

NEEDS = "needs a redis-server binary"
PATIENT = 10.0  # seconds: a command timeout for tests of other things, on machines that are busy


def redis_binary() -> Path:
    """The binary; skips the running test when there is none."""
    found = next(candidates(), None)
    if found is None:
        pytest.skip(NEEDS)
    return found


class RedisServer:
    """`with RedisServer() as server:`. Its data survives `kill` and `restart`, and goes at the end.

    With `durable=False` a kill loses it.
    """

    def __init__(self, *, durable: bool = True) -> None:
        self._binary = redis_binary()
        self._durable = durable
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))  # short: a socket's path must be
        self.socket = self.folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder), "--save", ""]
        if self._durable:
            options += ["--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen([str(self._binary), *options], stdout=subprocess.DEVNULL)  # noqa: S603
        give_up = time.monotonic() + 10
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended at once"
            assert time.monotonic() < give_up, "redis-server does not answer"

    def kill(self) -> None:
        """As by kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.socket.unlink(missing_ok=True)

    def empty(self) -> None:
        """Its data is lost, while it is down."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)
        (self.folder / "appendonly.aof").unlink(missing_ok=True)

    def flush(self) -> None:
        """Remove its data and its scripts, and end its subscriptions, while it runs."""
        answer = self._asked(b"FLUSHALL\r\nSCRIPT FLUSH\r\nCLIENT KILL TYPE pubsub\r\n", replies=3)
        assert answer.startswith(b"+OK\r\n+OK\r\n:"), answer

    def restart(self) -> None:
        self.kill()
        self.start()

    def pause(self) -> None:
        """It keeps its connections and says nothing any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            return self._asked(b"PING\r\n") == b"+PONG\r\n"
        except OSError:
            os.sched_yield()
            return False

    def _asked(self, commands: bytes, replies: int = 1) -> bytes:
        with socket.socket(socket.AF_UNIX) as client, client.makefile("rb") as answers:
            client.settimeout(1)
            client.connect(str(self.socket))
            client.sendall(commands)
            return b"".join(answers.readline() for _ in range(replies))


@cache
def shared_redis() -> RedisServer:
    """The server that the tests of this process share; it ends with the process and keeps nothing."""
    server = RedisServer(durable=False)
    server.start()
    atexit.register(server.__exit__)
    return server


def end_shared_redis() -> None:
    """End it with the tests: a worker of pytest-xdist may be killed before it would end by itself."""
    if shared_redis.cache_info().currsize:
        server = shared_redis()
        atexit.unregister(server.__exit__)
        server.__exit__()
        shared_redis.cache_clear()


def empty_redis() -> str:
    """Empty the shared server and return its URL. Call it once per test: it empties what the test has written too."""
    server = shared_redis()
    server.flush()
    return server.url


class BlockingLink(RedisConnection):
    """A link for tests that move the time: its commands end before the event loop continues, so the rules are the real
    scripts and no socket is waited for. It has a database of its own on the shared server, empty at first."""

    _numbers = cycle(range(1, 16))
    _driver = DriverInfo()  # reads the library's metadata, as each client would

    def __init__(self) -> None:
        super().__init__(shared_redis().url)
        self.client = Redis(
            unix_socket_path=str(shared_redis().socket),
            db=next(self._numbers),
            decode_responses=True,
            driver_info=self._driver,
        )
        self.client.run = self.client.execute_command  # type: ignore[attr-defined]  # as CommandClient
        self.client.flushdb()

    def leave(self) -> None:
        """From now on the server seems not to answer."""
        self.present.clear()

    def come_back(self) -> None:
        if self.away:
            self.present.set()
            self._note_back()

    def lose(self) -> None:
        """Forget what waits to be written, as a process that is killed."""
        self._queued.clear()

    async def call(self, command: Callable[[Any], Any]) -> Any:
        self._fail_while_away()
        return command(self.client)

    async def batch(self, fill: Callable[[Any], object], *, transaction: bool = False) -> list[Any]:
        self._fail_while_away()
        pipe = self.client.pipeline(transaction=transaction)
        fill(pipe)
        return list(pipe.execute())


async def until(condition: Callable[[], object], within: float = 30.0) -> None:
    """Wait for a condition; fails after `within` seconds."""
    async with asyncio.timeout(within):
        for pause in chain(repeat(0.0, 20), repeat(0.01)):  # to spin any longer would take the time of other tests
            if condition():
                return
            await asyncio.sleep(pause)
