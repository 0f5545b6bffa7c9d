"""`--check` of Redis: servers that would lose keys, or that cannot run the program's scripts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from agent_config import load_settings
from agentic.check.machine import check_redis
from agentic.findings import Finding, Findings, Level
from agentic.wire.connection import cause
from tests.support.ports import free_port
from tests.support.redis_group import running, wait_until_asked


@contextmanager
def server(folder: Path, *options: str) -> Iterator[str]:
    port = free_port()
    with running("--port", str(port), "--dir", str(folder), "--save", "", *options):
        wait_until_asked(port, ("PING",), "PONG|NOAUTH")
        yield f"redis://127.0.0.1:{port}/0"


async def findings(url: str) -> list[Finding]:
    found = Findings()
    await check_redis(load_settings({"REDIS_URL": url}, None), found, use_default_redis=False)
    return found


@pytest.mark.promise(182)
@pytest.mark.parametrize(
    ("options", "when"),
    [
        (("--maxmemory-policy", "allkeys-lru", "--maxmemory", "64mb"), "at 64 MB"),
        (("--maxmemory-policy", "volatile-ttl"), "once maxmemory is set"),
    ],
)
async def test_a_redis_that_deletes_keys_when_it_is_full_is_a_warning(
    tmp_path: Path, options: tuple[str, ...], when: str
) -> None:
    with server(tmp_path, *options) as url:
        warning, fine = await findings(url)
    assert (warning.level, warning.advice) == (Level.WARNING, "set maxmemory-policy to noeviction")
    assert when in warning.text
    assert options[1] in warning.text
    assert fine.level is Level.OK


async def test_a_full_redis_that_keeps_its_keys_needs_no_warning(tmp_path: Path) -> None:
    with server(tmp_path, "--maxmemory", "64mb") as url:
        (fine,) = await findings(url)
    assert fine.level is Level.OK


@pytest.mark.promise(182)
async def test_a_redis_in_cluster_mode_is_refused_with_its_reason(tmp_path: Path) -> None:
    with server(tmp_path, "--cluster-enabled", "yes") as url:
        (wrong,) = await findings(url)
    assert wrong.level is Level.WRONG
    assert "is a cluster" in wrong.text
    assert "without cluster mode" in wrong.advice


@pytest.mark.promise(620)
@pytest.mark.parametrize(
    ("options", "address", "told"),
    [
        (("--requirepass", "s3cret"), "redis://127.0.0.1:{port}", "it needs a password, as in redis://:password@host"),
        (("--requirepass", "s3cret"), "redis://:wrong@127.0.0.1:{port}", "it rejects the password"),
        ((), "redis://127.0.0.1:{port}/99", "DB index is out of range"),
        ((), "redis://127.0.0.1:1", "connection refused"),
        ((), "unix:///nowhere/redis.sock", "no such file or directory"),
    ],
)
async def test_why_a_redis_cannot_be_used_is_told_in_a_few_words(
    tmp_path: Path, options: tuple[str, ...], address: str, told: str
) -> None:
    with server(tmp_path, *options) as url:
        (wrong,) = await findings(address.format(port=urlsplit(url).port))
    assert wrong.level is Level.WRONG
    assert wrong.text.removeprefix("is unavailable: ").startswith(told)
    assert ".." not in str(wrong)
    assert "s3cret" not in str(wrong)


def test_a_name_that_nobody_has_is_told_without_the_address() -> None:
    error = RedisConnectionError("Error -2 connecting to nobody.invalid:6379. Name or service not known.")
    error.__context__ = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert cause(error) == "name or service not known"


@pytest.mark.promise(620)
async def test_an_address_where_something_else_answers_is_told(tmp_path: Path) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        (plain,) = await findings(f"redis://127.0.0.1:{port}")
        (encrypted,) = await findings(f"rediss://127.0.0.1:{port}")
    assert plain.text == "is unavailable: what answers there isn't Redis"
    assert encrypted.text == "is unavailable: it doesn't use TLS, which rediss:// asks for"
