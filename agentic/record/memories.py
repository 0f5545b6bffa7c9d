"""Memories for a turn: messages, profiles, consents.

Logged messages as they are read: rows to values, reply chains, and the lines of a model's material.

Memories of people: their profiles, whether they want unasked messages, what was sent to them.

Reads the record for a turn, which it must neither fail nor hold up: in a thread of its own, for seconds at most.

Memories for a turn: what was said in a reply chain, what fits to a question, what is known of a person.

Everything is read of the record's file, and bounded in time; nothing is written here.

Reading of memory, as turns and commands do it: no method raises, and none holds a turn up for long.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from agentic.ids import LARGEST_ID, id_at
from agentic.record import recall
from agentic.record.database import RecordError, connect_blocking, identity
from agentic.record.embeddings import Meaning, near
from agentic.record.recall import Memory as Memory
from agentic.record.recall import Reach
from agentic.record.rows import MODEL, PERSON
from agentic.state.idle import MOST_MATERIAL
from agentic.wire.entries import MOST_TOPICS, LoggedMessage

log = logging.getLogger(__name__)


COLUMNS = tuple(LoggedMessage.model_fields)
SELECTED = ", ".join(COLUMNS)
MOST_IN_CHAIN = 50  # as the option `chain_messages`
MOST_NAME = 60  # characters
MOST_LINE = 2_000

# Zero width, direction and tag characters, which nobody sees, and all control characters.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")

# From a message to what it answers, and so on, in the same channel; a circle of replies ends with the count.
_PARENTS = f"""
WITH RECURSIVE chain (id, step) AS (
    SELECT ?1, 0
    UNION ALL
    SELECT said.reply_to, step + 1 FROM chain JOIN message_log said ON said.message_id = chain.id
    WHERE said.reply_to IS NOT NULL AND said.channel_id = ?2 AND step < ?3
)
SELECT {SELECTED} FROM chain JOIN message_log ON message_id = chain.id AND channel_id = ?2 ORDER BY step
"""
MOST_CHANNELS = 40  # of an agent, those with the newest messages

# Each channel by one step in an index, however many messages it has.
_CHANNELS = """
WITH RECURSIVE each (id) AS (
    SELECT min(channel_id) FROM message_log WHERE agent = ?1
    UNION ALL SELECT (SELECT min(channel_id) FROM message_log WHERE agent = ?1 AND channel_id > each.id)
    FROM each WHERE each.id IS NOT NULL
)
SELECT id, (SELECT max(message_id) FROM message_log WHERE channel_id = each.id) AS newest
FROM each WHERE id IS NOT NULL ORDER BY newest DESC LIMIT ?2
"""


@dataclass(frozen=True, slots=True)
class Chain:
    """Messages before one in its reply chain, the oldest first, all of the channel `channel_id`. `summary` is of what
    lies before them, up to and with the message `upto`, made of the messages `sources`; "", 0 and () where there is
    none. `people` wrote any of it."""

    summary: str = ""
    upto: int = 0
    messages: tuple[LoggedMessage, ...] = ()
    people: frozenset[int] = frozenset()
    channel_id: int = 0
    sources: tuple[int, ...] = ()


def message_of(row: sqlite3.Row) -> LoggedMessage:
    return LoggedMessage(**dict(zip(COLUMNS, row, strict=True)))


def message(db: sqlite3.Connection, message_id: int) -> LoggedMessage | None:
    row = db.execute(f"SELECT {SELECTED} FROM message_log WHERE message_id = ?", (message_id,)).fetchone()
    return message_of(row) if row else None


def upwards(db: sqlite3.Connection, newest: LoggedMessage, most: int) -> list[LoggedMessage]:
    """A message and those that it answers, the newest first, in its channel."""
    found = db.execute(_PARENTS, (newest.message_id, newest.channel_id, most - 1))
    return list({said.message_id: said for said in map(message_of, found)}.values())


def channels_of(db: sqlite3.Connection, agent: str) -> list[int]:
    """The channels where an agent takes part, since the log has a message of its own; the newest first."""
    return [row["id"] for row in db.execute(_CHANNELS, (agent, MOST_CHANNELS))]


def newest_of(db: sqlite3.Connection, agent: str, *, profiles: bool = False) -> int:
    """The newest message there; 0 for none. `profiles`: or where a profile changed after it, the id of that moment."""
    row = db.execute(_CHANNELS, (agent, 1)).fetchone()
    changed = db.execute("SELECT max(at) FROM profiles").fetchone()[0] if row and profiles else None
    return max(int(row["newest"]), id_at(changed or 0.0)) if row else 0


def chain(db: sqlite3.Connection, message_id: int, most: int, reply_to: int | None = None) -> Chain:
    """The chain before a message. `reply_to`: what it answers, where the log may not have the message itself yet."""
    known = message(db, message_id)
    parent = message(db, reply_to or (known.reply_to if known else None) or 0)
    if parent is None or most <= 0 or (known and known.channel_id != parent.channel_id):
        return Chain()
    parents = upwards(db, parent, min(most, MOST_IN_CHAIN))
    summaries = summaries_of(db, [said.message_id for said in parents])
    for place, said in enumerate(parents):
        if summary := summaries.get(said.message_id):
            return _summarised(db, parents[:place], summary, said)
    return Chain(messages=tuple(reversed(parents)), people=authors_of(parents), channel_id=parent.channel_id)


def summaries_of(db: sqlite3.Connection, message_ids: Sequence[int]) -> dict[int, str]:
    """Message → the summary up to it."""
    these = "(SELECT value FROM json_each(?))"
    found = db.execute(
        f"SELECT message_id, text FROM summaries WHERE message_id IN {these}", (json.dumps(message_ids),)
    )
    return dict(map(tuple, found))


def authors_of(messages: Iterable[LoggedMessage]) -> frozenset[int]:
    """People, and strangers."""
    return frozenset(said.author_id for said in messages if said.author_id is not None)


def _summarised(
    db: sqlite3.Connection, newest_first: Sequence[LoggedMessage], summary: str, upto: LoggedMessage
) -> Chain:
    people = _column(db, "SELECT user_id FROM summary_people WHERE summary_id = ?", upto.message_id)
    return Chain(
        summary,
        upto.message_id,
        tuple(reversed(newest_first)),
        frozenset(people) | authors_of(newest_first),
        upto.channel_id,
        _column(db, "SELECT message_id FROM summary_sources WHERE summary_id = ? ORDER BY 1", upto.message_id),
    )


def _column(db: sqlite3.Connection, question: str, summary_id: int) -> tuple[int, ...]:
    return tuple(row[0] for row in db.execute(question, (summary_id,)))


def lines(messages: Iterable[LoggedMessage], first: str = "") -> tuple[str, int]:
    """ "Name: text", a line a message, of MOST_MATERIAL characters at most; and how many messages that are.

    `messages` are the newest first, the lines the oldest first. `first` is a line before them that is always there.
    """
    kept: list[str] = []
    left = MOST_MATERIAL - len(first)
    for said in messages:
        line = f"{shown_name(said)}: {one_line(said.text)[:MOST_LINE]}"
        if len(line) + 1 > left:
            break
        left -= len(line) + 1
        kept.append(line)
    return "\n".join(filter(None, (first, *reversed(kept)))), len(kept)


def shown_name(said: LoggedMessage) -> str:
    """A name that cannot be taken for the end of a name: on one line, without a colon."""
    name = one_line((said.name or said.agent or "").replace(":", " "))
    return name[:MOST_NAME].rstrip() or "someone"


def one_line(text: str) -> str:
    return " ".join(_UNSEEN.sub(" ", text).split())


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


QUESTION_SECONDS = 2.0  # then a question has found nothing
STEPS = 20_000  # of SQLite's machine between two looks at the clock

T = TypeVar("T")


class MemoryReader:
    """A connection that is opened when it is first needed, and again where the file was replaced.

    A file that is not there yet, is on another machine, or has no tables yet has nothing; so has one that cannot be
    read, which is logged once until it can be.
    """

    def __init__(self, path: Path, *, seconds: float = QUESTION_SECONDS) -> None:
        self._path, self._seconds = path, seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memory")
        self._open: tuple[sqlite3.Connection, int | None] | None = None  # used in that thread alone
        self._until = 0.0
        self._problem = ""

    async def ask(self, question: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """The answer to a question, `nothing` where the record cannot be read. Runs `question` in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(self._ask, question, nothing))

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _ask(self, question: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        if not self._path.exists():
            self._close()
            return nothing
        try:
            connection = self._connected()
            self._until = time.monotonic() + self._seconds
            found = question(connection)
        except (sqlite3.Error, OSError, RecordError) as error:
            if "no such table" not in str(error):  # else the recorder has just created the file, and makes its tables
                self._report(str(error))
            self._close()
            return nothing
        self._problem = ""
        return found

    def _connected(self) -> sqlite3.Connection:
        file = identity(self._path)
        if self._open and self._open[1] != file:
            self._close()
        if self._open is None:
            connection = connect_blocking(self._path)
            connection.set_progress_handler(lambda: int(time.monotonic() > self._until), STEPS)
            self._open = connection, file
        return self._open[0]

    def _close(self) -> None:
        if self._open:
            self._open[0].close()
            self._open = None

    def _report(self, problem: str) -> None:
        level = logging.DEBUG if problem == self._problem else logging.WARNING
        log.log(level, "%s cannot be read for memories (%s); nothing is remembered meanwhile", self._path, problem)
        self._problem = problem


MEANING_SECONDS = 5.0  # for the vector of a question


async def everywhere(channel_id: int) -> tuple[int, int]:
    del channel_id
    return 0, LARGEST_ID


class ThreadMemory:
    """Opens the file when it is first asked. A file that is not there has nothing; no method raises. `meaning` makes
    the vectors of questions, None without an embedding model."""

    def __init__(self, path: Path, meaning: Meaning | None = None) -> None:
        self._path, self._reader, self._meaning = path, MemoryReader(path), meaning

    @property
    def is_here(self) -> bool:
        """Whether there is a record on this machine by now."""
        return self._path.exists()

    async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
        """The messages before this one in its reply chain, `most` at most; a summary stands for what lies before them.

        The recorder is some seconds behind, so the log may lack a message that has just come: `reply_to` says what it
        answers.
        """
        return await self._reader.ask(lambda db: chain(db, message_id, most, reply_to), Chain())

    async def recall(
        self,
        query: str,
        may_see: Callable[[int], bool],
        most: int,
        between: Callable[[int], Awaitable[tuple[int, int]]] = everywhere,
        ignored: Collection[int] = (),
    ) -> tuple[Memory, ...]:
        """The messages and summaries that fit best, of channels that pass `may_see`; none if nothing fits well. Of each
        channel only those that lie `between` two messages, and none with words of people who are `ignored`. With an
        embedding model, memories that mean the same in other words come after those with the same words."""
        channels: tuple[int, ...] = await self._reader.ask(recall.channels, ())
        seen = tuple(channel for channel in channels if may_see(channel))
        reach = Reach({channel: await between(channel) for channel in seen}, tuple(ignored))
        fitting: tuple[Memory, ...] = await self._reader.ask(lambda db: recall.recall(db, query, reach, most), ())
        if len(fitting) >= most or not seen:
            return fitting
        further = await self._alike(query, reach, most)
        known = {(memory.kind, memory.message_id) for memory in fitting}
        new = (memory for memory in further if (memory.kind, memory.message_id) not in known)
        return (*fitting, *new)[:most]

    async def _alike(self, query: str, reach: Reach, most: int) -> tuple[Memory, ...]:
        """Memories of a like meaning, the nearest first; none without an embedding model, or where it does not answer
        in time."""
        meaning, wanted = self._meaning, None
        if meaning is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(MEANING_SECONDS):
                    wanted = await meaning.vectors([query])
        if meaning is None or not wanted:
            return ()
        vector, model = wanted[0], meaning.model
        return await self._reader.ask(lambda db: recall.by_ids(db, near(db, vector, model, reach, most)), ())

    async def profile(self, user_id: int) -> Profile | None:
        """None where the person has none, or removed it."""
        return await self._reader.ask(lambda db: profile(db, user_id), None)

    async def consent(self, user_id: int) -> bool | None:
        """Whether the person wants messages that nobody asked for; None where they did not say."""
        return await self._reader.ask(lambda db: consent(db, user_id), None)

    async def kept_about(self, user_id: int) -> Kept:
        return await self._reader.ask(lambda db: kept_about(db, user_id), Kept())

    async def unasked(self, message_id: int) -> Unasked | None:
        """Why an agent posted it unasked; None where it did not."""
        return await self._reader.ask(lambda db: unasked(db, message_id), None)

    async def posted_by(self, message_id: int) -> str | None:
        """The agent that posted this message; None if the record has no such post."""
        return await self._reader.ask(lambda db: posted_by(db, message_id), None)

    async def aclose(self) -> None:
        await self._reader.aclose()


class ReadingMemoryReader(Protocol):
    """agentic.record.memories.ThreadMemory has the record of this machine. `is_here`: there is one by now."""

    @property
    def is_here(self) -> bool: ...
    async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain: ...
    async def recall(
        self,
        query: str,
        may_see: Callable[[int], bool],
        most: int,
        between: Callable[[int], Awaitable[tuple[int, int]]],
        ignored: Collection[int],
    ) -> tuple[Memory, ...]: ...
    async def profile(self, user_id: int) -> Profile | None: ...
    async def consent(self, user_id: int) -> bool | None: ...
    async def kept_about(self, user_id: int) -> Kept: ...
    async def unasked(self, message_id: int) -> Unasked | None: ...
    async def posted_by(self, message_id: int) -> str | None: ...


class NoMemory:
    """The memory of an installation that records nothing."""

    is_here = False

    async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
        del message_id, most, reply_to
        return Chain()

    async def recall(
        self,
        query: str,
        may_see: Callable[[int], bool],
        most: int,
        between: Callable[[int], Awaitable[tuple[int, int]]],
        ignored: Collection[int],
    ) -> tuple[Memory, ...]:
        del query, may_see, most, between, ignored
        return ()

    async def profile(self, user_id: int) -> Profile | None:
        del user_id
        return None

    async def consent(self, user_id: int) -> bool | None:
        del user_id
        return None

    async def kept_about(self, user_id: int) -> Kept:
        del user_id
        return Kept()

    async def unasked(self, message_id: int) -> Unasked | None:
        del message_id
        return None

    async def posted_by(self, message_id: int) -> str | None:
        del message_id
        return None
