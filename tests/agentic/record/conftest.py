from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agentic.record.database import connect
from tests.support.recording import Scene, recording
from tests.support.records import fill
from tests.support.redis_server import empty_redis


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with recording(empty_redis(), tmp_path / "record.db") as opened:
        yield opened


@pytest.fixture(scope="session")
def record_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "record.db"
    fill(path, 3000, days=30)
    return path


@pytest.fixture
async def opened():
    """Opens a record; closed also where the test fails, or its thread would keep the process."""
    async with AsyncExitStack() as stack:

        async def enter(path):
            connection = await connect(path)
            stack.push_async_callback(connection.close)
            return connection

        yield enter


@pytest.fixture
async def db(record_file, opened):
    return await opened(record_file)
