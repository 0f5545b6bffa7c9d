"""The console over a record of 2,000 turns, made once, and a Redis in the process."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient
from support.console import FakeChannels, client_of, console_parts
from support.records import CHANNELS, NOW, fill

from agentic.console.parts import ConsoleContext, RecordFile
from agentic.state.budgets import Caps
from agentic.state.shared_state import SharedState
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import PATIENT, empty_redis

HOSTILE = "<img src=x onerror=alert(1)>"
ODD_ID = "m 1/2?<b>&#%"
FORMULA = '=HYPERLINK("http://x")'
DAY = "2026-11-22"
ODD_ROWS: dict[str, dict[str, object]] = {
    "turns": {
        **{"agent": "claude", "id": ODD_ID, "at": NOW - 5, "day": DAY, "kind": "mention", "trigger": "mention"},
        **{"outcome": "posted", "reason": HOSTILE, "channel_id": 9, "model": FORMULA},
    },
    "calls": {
        **{"agent": "claude", "turn_id": ODD_ID, "n": 0, "kind": "text", "model": FORMULA, "at": NOW - 5, "day": DAY},
        **{"seconds": 1, "input_tokens": 1, "cached_tokens": 0, "cache_write_tokens": 0, "output_tokens": 1},
        **{"reasoning_tokens": 0, "searches": 0, "cost_usd": 0.5},
    },
    "posts": {
        **{"message_id": 77, "agent": "claude", "turn_id": ODD_ID, "channel_id": 9, "at": NOW - 5, "text": HOSTILE},
    },
}
"""Table → a row with texts and an id that no program of ours would write."""


class Channels(FakeChannels):
    """A LiveChannels that knows the record's channels."""

    def names(self) -> dict[int, str]:
        return CHANNELS


@pytest.fixture(scope="session")
def record_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "record.db"
    fill(path, 2000, days=30)
    with closing(sqlite3.connect(path)) as connection:
        for table, row in ODD_ROWS.items():
            places = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", tuple(row.values()))  # noqa: S608
        connection.commit()
    return path


@pytest.fixture
async def record(record_file: Path) -> AsyncIterator[RecordFile]:
    store = RecordFile(record_file)
    yield store
    await store.aclose()


@pytest.fixture
async def parts(record: RecordFile, tmp_path: Path) -> AsyncIterator[ConsoleContext]:
    environ = {
        "CHANNEL_THEME_MAP": ",".join(f"{channel}:{theme}" for channel, theme in CHANNELS.items()),
        "PERSONAS_DIR": str(tmp_path / "personas"),
    }
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as link:
        state = SharedState(link, lambda: NOW, caps=Caps(all=5.0, person=1.0))
        yield console_parts(link, environ, live=Channels(), store=record, clock=lambda: NOW, state=state)


class Pages:
    """Asks the console for JSON."""

    def __init__(self, client: TestClient[Any, Any]) -> None:
        self.client = client

    async def get(self, path: str, status: int = 200, **query: str) -> Any:
        response = await self.client.get(path, params=query)
        assert response.status == status, await response.text()
        return await response.json()


@asynccontextmanager
async def pages_of(parts: ConsoleContext) -> AsyncIterator[Pages]:
    async with client_of(parts) as client:
        yield Pages(client)


@pytest.fixture
async def pages(parts: ConsoleContext) -> AsyncIterator[Pages]:
    async with pages_of(parts) as asked:
        yield asked
