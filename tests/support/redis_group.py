"""Redis-servers on loopback ports: one with TLS, and a master with a replica and a Sentinel. For tests of connections;
redis_server.py is for all others."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.redis_server import redis_binary

SERVER_PASSWORD, SENTINEL_PASSWORD = "of-the-server", "of-the-sentinel"
START_SECONDS = 10.0


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A redis-server with these arguments, killed at the end."""
    process = subprocess.Popen([str(redis_binary()), *arguments], stdout=subprocess.DEVNULL)  # noqa: S603
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def asked(port: int, *commands: str) -> str:
    """The answers to inline commands, as far as they come in one piece."""
    with socket.create_connection(("127.0.0.1", port), timeout=1) as client:
        client.sendall("".join(f"{command}\r\n" for command in commands).encode())
        return client.recv(65_536).decode()


def wait_until_asked(port: int, commands: Sequence[str], expected: str) -> None:
    """Wait until the answers have the expression `expected`."""
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            if re.search(expected, asked(port, *commands)):
                return
        except OSError:
            pass
        assert time.monotonic() < give_up, f"never answered with {expected!r}: {commands}"
        time.sleep(0.01)


class WatchedRedis:
    """A master, its replica and one Sentinel, each with a password. `name` is the master's."""

    name = "bots"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_port(), free_port()
        self.sentinel_port = free_port()
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """The address, in which one Sentinel is not there, and one never answers."""
        silent = self._silent.getsockname()[1]
        places = f"127.0.0.1:{silent},127.0.0.1:1,127.0.0.1:{self.sentinel_port}"
        options = f"sentinel_password={SENTINEL_PASSWORD}"
        return f"redis+sentinel://:{SERVER_PASSWORD}@{places}/{self.name}/0?{options}"

    def __enter__(self) -> WatchedRedis:
        self._silent = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._master = self._server(self.ports[0])
        self._server(self.ports[1], "--replicaof", "127.0.0.1", str(self.ports[0]))
        wait_until_asked(self.ports[1], (f"AUTH {SERVER_PASSWORD}", "INFO replication"), "master_link_status:up")
        # The master sends no commands before the replica's first acknowledgment, which may take a second.
        acknowledged = r"state=online,offset=[1-9]"
        replicates = (f"AUTH {SERVER_PASSWORD}", "PUBLISH replicated 1", "INFO replication")
        wait_until_asked(self.ports[0], replicates, acknowledged)
        self._sentinel()
        listed = (f"AUTH {SENTINEL_PASSWORD}", f"SENTINEL replicas {self.name}")
        wait_until_asked(self.sentinel_port, listed, "slave-priority")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kill_master(self) -> None:
        """As by kill -9; the Sentinel makes the replica the master within about two seconds."""
        self._master.kill()
        self._master.wait()

    def _server(self, port: int, *more: str) -> subprocess.Popen[bytes]:
        folder = self.folder / str(port)
        folder.mkdir()
        common = ("--port", str(port), "--dir", str(folder), "--save", "", "--repl-diskless-sync-delay", "0")
        passwords = ("--requirepass", SERVER_PASSWORD, "--masterauth", SERVER_PASSWORD)
        process = self._stack.enter_context(running(*common, *passwords, *more))
        wait_until_asked(port, (f"AUTH {SERVER_PASSWORD}", "PING"), "PONG")
        return process

    def _sentinel(self) -> None:
        file = self.folder / "sentinel.conf"
        lines = (
            f"port {self.sentinel_port}",
            f"dir {self.folder}",
            f"requirepass {SENTINEL_PASSWORD}",
            f"sentinel monitor {self.name} 127.0.0.1 {self.ports[0]} 1",
            f"sentinel auth-pass {self.name} {SERVER_PASSWORD}",
            f"sentinel down-after-milliseconds {self.name} 200",
            f"sentinel failover-timeout {self.name} 2000",
        )
        file.write_text("\n".join(lines) + "\n")
        self._stack.enter_context(running(str(file), "--sentinel"))


@contextmanager
def tls_redis(folder: Path) -> Iterator[tuple[int, Path]]:
    """A Redis with TLS alone: its port, and the certificate of the authority that signed its own."""
    authority = certificates(folder)
    port = free_port()
    tls = ("--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", str(authority))
    files = ("--tls-cert-file", str(folder / "server.pem"), "--tls-key-file", str(folder / "server.key"))
    with running(*tls, *files, "--save", "", "--dir", str(folder)) as process:
        give_up = time.monotonic() + START_SECONDS
        while not _listens(port):
            if process.poll() is not None:
                pytest.skip("needs a redis-server with TLS")
            assert time.monotonic() < give_up, "redis-server does not listen"
            time.sleep(0.01)
        yield port, authority


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def certificates(folder: Path) -> Path:
    """Make an authority of our own and a server's certificate for 127.0.0.1; returns the authority's certificate."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)  # noqa: S603

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    run("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=our own authority")
    run("req", *curve[:5], "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=redis")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed_by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    run("x509", "-req", "-in", "server.csr", "-out", "server.pem", *signed_by)
    return folder / "ca.pem"
