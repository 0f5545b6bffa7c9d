"""The state of the record's file: what it holds, since when, and what was lost on the way to it."""

from __future__ import annotations

from dataclasses import dataclass

import aiosqlite

from agentic.record.queries.pages import first, rows

COUNTED = (
    "conversations",
    "rooms",
    "room_messages",
    "contests",
    "turns",
    "calls",
    "words",
    "posts",
    "pictures",
    "reactions",
    "actions",
    "message_log",
    "summaries",
    "profiles",
    "consents",
    "unasked",
)


@dataclass(frozen=True, slots=True)
class FileState:
    """`bytes` of the file without its write-ahead log, of which `free_bytes` will be used again. `oldest` and `newest`:
    when the first and the last recorded turn ended, None without turns. `counts`: rows by table. `dropped`: stream →
    entries that a bound removed before they were read."""

    bytes: int
    free_bytes: int
    oldest: float | None
    newest: float | None
    counts: dict[str, int]
    dropped: dict[str, int]


async def file_state(db: aiosqlite.Connection) -> FileState:
    pages = [(await rows(db, f"PRAGMA {name}"))[0][0] for name in ("page_count", "freelist_count", "page_size")]
    oldest = await first(db, "SELECT at FROM turns ORDER BY at LIMIT 1")
    newest = await first(db, "SELECT at FROM turns ORDER BY at DESC LIMIT 1")
    return FileState(
        pages[0] * pages[2],
        pages[1] * pages[2],
        oldest[0] if oldest else None,
        newest[0] if newest else None,
        {table: (await rows(db, f"SELECT COUNT(*) FROM {table}"))[0][0] for table in COUNTED},
        dict(await rows(db, "SELECT stream, dropped FROM positions")),  # type: ignore[arg-type]
    )
