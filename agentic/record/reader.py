"""Reads the record for a turn, which it must neither fail nor hold up: in a thread of its own, for seconds at most."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from agentic.record.database import RecordError, connect_blocking, identity

QUESTION_SECONDS = 2.0  # then a question has found nothing
STEPS = 20_000  # of SQLite's machine between two looks at the clock

T = TypeVar("T")

log = logging.getLogger(__name__)


class MemoryReader:
    """A connection that is opened when it is first needed, and again where the file was replaced.

    A file that is not there yet, is on another machine, or has no tables yet has nothing; so has one that cannot be
    read, which is logged once until it can be.
    """

    def __init__(self, path: Path, *, seconds: float = QUESTION_SECONDS) -> None:
        self._path, self._seconds = path, seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memory")
        self._open: tuple[sqlite3.Connection, int | None] | None = None  # used in that thread alone
        self._until = 0.0
        self._problem = ""

    async def ask(self, question: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """The answer to a question, `nothing` where the record cannot be read. Runs `question` in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(self._ask, question, nothing))

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _ask(self, question: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if not self._path.exists():
            self._close()
            return nothing
        try:
            connection = self._connected()
            self._until = time.monotonic() + self._seconds
            found = question(connection)
        except (sqlite3.Error, OSError, RecordError) as error:
            if "no such table" not in str(error):  # else the recorder has just created the file, and makes its tables
                self._report(str(error))
            self._close()
            return nothing
        self._problem = ""
        return found

    def _connected(self) -> sqlite3.Connection:
        file = identity(self._path)
        if self._open and self._open[1] != file:
            self._close()
        if self._open is None:
            connection = connect_blocking(self._path)
            connection.set_progress_handler(lambda: int(time.monotonic() > self._until), STEPS)
            self._open = connection, file
        return self._open[0]

    def _close(self) -> None:
        if self._open:
            self._open[0].close()
            self._open = None

    def _report(self, problem: str) -> None:
        level = logging.DEBUG if problem == self._problem else logging.WARNING
        log.log(level, "%s cannot be read for memories (%s); nothing is remembered meanwhile", self._path, problem)
        self._problem = problem
