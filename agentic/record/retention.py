"""Delete data from the record when they are older than the owner's settings or the times in STORED allow.

Each step is a short transaction, and the recorder writes new entries between steps. At the end, free pages are returned
to the file system.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiosqlite

from agentic.ids import id_at
from agentic.record.database import copies
from agentic.record.forgetting import apply
from agentic.record.personal_data import DAY, RECORD, StoredData, lost_profiles
from agentic.record.writing import transaction

EVERY = 3600.0  # seconds from one run to the next
ROWS = 200  # deleted in a step; rows of prompts have many pages, which are all overwritten
PAGES = 500  # returned in a step
SPARE_PAGES = 250  # stay free for the next rows

Step = Callable[[aiosqlite.Connection], Awaitable[bool]]

log = logging.getLogger(__name__)


# Messages expire every hour. A model's topics are deleted only with the last message in a channel they may come from.
_LAST_THERE = lost_profiles(
    "gone.message_id IN (SELECT message_id FROM message_log WHERE message_id < :before ORDER BY message_id LIMIT :most)"
    " AND NOT EXISTS (SELECT 1 FROM message_log kept"
    " WHERE kept.author_id = gone.author_id AND kept.channel_id = gone.channel_id"
    " AND kept.message_id BETWEEN :before AND known.upto)"
)
# Models' profiles, which are emptied.
_PROFILES = next(row for row in RECORD if row.table == "profiles" and row.theirs)
# A profile is deleted if the person has no messages left, and it hasn't changed for as long as the record is kept, or
# a model's topics were deleted with the messages.
_BASELESS = (
    "(user_id, by) IN (SELECT user_id, by FROM profiles WHERE (at < :before OR upto = 0)"
    " AND NOT EXISTS (SELECT 1 FROM message_log WHERE author_id = user_id) LIMIT :most)"
)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How many days data are kept: None is forever, 0 for `prompts` or logged `messages` means never recorded."""

    days: float | None
    prompts: float | None
    messages: float | None = None

    @property
    def unwanted(self) -> frozenset[str]:
        """The values of StoredData.expires whose data are never recorded."""
        return frozenset(name for name in ("prompts", "messages") if getattr(self, name) == 0)

    def seconds(self, expires: float | str) -> float | None:
        """Return how long data with this StoredData.expires are kept; None is forever."""
        if isinstance(expires, float):
            return expires
        if expires not in ("record", "prompts", "messages"):
            return None
        own = {"prompts": self.prompts, "messages": self.messages}.get(expires)
        days = _least(own, self.days)
        return None if days is None else days * DAY


class Retention:
    """Deletes old data every `EVERY` seconds. `clock` gives unix seconds."""

    def __init__(self, path: Path, policy: RetentionPolicy, clock: Callable[[], float] = time.time) -> None:
        self._path, self._policy, self._clock = path, policy, clock
        self._next = float("-inf")
        self._left: list[Step] = []

    async def step(self, db: aiosqlite.Connection) -> bool:
        """Do a step if it's time; return whether the next step should follow soon. Raises sqlite3.Error, OSError."""
        now = self._clock()
        if not self._left:
            if now < self._next:
                return False
            self._next = now + EVERY
            self._left = [*sweeps(self._policy, now), give_pages_back]
            days = _least(self._policy.prompts, self._policy.messages)
            for copy in copies(self._path) if days is not None else ():  # copies by migrations contain the same words
                if copy.stat().st_mtime < now - max(1.0, days or 0) * DAY:
                    copy.unlink(missing_ok=True)
                    log.info("deleted %s: the copy is older than the limit for messages and prompts", copy)
        if not await self._left[0](db):
            del self._left[0]
        return bool(self._left)


def sweeps(policy: RetentionPolicy, now: float) -> list[Step]:
    """Return steps that delete all data that are too old now."""
    found: list[Step] = []
    for row in RECORD:
        seconds = policy.seconds(row.expires)
        if row.key and seconds is not None:
            oldest = f"SELECT {row.key} FROM {row.table} WHERE {row.age} < :before ORDER BY {row.age} LIMIT :most"
            # A message's id tells when it was sent.
            before = id_at(now - seconds) if row.age == "message_id" else now - seconds
            found.append(partial(delete_some, row, f"({row.key}) IN ({oldest})", before))
    if policy.seconds("messages") is not None:
        before = 0.0 if policy.days is None else now - policy.days * DAY
        found.append(partial(delete_some, _PROFILES, _BASELESS, before))
    return found


def _least(*days: float | None) -> float | None:
    return min((each for each in days if each is not None), default=None)


async def delete_some(row: StoredData, condition: str, before: float | int, db: aiosqlite.Connection) -> bool:
    """Delete the oldest rows before a time or an id, up to ROWS; return whether there may be more."""
    values = {"before": before, "most": ROWS}
    async with transaction(db):
        if row.table == "message_log":
            await apply(db, _PROFILES, _PROFILES.on_forget, _LAST_THERE, values)
        return await apply(db, row, "delete", condition, values) >= ROWS


async def give_pages_back(db: aiosqlite.Connection) -> bool:
    """Return some free pages to the file system; return whether there are more."""
    found = list(await db.execute_fetchall("PRAGMA freelist_count"))
    free = int(found[0][0]) - SPARE_PAGES
    if free > 0:
        await db.execute_fetchall(f"PRAGMA incremental_vacuum({min(free, PAGES)})")
    return free > PAGES
