"""Removes from the record what is older than its owner wants: the words of calls and the messages of rooms, which have
people's words, after RECORD_PROMPTS_DAYS, logged messages and their summaries after MESSAGE_LOG_DAYS, the rest after
RECORD_DAYS. Consents stay.

In small steps, each a short transaction, between which the recorder writes what came; then the file gives free pages
back. `imported_costs` stays: it has no words and no people.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiosqlite

from agentic.ids import id_at
from agentic.record.database import copies
from agentic.record.personal_data import DELETIONS_KEPT, PEOPLE_KEPT
from agentic.record.rows import lost_profiles
from agentic.record.writing import transaction

DAY = 86400.0
EVERY = 3600.0  # seconds from one run to the next
ROWS = 200  # deleted in a step; those of words have many pages, which are all overwritten
PAGES = 500  # given back in a step
SPARE_PAGES = 250  # stay free, since the next rows need them

_WORDS = "SELECT id FROM words WHERE at < ?1 ORDER BY at LIMIT ?2"
WORDS = (
    f"DELETE FROM quotes WHERE words_id IN ({_WORDS})",
    f"DELETE FROM words WHERE id IN ({_WORDS})",
)
SEARCHES = (
    "DELETE FROM searches WHERE (agent, turn_id, n) IN"
    " (SELECT agent, turn_id, n FROM searches WHERE at < ?1 ORDER BY at LIMIT ?2)",
)
_TURNS = "SELECT agent, id FROM turns WHERE at < ?1 ORDER BY at, seq LIMIT ?2"
TURNS = (
    f"DELETE FROM calls WHERE (agent, turn_id) IN ({_TURNS})",
    f"DELETE FROM tool_calls WHERE (agent, turn_id) IN ({_TURNS})",
    f"DELETE FROM turns WHERE (agent, id) IN ({_TURNS})",
)
# Before an id, not a time: a message's id says when it was sent.
_POSTS = "SELECT message_id FROM posts WHERE message_id < ?1 ORDER BY message_id LIMIT ?2"
POSTS = (
    f"DELETE FROM pictures WHERE message_id IN ({_POSTS})",
    f"DELETE FROM posts WHERE message_id IN ({_POSTS})",
)
REACTIONS = (
    "DELETE FROM reactions WHERE (message_id, user_id, emoji) IN"
    " (SELECT message_id, user_id, emoji FROM reactions WHERE message_id < ?1 LIMIT ?2)",
)
CONVERSATIONS = (
    "DELETE FROM conversations WHERE id IN"
    " (SELECT id FROM conversations WHERE started_at < ?1 ORDER BY started_at LIMIT ?2)",
)
ACTIONS = ("DELETE FROM actions WHERE id IN (SELECT id FROM actions WHERE at < ?1 ORDER BY at LIMIT ?2)",)
REPLAYS = ("DELETE FROM replays WHERE id IN (SELECT id FROM replays WHERE at < ?1 ORDER BY at LIMIT ?2)",)
ROOM_MESSAGES = (
    "DELETE FROM room_messages WHERE message_id IN"
    " (SELECT message_id FROM room_messages WHERE message_id < ?1 ORDER BY message_id LIMIT ?2)",
)
ROOMS = (
    "DELETE FROM rooms WHERE thread_id IN"
    " (SELECT thread_id FROM rooms WHERE changed_at < ?1 ORDER BY changed_at LIMIT ?2)",
)
_CONTESTS = "SELECT id FROM contests WHERE at < ?1 ORDER BY at, id LIMIT ?2"
CONTESTS = (
    f"DELETE FROM contenders WHERE contest_id IN ({_CONTESTS})",
    f"DELETE FROM contests WHERE id IN ({_CONTESTS})",
)
_LOGGED = "SELECT message_id FROM message_log WHERE message_id < ?1 ORDER BY message_id LIMIT ?2"
# Messages expire every hour, so a model's topics go only with the last message of a channel that they may be of.
_LAST_THERE = (
    f"gone.message_id IN ({_LOGGED}) AND NOT EXISTS (SELECT 1 FROM message_log kept"
    " WHERE kept.author_id = gone.author_id AND kept.channel_id = gone.channel_id"
    " AND kept.message_id BETWEEN ?1 AND known.upto)"
)
LOGGED = (
    lost_profiles(_LAST_THERE),
    f"DELETE FROM message_log WHERE message_id IN ({_LOGGED})",
)
SUMMARIES = (
    "DELETE FROM summaries WHERE message_id IN"
    " (SELECT message_id FROM summaries WHERE message_id < ?1 ORDER BY message_id LIMIT ?2)",
)
# A profile ends with what it rests on: no message of the person is left, and nothing has changed for as long, or a
# model's topics went with the messages.
PROFILES = (
    "DELETE FROM profiles WHERE (user_id, by) IN (SELECT user_id, by FROM profiles WHERE (at < ?1 OR upto = 0)"
    " AND NOT EXISTS (SELECT 1 FROM message_log WHERE author_id = user_id) LIMIT ?2)",
)
UNASKED = (
    "DELETE FROM unasked WHERE message_id IN (SELECT message_id FROM unasked WHERE at < ?1 ORDER BY at LIMIT ?2)",
)
DELETED_CHANNELS = (
    "DELETE FROM deleted_channels WHERE channel_id IN (SELECT channel_id FROM deleted_channels WHERE at < ?1 LIMIT ?2)",
)
DELETIONS = (
    "DELETE FROM deleted_messages WHERE message_id IN"
    " (SELECT message_id FROM deleted_messages WHERE at < ?1 ORDER BY at LIMIT ?2)",
)
PEOPLE = ("DELETE FROM forgotten WHERE user_id IN (SELECT user_id FROM forgotten WHERE at < ?1 LIMIT ?2)",)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ages:
    """How long the record is kept, in days: None for no end, 0 `prompts` or `messages` (of the log) for none."""

    days: float | None
    prompts: float | None
    messages: float | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """Statements that delete the rows of a kind that lie before a time or an id, the oldest first, some at a time."""

    statements: tuple[str, ...]
    before: float | int

    async def step(self, db: aiosqlite.Connection) -> bool:
        """Delete some rows; whether there are more."""
        async with transaction(db):
            for statement in self.statements:
                deleted = await db.execute(statement, (self.before, ROWS))
        return deleted.rowcount >= ROWS


class Vacuum:
    """Gives pages that are free back to the file system, some at a time."""

    async def step(self, db: aiosqlite.Connection) -> bool:
        found = list(await db.execute_fetchall("PRAGMA freelist_count"))
        free = int(found[0][0]) - SPARE_PAGES
        if free > 0:
            await db.execute_fetchall(f"PRAGMA incremental_vacuum({min(free, PAGES)})")
        return free > PAGES


class Retention:
    """Deletes what is too old, once in `EVERY` seconds. `clock` gives unix seconds."""

    def __init__(self, path: Path, ages: Ages, clock: Callable[[], float] = time.time) -> None:
        self._path, self._ages, self._clock = path, ages, clock
        self._next = float("-inf")
        self._left: list[Sweep | Vacuum] = []

    async def step(self, db: aiosqlite.Connection) -> bool:
        """Do one step if it is time to; whether another one should follow soon. Raises sqlite3.Error, OSError."""
        now = self._clock()
        if not self._left:
            if now < self._next:
                return False
            self._next = now + EVERY
            self._left = [*sweeps(self._ages, now), Vacuum()]
            self._remove_copies(now)
        if not await self._left[0].step(db):
            del self._left[0]
        return bool(self._left)

    def _remove_copies(self, now: float) -> None:
        """Copies that migrations made have words too."""
        days = _least(self._ages.prompts, self._ages.messages)
        if days is None:
            return
        for copy in copies(self._path):
            if copy.stat().st_mtime < now - max(1.0, days) * DAY:
                copy.unlink(missing_ok=True)
                log.info("%s is deleted: what people wrote is not kept that long", copy)


def sweeps(ages: Ages, now: float) -> list[Sweep]:
    """All that is too old now."""
    found = [Sweep(DELETIONS, now - DELETIONS_KEPT)]
    found += [Sweep(kind, now - PEOPLE_KEPT) for kind in (PEOPLE, DELETED_CHANNELS)]  # private chats go with people
    if (prompts := _least(ages.prompts, ages.days)) is not None:
        before = now - prompts * DAY
        found += [Sweep(WORDS, before), Sweep(SEARCHES, before), Sweep(ROOM_MESSAGES, id_at(before))]
    if (messages := _least(ages.messages, ages.days)) is not None:
        found += [Sweep(kind, id_at(now - messages * DAY)) for kind in (LOGGED, SUMMARIES)]
        found.append(Sweep(PROFILES, 0.0 if ages.days is None else now - ages.days * DAY))
    if ages.days is not None:
        before = now - ages.days * DAY
        found += [Sweep(kind, before) for kind in (TURNS, CONVERSATIONS, ACTIONS, REPLAYS, ROOMS, CONTESTS)]
        found.append(Sweep(UNASKED, before))
        found += [Sweep(kind, id_at(before)) for kind in (POSTS, REACTIONS)]
    return found


def _least(*days: float | None) -> float | None:
    return min((each for each in days if each is not None), default=None)
