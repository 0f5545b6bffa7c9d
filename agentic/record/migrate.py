"""`python -m agentic.record migrate [PATH]`: bring a record up to date, or try that without touching it."""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

from agent_config import Settings
from agentic.record.database import RecordError, connect_blocking
from agentic.record.migrations import copies, migrate, missing, names, read_migrations, try_on_copy
from agentic.record.recorder import explained


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "migrate",
        help="bring the record's file up to date",
        description="Bring the record's file up to date. The program does so by itself at its start.",
    )
    parser.add_argument("path", nargs="?", type=Path, help="another file than the record of this folder")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--test", action="store_true", help="try it on a copy of the file, which is removed again")
    which.add_argument("--validate", action="store_true", help="check the migrations; of a PATH, whether they fit it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, settings: Settings) -> int:
    path: Path = options.path or settings.record_file
    if options.path is not None and not path.is_file():  # a mistyped path must not become a new record
        raise RecordError(f"{path}: there is no such file")
    try:
        print(_done(options, path))
    except sqlite3.Error as error:
        raise RecordError(f"{path}: {explained(error)}") from error
    return 0


def _done(options: argparse.Namespace, path: Path) -> str:
    """Do it; what was done, in a line."""
    existed = path.exists()
    if options.validate:
        in_order = f"The migrations are in order: {names(read_migrations())}."
        if options.path is None:
            return in_order
        with closing(connect_blocking(path)) as connection:
            lacks = missing(connection, read_migrations())
        return f"{in_order} {path} lacks {names(lacks)}." if lacks else f"{in_order} {path} is up to date."
    if options.test:
        applied = try_on_copy(path)
        what = f"a copy of {path}" if existed else f"a new file ({path} is not there yet)"
        return f"Tried on {what}: {names(applied) or 'nothing is missing'}. It works."
    applied = migrate(path)
    kept = f" Before it: {copies(path)[-1]}." if existed and applied else ""
    return f"{path}: applied {names(applied)}.{kept}" if applied else f"{path} is up to date."
