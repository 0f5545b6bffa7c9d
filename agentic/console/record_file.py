"""Opens the record for reading when a page first asks for it: at the console's start there may be no file yet."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path

import aiosqlite

from agentic.console.errors import Refused
from agentic.record.database import RecordError, connect, identity
from agentic.record.migrations import read_migrations

NOT_KEPT = "nothing is recorded, since RECORD_DAYS is 0: set it to a number of days in .env and start the program again"
NOTHING_YET = "nothing is recorded yet: mention a bot in its channel, or start a conversation on the Live page"

log = logging.getLogger(__name__)


class RecordFile:
    """`path` is None where no record is kept. Close it with `aclose`."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection: aiosqlite.Connection | None = None
        self._opened: int | None = None  # the file that it reads
        self._opening = asyncio.Lock()

    async def open(self) -> aiosqlite.Connection:
        """The connection that all pages share; it only reads. A file that was deleted or replaced is left.

        Raises Refused where there is nothing to read.
        """
        if self.path is None:
            raise Refused(404, NOT_KEPT)
        async with self._opening:
            if identity(self.path) != self._opened:
                await self.aclose()
            if self._connection is None:
                self._opened = identity(self.path)
                self._connection = await self._connect(self.path)
        return self._connection

    async def _connect(self, path: Path) -> aiosqlite.Connection:
        try:
            connection = await connect(path)
            if not await _has_all_tables(connection):
                await connection.close()
                raise Refused(404, NOTHING_YET)
            return connection
        except RecordError:
            raise Refused(404, NOTHING_YET) from None
        except (sqlite3.Error, OSError) as error:
            log.warning("the console cannot open the record %s: %s", path, error)
            raise Refused(503, "the record cannot be opened; the log says why") from None

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


async def _has_all_tables(connection: aiosqlite.Connection) -> bool:
    """Return whether the recorder has applied all migrations: a new file gets its tables one after the other."""
    query = "SELECT count(*) AS tables FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'"
    if not [row for row in await connection.execute_fetchall(query) if row["tables"]]:
        return False
    (row,) = await connection.execute_fetchall("SELECT count(*) AS applied FROM migrations")
    return bool(row["applied"] >= len(read_migrations()))
