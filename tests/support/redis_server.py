"""A real redis-server for tests, on a unix socket in a folder of its own, that can be killed, restarted and paused.

The binary is looked for as the program does it; a test that needs one is skipped by name where there is none.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path

import pytest

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
    """`with RedisServer() as server:`. Its data outlives `kill` and `restart` and goes at the end."""

    def __init__(self) -> None:
        self._binary = redis_binary()
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
        options = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder), "--appendonly", "yes"]
        self._process = subprocess.Popen(  # noqa: S603
            [str(self._binary), *options, "--appendfsync", "always", "--save", ""], stdout=subprocess.DEVNULL
        )
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
        """Its data and its scripts go, while it runs."""
        assert self._asked(b"FLUSHALL\r\nSCRIPT FLUSH\r\n", replies=2) == b"+OK\r\n+OK\r\n"

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


async def until(condition: Callable[[], object], within: float = 30.0) -> None:
    """Wait for a condition; fails after `within` seconds."""
    async with asyncio.timeout(within):
        for pause in chain(repeat(0.0, 50), repeat(0.005)):  # to spin any longer would take the time of other tests
            if condition():
                return
            await asyncio.sleep(pause)
