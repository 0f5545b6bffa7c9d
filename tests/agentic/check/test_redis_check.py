"""`--check` of Redis: servers that would lose keys, or that cannot run the program's scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_config import load_settings
from agentic.check.machine import check_redis
from agentic.findings import Finding, Findings, Level
from tests.support.redis_group import free_port, running, wait_until_asked

HIGHEST_OF_CLUSTER = 55_535  # the servers of a cluster talk to each other at the port 10,000 above


@contextmanager
def server(folder: Path, *options: str) -> Iterator[str]:
    port = free_port(most=HIGHEST_OF_CLUSTER)
    with running("--port", str(port), "--dir", str(folder), "--save", "", *options):
        wait_until_asked(port, ("PING",), "PONG")
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
