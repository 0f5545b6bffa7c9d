"""A record of 3,000 turns, made once for the tests that only read it."""

from contextlib import AsyncExitStack

import pytest
from support.records import fill

from agent_store.database import connect


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
