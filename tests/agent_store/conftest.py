from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.recording import Scene, recording
from tests.support.redis_server import RedisServer


@pytest.fixture(scope="session")
def shared() -> Iterator[RedisServer]:
    with RedisServer() as running:
        yield running


@pytest.fixture
async def scene(shared: RedisServer, tmp_path: Path) -> AsyncIterator[Scene]:
    shared.flush()
    async with recording(shared.url, tmp_path / "record.db") as opened:
        yield opened
