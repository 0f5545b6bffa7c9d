"""Pages of lists: a page begins behind the last item of the one before, so page 500 is as quick as the first."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import aiosqlite

T = TypeVar("T")
Cursor = tuple[float, int | str]
"""The time of the last item of a page, and what orders items of the same time: `seq` or an id."""

MOST_A_PAGE = 500
BEFORE_ALL: Cursor = (math.inf, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items, the newest first. `next` is where the next page begins, None where there is none."""

    items: tuple[T, ...]
    next: Cursor | None


async def rows(db: aiosqlite.Connection, sql: str, *values: Any) -> Sequence[sqlite3.Row]:
    return list(await db.execute_fetchall(sql, values))


async def first(db: aiosqlite.Connection, sql: str, *values: Any) -> sqlite3.Row | None:
    found = await rows(db, sql, *values)
    return found[0] if found else None


def page_of(found: Iterable[T], count: int, cursor: Callable[[T], Cursor]) -> Page[T]:
    """Cut a page of `count` items; `found` has one more where the list goes on."""
    items = tuple(found)
    return Page(items[:count], cursor(items[count - 1]) if len(items) > count else None)
