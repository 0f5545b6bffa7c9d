"""The record as the console reads it: the file that stands there now."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from pathlib import Path

import pytest
from support.records import fill
from support.redis_server import until

from agentic.console.parts import RecordFile
from agentic.console.requests import Refused
from agentic.record.queries.statistics import file_state


async def test_a_file_that_was_deleted_or_replaced_is_not_read_on(tmp_path: Path) -> None:
    path, backup = tmp_path / "record.db", tmp_path / "backup.db"
    fill(path, 30)
    fill(backup, 20)
    async with aclosing(RecordFile(path)) as store:
        assert (await file_state(await store.open())).counts["turns"] == 30
        for end in ("", "-wal", "-shm"):
            (tmp_path / f"record.db{end}").unlink(missing_ok=True)
        with pytest.raises(Refused, match="Nothing is recorded yet"):
            await store.open()
        backup.rename(path)
        assert (await file_state(await store.open())).counts["turns"] == 20


async def test_an_opening_that_is_canceled_at_any_moment_leaves_no_thread(tmp_path: Path) -> None:
    fill(path := tmp_path / "record.db", 1)
    kept, threads = [], threading.active_count()
    for milliseconds in range(20):
        opening = asyncio.create_task(RecordFile(path).open())
        await asyncio.sleep(milliseconds / 1000)
        opening.cancel()
        kept += await asyncio.gather(opening, return_exceptions=True)
    for opened in kept:
        if not isinstance(opened, BaseException):
            await opened.close()
    await until(lambda: threading.active_count() <= threads)
