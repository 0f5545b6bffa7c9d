"""What a program under test has recorded, read from its file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

NOT_THERE_YET = ("no such table", "unable to open database file")


def recorded(folder: Path, question: str) -> list[tuple[Any, ...]]:
    """The rows of a query on the record in this data folder; none until the recorder has created its tables."""
    try:
        with closing(sqlite3.connect(f"file:{folder / 'record.db'}?mode=ro", uri=True)) as db:
            return db.execute(question).fetchall()
    except sqlite3.OperationalError as error:
        if any(reason in str(error) for reason in NOT_THERE_YET):
            return []
        raise
