"""Open the record's file, and create its tables.

The file is SQLite in WAL mode: one writer and any number of readers, in any process. `secure_delete` overwrites deleted
data, so that words that a person had deleted don't remain in free pages.

Migrations are `migrations/NNNN_name.sql`. They run in order, each in a transaction; the table `migrations` lists the
applied ones. A file from a newer program, or with migrations of other names, is rejected. (The texts may differ in
comments; a test pins the statements.) Before each migration except the first, the file is copied next to itself
(`record.db.before-0002`). Migrating blocks.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiosqlite

BUSY_MS = 5000  # another process may checkpoint, or copy the file
FOLDER = Path(__file__).parent / "migrations"
CHUNK = 64  # rows that a connection fetches at once

EACH = (f"PRAGMA busy_timeout = {BUSY_MS}", "PRAGMA temp_store = MEMORY")
WRITER = (
    *EACH,
    "PRAGMA auto_vacuum = INCREMENTAL",  # has an effect only before the first table exists
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",  # a power cut may undo the last commits, which Redis then delivers again
    "PRAGMA secure_delete = ON",
    "PRAGMA foreign_keys = ON",  # a summary takes the list of its sources along
)
READER = (*EACH, "PRAGMA query_only = ON")

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at REAL NOT NULL,
    digest TEXT NOT NULL             -- of its text
) STRICT
"""


class RecordError(Exception):
    """The record can't be used. The text says why and what to do, in one line."""


def connect(path: Path, *, writable: bool = False) -> aiosqlite.Connection:
    """Open the record, by `await` or `async with`; its rows are read by name or position.

    A writer creates the file, only for its owner, and begins transactions itself. Raises RecordError if a reader finds
    no file, sqlite3.Error and OSError if the file can't be opened.
    """
    if writable:
        create(path)
    address(path, writable)  # raise here: an error in the connection's thread may outlive the event loop
    return aiosqlite.Connection(partial(connect_blocking, path, writable=writable), CHUNK)


def connect_blocking(path: Path, *, writable: bool = False) -> sqlite3.Connection:
    """Open the record, as `connect`, for programs without an event loop and for threads."""
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
    """Create an empty file if it's missing, and let only its owner read it. A group's access stays. SQLite creates the
    files beside it with the same mode.

    An existing file isn't opened here: closing it would end the locks of all other connections of this process
    (sqlite.org/howtocorrupt.html, 2.2). Then another process could delete the log that they still write to.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    elif path.stat().st_mode & 0o007:  # copied or restored by hand
        with suppress(PermissionError):
            path.chmod(0o600)


def identity(path: Path) -> int | None:
    """Return the file's inode number, which changes if the file is replaced; None if there is no file."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def address(path: Path, writable: bool) -> str:
    if not path.exists():
        raise RecordError(f"No history was found at {path} yet. It's written while the bots run, unless RECORD_DAYS=0.")
    return f"{path.absolute().as_uri()}?mode={'rw' if writable else 'ro'}"


class MigrationError(RecordError):
    """The migrations or the file are invalid. The file is unchanged."""


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.number:04d}_{self.name}"


def read_migrations(folder: Path = FOLDER) -> list[Migration]:
    """Read the program's migrations, by number. Raises MigrationError for a duplicate or missing number."""
    found: list[Migration] = []
    for place, path in enumerate(sorted(folder.glob("*.sql")), 1):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise MigrationError(f"{path.name}: a migration is named NNNN_name.sql, such as 0002_titles.sql")
        migration = Migration(int(match[1]), match[2], path.read_text(encoding="utf-8"))
        if migration.number < place:
            raise MigrationError(f"{migration}: its number is taken by {found[-1]}; rename one of them")
        if migration.number > place:
            raise MigrationError(f"{migration}: migration {place:04d} before it is missing")
        found.append(migration)
    return found


def migrate(
    path: Path, migrations: Sequence[Migration] | None = None, clock: Callable[[], float] = time.time
) -> list[Migration]:
    """Create the file or apply its missing migrations, and return those applied.

    Raises MigrationError (the migrations before stay applied), sqlite3.Error if the file is damaged or in use, OSError.
    """
    ours = read_migrations() if migrations is None else migrations
    is_new = not path.exists()
    if not is_new:
        with closing(connect_blocking(path)) as connection:
            missing_migrations(connection, ours)  # don't open a rejected file for writing
    with closing(connect_blocking(path, writable=True)) as connection:
        applied = []
        while missing := missing_migrations(connection, ours):
            migration = missing[0]
            if not is_new:
                _back_up(connection, path.with_name(f"{path.name}.before-{migration.number:04d}"))
                for old in copies(path)[:-3]:
                    old.unlink(missing_ok=True)
            if _apply(connection, migration, ours, clock()):
                applied.append(migration)
        return applied


def try_on_copy(path: Path, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Apply the missing migrations to a copy of the file (or to a new file), check the copy, and delete it.

    Returns the applied migrations. Raises the same errors as `migrate`.
    """
    folder = path.parent if path.exists() else Path(tempfile.gettempdir())
    trial = folder / f"{path.name}.trial-{os.getpid()}"
    try:
        if path.exists():
            with closing(connect_blocking(path)) as connection:
                _back_up(connection, trial)
        applied = migrate(trial, migrations)
        with closing(connect_blocking(trial)) as connection:
            problem = str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])
        if problem != "ok":
            raise MigrationError(f"the copy is damaged after the migrations: {problem}")
        return applied
    finally:
        for file in folder.glob(f"{trial.name}*"):  # with the files that SQLite and migrations put beside it
            file.unlink(missing_ok=True)


def copies(path: Path) -> list[Path]:
    """Return the copies that migrations left beside the file, oldest first."""
    return sorted(copy for copy in path.parent.glob(f"{path.name}.before-*") if copy.suffix[-4:].isdecimal())


def missing_migrations(connection: sqlite3.Connection, ours: Sequence[Migration]) -> Sequence[Migration]:
    """Return the migrations that the file lacks.

    Raises MigrationError if the file is from another program, or from a newer or different version.
    """
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if "migrations" not in tables:
        if tables:
            raise MigrationError("this file is another program's: it has tables, and no list of migrations")
        return ours
    rows = connection.execute("SELECT number, name FROM migrations ORDER BY number").fetchall()
    if len(rows) > len(ours):
        first = rows[len(ours)]
        raise MigrationError(
            "a newer version of the program wrote this file (migration "
            f"{first['number']:04d}_{first['name']}): run that version, or restore the copy that it made first "
            f"(.before-{first['number']:04d})"
        )
    for row, migration in zip(rows, ours, strict=False):
        if (row["number"], row["name"]) != (migration.number, migration.name):
            raise MigrationError(
                f"this file has migration {row['name']}, not {migration}: never replace a released migration; add a new"
                " one"
            )
    return ours[len(rows) :]


def _apply(connection: sqlite3.Connection, migration: Migration, ours: Sequence[Migration], at: float) -> bool:
    """Apply a migration completely or not at all. Return False if another process was faster."""

    def forbid_transactions(action: int, *_: object) -> int:
        """Forbid BEGIN, COMMIT, and ROLLBACK in a migration: its changes until then couldn't be undone."""
        return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK

    connection.execute("BEGIN IMMEDIATE")
    try:
        missing = missing_migrations(connection, ours)
        if not missing or missing[0] != migration:
            connection.execute("ROLLBACK")
            return False
        connection.execute(_TABLE)
        connection.set_authorizer(forbid_transactions)
        for statement in split_statements(migration.text):
            connection.execute(statement)
        connection.set_authorizer(None)
        row = (migration.number, migration.name, at, hashlib.sha256(migration.text.encode()).hexdigest())
        connection.execute("INSERT INTO migrations (number, name, applied_at, digest) VALUES (?, ?, ?, ?)", row)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        connection.set_authorizer(None)
        if connection.in_transaction:  # some errors of SQLite end the transaction themselves
            connection.execute("ROLLBACK")
        why = "it must not end its transaction" if "not authorized" in str(error) else str(error)
        raise MigrationError(f"migration {migration} failed: {why}; the file is unchanged") from error
    return True


def split_statements(sql: str) -> Iterator[str]:
    """Split a script into statements (`executescript` commits first). SQLite knows which semicolons end statements."""
    start = 0
    for found in re.finditer(";", sql):
        statement = sql[start : found.end()]
        if sqlite3.complete_statement(statement):
            yield statement
            start = found.end()
    yield sql[start:]  # a last statement without a semicolon, or a comment


def _back_up(connection: sqlite3.Connection, to: Path) -> None:
    """Copy the file's current state, even while it's written to. An incomplete copy has another name."""
    part = to.with_name(f"{to.name}.part")
    part.unlink(missing_ok=True)
    create(part)
    try:
        with closing(sqlite3.connect(part)) as copy:
            connection.backup(copy)
        part.replace(to)
    finally:
        part.unlink(missing_ok=True)


def migration_names(migrations: Iterable[Migration]) -> str:
    return ", ".join(map(str, migrations))
