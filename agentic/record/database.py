"""Opens the file of the record: SQLite in WAL mode, one writer and any number of readers, of any process.

`secure_delete` overwrites what is deleted, so that words that a person had removed are not left in free pages.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiosqlite

BUSY_MS = 5000  # another process may checkpoint, or copy the file

EACH = (f"PRAGMA busy_timeout = {BUSY_MS}", "PRAGMA temp_store = MEMORY")
WRITER = (
    *EACH,
    "PRAGMA auto_vacuum = INCREMENTAL",  # counts only before the first table
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",  # a power cut may undo the last commits, which Redis then delivers again
    "PRAGMA secure_delete = ON",
    "PRAGMA foreign_keys = ON",  # a summary takes the list of its sources along
)
READER = (*EACH, "PRAGMA query_only = ON")


class RecordError(Exception):
    """The record cannot be used. The text says why and what to do, in one line."""


async def connect(path: Path, *, writable: bool = False) -> aiosqlite.Connection:
    """Open the record; its rows are read by name or position. The caller closes it.

    A writer creates the file, for its owner alone, and begins its transactions itself. Raises RecordError where a
    reader finds no file, sqlite3.Error and OSError where the file cannot be opened.
    """
    if writable:
        create(path)
    connection = await aiosqlite.connect(address(path, writable), uri=True, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        for pragma in WRITER if writable else READER:
            await connection.execute(pragma)
    except BaseException:
        await connection.close()
        raise
    return connection


@asynccontextmanager
async def opened(path: Path, *, writable: bool = False) -> AsyncIterator[aiosqlite.Connection]:
    """As `connect`, for as long as the context lasts."""
    connection = await connect(path, writable=writable)
    try:
        yield connection
    finally:
        await connection.close()


def connect_blocking(path: Path, *, writable: bool = False) -> sqlite3.Connection:
    """As `connect`, for programs without an event loop and for threads."""
    if writable:
        create(path)
    connection = sqlite3.connect(address(path, writable), uri=True, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        for pragma in WRITER if writable else READER:
            connection.execute(pragma)
    except BaseException:
        connection.close()
        raise
    return connection


def create(path: Path) -> None:
    """Create the file, empty, if it is missing, and let its owner alone read it; SQLite gives the files beside it the
    same mode. If a group was let in, that stays.

    An existing file is not opened here: to close it would end the locks of all other connections of this process
    (sqlite.org/howtocorrupt.html, 2.2), and another process could then delete the log that they still write to.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    elif path.stat().st_mode & 0o007:  # copied or restored by hand
        with suppress(PermissionError):
            path.chmod(0o600)


def identity(path: Path) -> int | None:
    """The number of the file under that name, another one where it was replaced; None without one."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def address(path: Path, writable: bool) -> str:
    if not path.exists():
        raise RecordError(f"There is no record at {path} yet: the program writes it when its bots run (RECORD_DAYS)")
    return f"{path.absolute().as_uri()}?mode={'rw' if writable else 'ro'}"
