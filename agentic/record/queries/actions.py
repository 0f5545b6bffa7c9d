"""The actions of owners and moderators, by the console or a command."""

from __future__ import annotations

import aiosqlite

from agentic.record.queries.pages import BEFORE_ALL, MOST_A_PAGE, Cursor, Page, page_of, rows
from agentic.wire.entries import ActionNote

NAMES = tuple(ActionNote.model_fields)


async def actions_page(db: aiosqlite.Connection, *, after: Cursor | None = None, count: int = 50) -> Page[ActionNote]:
    count = min(count, MOST_A_PAGE)
    at, last_id = after or BEFORE_ALL
    found = await rows(
        db,
        f"SELECT {', '.join(NAMES)} FROM actions WHERE (at, id) < (?, ?) ORDER BY at DESC, id DESC LIMIT ?",
        at,
        str(last_id),
        count + 1,
    )
    notes = (ActionNote(**dict(zip(NAMES, row, strict=True))) for row in found)
    return page_of(notes, count, lambda note: (note.at, note.id))
