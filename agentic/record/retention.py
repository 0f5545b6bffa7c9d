"""Remove from the record what is older than its owner wants.

The words of calls and the messages of rooms, which have people's words, go after RECORD_PROMPTS_DAYS, logged messages
and their summaries after MESSAGE_LOG_DAYS, the rest after RECORD_DAYS. Consents stay.

In small steps, each a short transaction, between which the recorder writes what came; then the file gives free pages
back. `imported_costs` stays: it has no words and no people.
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
from agentic.record.personal_data import DELETIONS_KEPT, PEOPLE_KEPT, lost_profiles
from agentic.record.writing import transaction

DAY = 86400.0
EVERY = 3600.0  # seconds from one run to the next
ROWS = 200  # deleted in a step; those of words have many pages, which are all overwritten
PAGES = 500  # given back in a step
SPARE_PAGES = 250  # stay free, since the next rows need them

Step = Callable[[aiosqlite.Connection], Awaitable[bool]]

log = logging.getLogger(__name__)


def _oldest(table: str, key: str, age: str = "at", order: str = "") -> str:
    """Select the keys of some rows that are too old. A message's id says when it was sent, so it is an age too."""
    return f"SELECT {key} FROM {table} WHERE {age} < ?1 ORDER BY {order or age} LIMIT ?2"


def _delete(table: str, key: str, age: str = "at") -> str:
    return f"DELETE FROM {table} WHERE ({key}) IN ({_oldest(table, key, age)})"


_WORDS = _oldest("words", "id")
_TURNS = _oldest("turns", "agent, id", order="at, seq")
_POSTS = _oldest("posts", "message_id", "message_id")
_CONTESTS = _oldest("contests", "id", order="at, id")
_LOGGED = _oldest("message_log", "message_id", "message_id")
# Messages expire every hour, so a model's topics go only with the last message of a channel that they may be of.
_LAST_THERE = (
    f"gone.message_id IN ({_LOGGED}) AND NOT EXISTS (SELECT 1 FROM message_log kept"
    " WHERE kept.author_id = gone.author_id AND kept.channel_id = gone.channel_id"
    " AND kept.message_id BETWEEN ?1 AND known.upto)"
)
# The last statement of each says whether there are more.
WORDS = (f"DELETE FROM quotes WHERE words_id IN ({_WORDS})", f"DELETE FROM words WHERE id IN ({_WORDS})")
SEARCHES = (_delete("searches", "agent, turn_id, n"),)
TURNS = (
    f"DELETE FROM calls WHERE (agent, turn_id) IN ({_TURNS})",
    f"DELETE FROM tool_calls WHERE (agent, turn_id) IN ({_TURNS})",
    f"DELETE FROM turns WHERE (agent, id) IN ({_TURNS})",
)
POSTS = (
    f"DELETE FROM pictures WHERE message_id IN ({_POSTS})",
    f"DELETE FROM posts WHERE message_id IN ({_POSTS})",
)
REACTIONS = (_delete("reactions", "message_id, user_id, emoji", "message_id"),)
CONVERSATIONS = (_delete("conversations", "id", "started_at"),)
ACTIONS = (_delete("actions", "id"),)
REPLAYS = (_delete("replays", "id"),)
ROOM_MESSAGES = (_delete("room_messages", "message_id", "message_id"),)
ROOMS = (_delete("rooms", "thread_id", "changed_at"),)
CONTESTS = (
    f"DELETE FROM contenders WHERE contest_id IN ({_CONTESTS})",
    f"DELETE FROM contests WHERE id IN ({_CONTESTS})",
)
LOGGED = (lost_profiles(_LAST_THERE), f"DELETE FROM message_log WHERE message_id IN ({_LOGGED})")
SUMMARIES = (_delete("summaries", "message_id", "message_id"),)
# A profile ends with what it rests on: no message of the person is left, and nothing has changed for as long, or a
# model's topics went with the messages.
PROFILES = (
    "DELETE FROM profiles WHERE (user_id, by) IN (SELECT user_id, by FROM profiles WHERE (at < ?1 OR upto = 0)"
    " AND NOT EXISTS (SELECT 1 FROM message_log WHERE author_id = user_id) LIMIT ?2)",
)
UNASKED = (_delete("unasked", "message_id"),)
DELETED_CHANNELS = (_delete("deleted_channels", "channel_id"),)
DELETIONS = (_delete("deleted_messages", "message_id"),)
PEOPLE = (_delete("forgotten", "user_id"),)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long the record is kept, in days: None for no end, 0 `prompts` or `messages` (of the log) for none."""

    days: float | None
    prompts: float | None
    messages: float | None = None


class Retention:
    """Deletes what is too old, once in `EVERY` seconds. `clock` gives unix seconds."""

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
                    log.info("%s is deleted: what people wrote is not kept that long", copy)
        if not await self._left[0](db):
            del self._left[0]
        return bool(self._left)


def sweeps(policy: RetentionPolicy, now: float) -> list[Step]:
    """Return the steps that delete all that is too old now."""
    found: list[Step] = []

    def sweep(before: float | int, *kinds: tuple[str, ...]) -> None:
        found.extend(partial(delete_some, kind, before) for kind in kinds)

    sweep(now - DELETIONS_KEPT, DELETIONS)
    sweep(now - PEOPLE_KEPT, PEOPLE, DELETED_CHANNELS)  # private chats go with people
    if (prompts := _least(policy.prompts, policy.days)) is not None:
        before = now - prompts * DAY
        sweep(before, WORDS, SEARCHES)
        sweep(id_at(before), ROOM_MESSAGES)
    if (messages := _least(policy.messages, policy.days)) is not None:
        sweep(id_at(now - messages * DAY), LOGGED, SUMMARIES)
        sweep(0.0 if policy.days is None else now - policy.days * DAY, PROFILES)
    if policy.days is not None:
        before = now - policy.days * DAY
        sweep(before, TURNS, CONVERSATIONS, ACTIONS, REPLAYS, ROOMS, CONTESTS, UNASKED)
        sweep(id_at(before), POSTS, REACTIONS)
    return found


def _least(*days: float | None) -> float | None:
    return min((each for each in days if each is not None), default=None)


async def delete_some(statements: tuple[str, ...], before: float | int, db: aiosqlite.Connection) -> bool:
    """Delete some rows of a kind that lie before a time or an id, the oldest first; return whether there are more."""
    async with transaction(db):
        for statement in statements:
            deleted = await db.execute(statement, (before, ROWS))
    return deleted.rowcount >= ROWS


async def give_pages_back(db: aiosqlite.Connection) -> bool:
    """Give some free pages back to the file system; return whether there are more."""
    found = list(await db.execute_fetchall("PRAGMA freelist_count"))
    free = int(found[0][0]) - SPARE_PAGES
    if free > 0:
        await db.execute_fetchall(f"PRAGMA incremental_vacuum({min(free, PAGES)})")
    return free > PAGES
