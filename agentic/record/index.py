"""The index of what may be recalled: FTS5's table `memory_index`, of the log's messages and the summaries.

It is no part of the migrations, since a SQLite may lack FTS5: the recorder creates it where it can, and fills it. While
a recorder has the file open its triggers keep the index as its tables are, so a deletion of a message is one of its
words. The row of a summary has minus its message's id.

FTS5 only marks what was deleted until its segments are merged (3.42 can do otherwise, but then an older SQLite does not
read the file any more). So they are merged after each deletion, in steps; what they held is overwritten (database.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import aiosqlite

from agentic.record.terms import index_terms

MODULE = "fts5"
TABLE = "memory_index"
CREATE = (
    f"CREATE VIRTUAL TABLE {TABLE} USING fts5 (terms, tokenize = 'ascii')"  # splits at spaces alone, of these terms
)
SHADOWS = tuple(f"{TABLE}_{part}" for part in ("data", "idx", "content", "docsize"))
KEPT = "(1, 10)"  # rows of `data` without words, without which FTS5 does not even drop the table
MERGED_PAGES = 200  # in a step
MERGE_EVERY = 300.0  # seconds from the end of a merge to the next one; a request to be forgotten does not wait

MESSAGE_TERMS = "index_terms({0}.name || ' ' || {0}.text)"
SUMMARY_TERMS = "index_terms({0}.text)"


def _triggers(table: str, row: str, terms: str, watched: str) -> tuple[str, ...]:
    """Triggers of this connection alone: a file that is opened without FTS5, or without our function, has none."""
    remove = f"DELETE FROM {TABLE} WHERE rowid = {row.format('old')}; SELECT note_removal()"
    add = f"INSERT INTO {TABLE} (rowid, terms) VALUES ({row.format('new')}, {terms.format('new')})"
    changed = " OR ".join(f"old.{name} <> new.{name}" for name in watched.split(", "))
    return (
        f"CREATE TEMP TRIGGER {table}_added AFTER INSERT ON main.{table} BEGIN {add}; END",
        f"CREATE TEMP TRIGGER {table}_deleted AFTER DELETE ON main.{table} BEGIN {remove}; END",
        f"CREATE TEMP TRIGGER {table}_changed AFTER UPDATE OF {watched} ON main.{table} WHEN {changed}"
        f" BEGIN {remove}; {add}; END",
    )


TRIGGERS = (
    *_triggers("message_log", "{}.message_id", MESSAGE_TERMS, "name, text"),
    *_triggers("summaries", "-{}.message_id", SUMMARY_TERMS, "text"),
)
STRAY = (
    f"DELETE FROM {TABLE} WHERE rowid IN (SELECT id FROM {TABLE}_docsize WHERE id > 0"
    " AND id NOT IN (SELECT message_id FROM message_log))",
    f"DELETE FROM {TABLE} WHERE rowid IN (SELECT id FROM {TABLE}_docsize WHERE id < 0"
    " AND -id NOT IN (SELECT message_id FROM summaries))",
)
MISSING = (
    f"INSERT INTO {TABLE} (rowid, terms) SELECT message_id, {MESSAGE_TERMS.format('message_log')} FROM message_log"
    f" WHERE message_id NOT IN (SELECT id FROM {TABLE}_docsize)",
    f"INSERT INTO {TABLE} (rowid, terms) SELECT -message_id, {SUMMARY_TERMS.format('summaries')} FROM summaries"
    f" WHERE -message_id NOT IN (SELECT id FROM {TABLE}_docsize)",
)

log = logging.getLogger(__name__)


class MemoryIndex:
    """The index of a connection that writes. `there`: SQLite has FTS5."""

    def __init__(self, db: aiosqlite.Connection, there: bool, clock: Callable[[], float]) -> None:
        self.there = there
        self._db, self._clock = db, clock
        self._removed = there  # perhaps by an earlier run, which did not come to merge
        self._merging = False
        self._next = float("-inf")

    @classmethod
    async def prepare(cls, db: aiosqlite.Connection, clock: Callable[[], float] = time.monotonic) -> MemoryIndex:
        """Create what is missing, and make it keep up. Raises sqlite3.Error."""
        there = bool(await _rows(db, f"SELECT 1 FROM pragma_module_list WHERE name = '{MODULE}'"))
        index = cls(db, there, clock)
        if there:
            await index._open()
        else:
            log.warning("this Python's SQLite has no FTS5: what was said is kept, but no agent can recall it")
            await _empty(db)
        return index

    async def _open(self) -> None:
        await self._db.create_function("index_terms", 1, index_terms, deterministic=True)
        await self._db.create_function("note_removal", 0, self._note_removal)
        if not await _rows(self._db, f"SELECT 1 FROM sqlite_schema WHERE name = '{TABLE}_data'"):
            await self._db.execute(CREATE)
        elif not await _rows(
            self._db, f"SELECT 1 FROM {TABLE}_data WHERE id NOT IN {KEPT} LIMIT 1"
        ):  # emptied, see there
            await self._db.execute(f"DROP TABLE {TABLE}")  # it is as new, or _empty emptied it
            await self._db.execute(CREATE)
        for statement in (*STRAY, *MISSING, *TRIGGERS):
            await self._db.execute(statement)

    def _note_removal(self) -> None:
        self._removed = True

    async def step(self) -> bool:
        """Merge some segments if words were removed; whether there was anything to do. Raises sqlite3.Error."""
        if not self._merging:
            if not self._removed or self._clock() < self._next:
                return False
            self._removed, self._merging = False, True
            await self._merge(-MERGED_PAGES)  # as one level: without it only segments of like size are merged
            return True
        before = self._db.total_changes
        await self._merge(MERGED_PAGES)
        self._merging = self._db.total_changes - before >= 2  # as FTS5's documentation says
        self._next = self._clock() + MERGE_EVERY
        return True

    async def merge_all(self) -> None:
        """At once. Raises sqlite3.Error."""
        if self.there:
            self._removed = self._merging = False
            await self._db.execute(f"INSERT INTO {TABLE} ({TABLE}) VALUES ('optimize')")

    async def _merge(self, pages: int) -> None:
        await self._db.execute(f"INSERT INTO {TABLE} ({TABLE}, rank) VALUES ('merge', ?)", (pages,))


async def _empty(db: aiosqlite.Connection) -> None:
    """Without FTS5 an index from before cannot follow its tables: empty it, and create it again when FTS5 is there."""
    found = await _rows(db, f"SELECT name FROM sqlite_schema WHERE name IN {SHADOWS}")
    for (name,) in map(tuple, found):
        where = f" WHERE id NOT IN {KEPT}" if name == SHADOWS[0] else ""
        await db.execute(f"DELETE FROM {name}{where}")


async def _rows(db: aiosqlite.Connection, question: str) -> list[aiosqlite.Row]:
    return list(await db.execute_fetchall(question))
