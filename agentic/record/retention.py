"""Remove from the record what is older than its owner wants, and what STORED gives a time (personal_data.py).

In small steps, each a short transaction, between which the recorder writes what came; then the file gives free pages
back.
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
ROWS = 200  # deleted in a step; those of words have many pages, which are all overwritten
PAGES = 500  # given back in a step
SPARE_PAGES = 250  # stay free, since the next rows need them

Step = Callable[[aiosqlite.Connection], Awaitable[bool]]

log = logging.getLogger(__name__)


# Messages expire every hour, so a model's topics go only with the last message of a channel that they may be of.
_LAST_THERE = lost_profiles(
    "gone.message_id IN (SELECT message_id FROM message_log WHERE message_id < :before ORDER BY message_id LIMIT :most)"
    " AND NOT EXISTS (SELECT 1 FROM message_log kept"
    " WHERE kept.author_id = gone.author_id AND kept.channel_id = gone.channel_id"
    " AND kept.message_id BETWEEN :before AND known.upto)"
)
# Of models, which are emptied.
_PROFILES = next(row for row in RECORD if row.table == "profiles" and row.theirs)
# A profile ends with what it rests on: no message of the person is left, and nothing has changed for as long, or a
# model's topics went with the messages.
_BASELESS = (
    "(user_id, by) IN (SELECT user_id, by FROM profiles WHERE (at < :before OR upto = 0)"
    " AND NOT EXISTS (SELECT 1 FROM message_log WHERE author_id = user_id) LIMIT :most)"
)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How many days the record is kept. None: forever; 0 for `prompts` or `messages` (of the log): never recorded."""

    days: float | None
    prompts: float | None
    messages: float | None = None

    @property
    def unwanted(self) -> frozenset[str]:
        """The values of StoredData.expires whose data is never recorded."""
        return frozenset(name for name in ("prompts", "messages") if getattr(self, name) == 0)

    def seconds(self, expires: float | str) -> float | None:
        """Return how long the data is kept (None: forever)."""
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
        """Do one step if it is time to; return whether another should follow soon. Raises sqlite3.Error, OSError."""
        now = self._clock()
        if not self._left:
            if now < self._next:
                return False
            self._next = now + EVERY
            self._left = [*sweeps(self._policy, now), give_pages_back]
            days = _least(self._policy.prompts, self._policy.messages)
            for copy in copies(self._path) if days is not None else ():  # migrations made them; they have words too
                if copy.stat().st_mtime < now - max(1.0, days or 0) * DAY:
                    copy.unlink(missing_ok=True)
                    log.info("deleted %s: the copy was older than messages and prompts may be kept", copy)
        if not await self._left[0](db):
            del self._left[0]
        return bool(self._left)


def sweeps(policy: RetentionPolicy, now: float) -> list[Step]:
    """Return the steps that delete all data that is too old now."""
    found: list[Step] = []
    for row in RECORD:
        seconds = policy.seconds(row.expires)
        if row.key and seconds is not None:
            oldest = f"SELECT {row.key} FROM {row.table} WHERE {row.age} < :before ORDER BY {row.age} LIMIT :most"
            # A message's id says when it was sent, so it is an age too.
            before = id_at(now - seconds) if row.age == "message_id" else now - seconds
            found.append(partial(delete_some, row, f"({row.key}) IN ({oldest})", before))
    if policy.seconds("messages") is not None:
        before = 0.0 if policy.days is None else now - policy.days * DAY
        found.append(partial(delete_some, _PROFILES, _BASELESS, before))
    return found


def _least(*days: float | None) -> float | None:
    return min((each for each in days if each is not None), default=None)


async def delete_some(row: StoredData, condition: str, before: float | int, db: aiosqlite.Connection) -> bool:
    """Delete some rows that lie before a time or an id, the oldest first; return whether there are more."""
    values = {"before": before, "most": ROWS}
    async with transaction(db):
        if row.table == "message_log":
            await apply(db, _PROFILES, _PROFILES.on_forget, _LAST_THERE, values)
        return await apply(db, row, "delete", condition, values) >= ROWS


async def give_pages_back(db: aiosqlite.Connection) -> bool:
    """Give some free pages back to the file system; return whether there are more."""
    found = list(await db.execute_fetchall("PRAGMA freelist_count"))
    free = int(found[0][0]) - SPARE_PAGES
    if free > 0:
        await db.execute_fetchall(f"PRAGMA incremental_vacuum({min(free, PAGES)})")
    return free > PAGES
