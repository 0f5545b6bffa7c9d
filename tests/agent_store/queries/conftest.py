"""A record of 3,000 turns, made once for the tests that only read it."""

import pytest
from support.records import fill

from agent_store.database import connect


@pytest.fixture(scope="session")
def record_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "record.db"
    fill(path, 3000, days=30)
    return path


@pytest.fixture
async def db(record_file):
    connection = await connect(record_file)
    yield connection
    await connection.close()
