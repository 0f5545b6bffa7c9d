"""Memories of people: their profiles, whether they want unasked messages, what was sent to them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentic.record.memories_rows import MODEL, PERSON
from agentic.wire.topics import MOST_TOPICS


@dataclass(frozen=True, slots=True)
class Profile:
    """A person's topics. `by`: model, person; the latter where any of it is the person's own. `at`: when it changed."""

    user_id: int
    name: str
    topics: tuple[str, ...]
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Kept:
    """Counts of what is kept about a person: their messages in the log, summaries with their words, topics of their
    profile. `since`: when the oldest of these messages was sent, unix seconds, None without one."""

    messages: int = 0
    summaries: int = 0
    topics: int = 0
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Unasked:
    """A message that an agent posted unasked, and why."""

    message_id: int
    agent: str
    task: str
    channel_id: int
    person_id: int | None
    cause: str
    at: float


@dataclass(frozen=True, slots=True)
class _Topics:
    name: str
    topics: tuple[str, ...]
    at: float


def profile(db: sqlite3.Connection, user_id: int) -> Profile | None:
    """The person's own list, then what a model added to it from newer messages. None where it was removed, or is
    empty."""
    lists = _lists(db, user_id)
    topics = _joined(each.topics for each in lists.values())
    if not topics:
        return None
    name = next((each.name for each in reversed(lists.values()) if each.name), "")
    own = PERSON in lists and bool(lists[PERSON].topics)
    return Profile(user_id, name, topics, PERSON if own else MODEL, max(each.at for each in lists.values()))


def topics_for(db: sqlite3.Connection, user_id: int, channel_id: int) -> tuple[str, ...]:
    """The topics of a profile that may be used in a channel. Where others read, a model's count only as far as they are
    of messages that others could read; a person's own list is theirs to show."""
    lists = _lists(db, user_id)
    if MODEL in lists and is_shared(db, channel_id, user_id) and not is_open(db, user_id):
        del lists[MODEL]
    return _joined(each.topics for each in lists.values())


def origins_of(db: sqlite3.Connection, user_id: int, channel_id: int) -> tuple[int, ...]:
    """The channels where the person may have spoken of a model's topics, () where nobody else reads the channel. None
    is missing: a model's topics go before the last message of such a channel leaves the log (`lost_profiles`)."""
    if not is_shared(db, channel_id, user_id):
        return ()
    found = db.execute(
        f"SELECT DISTINCT channel_id FROM message_log WHERE author_id = ?1 AND message_id <="
        f" (SELECT upto FROM profiles WHERE user_id = ?1 AND by = '{MODEL}') ORDER BY channel_id",
        (user_id,),
    ).fetchall()
    return tuple(row[0] for row in found if is_shared(db, row[0], user_id))


def is_open(db: sqlite3.Connection, user_id: int) -> bool:
    """Whether a model's topics of a person are of messages that others could read: candidates.py does not mix them."""
    row = db.execute(
        "SELECT channel_id FROM message_log WHERE message_id ="
        f" (SELECT upto FROM profiles WHERE user_id = ? AND by = '{MODEL}')",
        (user_id,),
    ).fetchone()
    return row is not None and is_shared(db, row["channel_id"], user_id)


def is_shared(db: sqlite3.Connection, channel_id: int, user_id: int) -> bool:
    """Whether others read there too, as far as the log says it: a channel of a guild, a group, or others wrote there
    lately."""
    newest = "FROM message_log WHERE channel_id = ? ORDER BY message_id DESC LIMIT"
    row = db.execute(f"SELECT guild_id {newest} 1", (channel_id,)).fetchone()
    if row is None or row["guild_id"] is not None:
        return True
    others = f"SELECT 1 FROM (SELECT author_id {newest} 300) WHERE author_id <> ? LIMIT 1"
    return db.execute(others, (channel_id, user_id)).fetchone() is not None


def _lists(db: sqlite3.Connection, user_id: int) -> dict[str, _Topics]:
    """The person's own list first."""
    found = db.execute(
        "SELECT by, name, topics, at FROM profiles WHERE user_id = ? ORDER BY by = ? DESC", (user_id, PERSON)
    )
    return {row["by"]: _Topics(row["name"], tuple(json.loads(row["topics"])), row["at"]) for row in found}


def _joined(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The topics in order, each once, however it is written."""
    topics: dict[str, str] = {}
    for topic in (topic for each in lists for topic in each):
        topics.setdefault(topic.casefold().strip(), topic)
    return tuple(topics.values())[:MOST_TOPICS]


def consent(db: sqlite3.Connection, user_id: int) -> bool | None:
    row = db.execute("SELECT unasked FROM consents WHERE user_id = ?", (user_id,)).fetchone()
    return bool(row[0]) if row else None


def kept_about(db: sqlite3.Connection, user_id: int) -> Kept:
    messages, since = db.execute("SELECT count(*), min(at) FROM message_log WHERE author_id = ?", (user_id,)).fetchone()
    summaries = db.execute("SELECT count(*) FROM summary_people WHERE user_id = ?", (user_id,)).fetchone()[0]
    shown = profile(db, user_id)
    return Kept(messages, summaries, len(shown.topics) if shown else 0, since)


def unasked(db: sqlite3.Connection, message_id: int) -> Unasked | None:
    row = db.execute(
        "SELECT message_id, agent, task, channel_id, person_id, cause, at FROM unasked WHERE message_id = ?",
        (message_id,),
    ).fetchone()
    return Unasked(*row) if row else None


def posted_by(db: sqlite3.Connection, message_id: int) -> str | None:
    row = db.execute("SELECT agent FROM posts WHERE message_id = ?", (message_id,)).fetchone()
    return row[0] if row else None
