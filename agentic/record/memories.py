"""Read memories for a turn: reply chains, messages that match a question, profiles of people, consents.

A separate thread reads the record's file, with a time limit, so no method raises or delays a turn for long. This module
writes nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agentic.ids import MAX_ID, id_at
from agentic.record import recall
from agentic.record.database import RecordError, connect_blocking, identity
from agentic.record.embeddings import Embeddings, find_near
from agentic.record.forgetting import count_person, export_person
from agentic.record.personal_data import MODEL, PERSON
from agentic.record.queries.posts import CONCLUSION_COLUMNS, conclusion_in
from agentic.record.recall import Reach
from agentic.state.idle import MAX_MATERIAL
from agentic.text import newest_that_fit
from agentic.tools.own_tools import Memory
from agentic.wire.entries import MAX_TOPICS, LoggedMessage, RoomConclusion, UnaskedNote

QUESTION_SECONDS = 2.0  # a query that takes longer finds nothing
EXPORT_SECONDS = 60.0
STEPS = 20_000  # instructions of SQLite's virtual machine between two looks at the clock
MEANING_SECONDS = 5.0  # for the vector of a question
MAX_IN_CHAIN = 50  # the maximum of the option `chain_messages`
MAX_NAME = 60  # characters
MAX_LINE = 2_000
MAX_ROOMS = 200  # the newest, among which a subject is looked for
MAX_CHANNELS = 40  # of an agent, those with the newest messages
SELECTED = ", ".join(LoggedMessage.model_fields)

# Invisible characters (zero width and text direction), and all control characters.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")

# From a message to the message that it answers, and so on, in the same channel. The count ends a circle of replies.
_PARENTS = f"""
WITH RECURSIVE chain (id, step) AS (
    SELECT ?1, 0
    UNION ALL
    SELECT said.reply_to, step + 1 FROM chain JOIN message_log said ON said.message_id = chain.id
    WHERE said.reply_to IS NOT NULL AND said.channel_id = ?2 AND step < ?3
)
SELECT {SELECTED} FROM chain JOIN message_log ON message_id = chain.id AND channel_id = ?2 ORDER BY step
"""
_CHANNELS = f"""
{recall.each_of("channel_id", "message_log", "agent = ?1 AND")}
SELECT id, (SELECT max(message_id) FROM message_log WHERE channel_id = each.id) AS newest
FROM each WHERE id IS NOT NULL ORDER BY newest DESC LIMIT ?2
"""

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chain:
    """The messages before a message in its reply chain, oldest first, all in the channel `channel_id`.

    `summary` covers the messages before them, through the message `upto`. It was made of the messages `sources`.
    Without a summary these are "", 0, and (). `people` wrote the messages and those in the summary.
    """

    summary: str = ""
    upto: int = 0
    messages: tuple[LoggedMessage, ...] = ()
    people: frozenset[int] = frozenset()
    channel_id: int = 0
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """A person's topics. `by`: "person" if any topic is the person's own, else "model". `at`: when it changed."""

    user_id: int
    name: str
    topics: tuple[str, ...]
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Kept:
    """How much is stored about a person: counts by the nouns in STORED, and how many topics their profile has.
    `since`: when their oldest logged message was sent (unix seconds), None if there is none."""

    counts: Mapping[str, int] = field(default_factory=dict)
    topics: int = 0
    since: float | None = None


class MemoryReader:
    """Reads this machine's record for turns and commands. If the file is missing, nothing is found; no method raises.

    `path` is None if nothing is recorded. `meaning` makes the vectors of questions, None without an embedding model.
    """

    def __init__(self, path: Path | None = None, meaning: Embeddings | None = None) -> None:
        self._path, self._meaning = path, meaning
        self._questions = QuestionThread(path) if path is not None else None

    @property
    def is_here(self) -> bool:
        """Whether this machine has a record yet."""
        return self._path is not None and self._path.exists()

    async def chain(self, message_id: int, most: int, reply_to: int | None = None) -> Chain:
        """Return at most `most` messages before this message in its reply chain, and a summary of earlier messages.

        The recorder is a few seconds behind, so the log may lack a new message: `reply_to` is the message it answers.
        """
        return await self._ask(lambda db: chain(db, message_id, most, reply_to), Chain())

    async def recall(
        self,
        query: str,
        may_see: Callable[[int], bool],
        most: int,
        between: Callable[[int], Awaitable[tuple[int, int]]] | None = None,
        ignored: Collection[int] = (),
    ) -> tuple[Memory, ...]:
        """Return the best matching messages and summaries of channels that pass `may_see`, () if nothing matches well.

        `between` returns the first and last message of a channel to search. Words of `ignored` people aren't searched.
        With an embedding model, memories with the same meaning in other words come after memories with the same words.
        """
        known: tuple[int, ...] = await self._ask(recall.channels, ())
        channels = tuple(filter(may_see, known))
        reach = Reach({channel: await between(channel) if between else (0, MAX_ID) for channel in channels}, ignored)
        fitting: tuple[Memory, ...] = await self._ask(lambda db: recall.recall(db, query, reach, most), ())
        meaning = self._meaning
        if meaning is None or len(fitting) >= most or not channels:
            return fitting
        vectors = None
        with suppress(TimeoutError):
            async with asyncio.timeout(MEANING_SECONDS):
                vectors = await meaning.vectors([query])
        if not vectors or not vectors[0]:
            return fitting
        vector, model = vectors[0], meaning.model
        further: tuple[Memory, ...] = await self._ask(
            lambda db: recall.by_ids(db, find_near(db, vector, model, reach, most)), ()
        )
        fitting_ids = {(memory.kind, memory.message_id) for memory in fitting}
        new = (memory for memory in further if (memory.kind, memory.message_id) not in fitting_ids)
        return (*fitting, *new)[:most]

    async def earlier_rooms(
        self,
        query: str,
        may_see: Callable[[int], bool],
        here: int,
        most: int,
        since: Callable[[int], Awaitable[int]],
        ignored: Collection[int] = (),
    ) -> tuple[RoomConclusion, ...]:
        """Return what came of rooms on the subject, best match first, without the room of the thread `here`: rooms
        below channels that pass `may_see`, in which none of the `ignored` people wrote. `since` returns the message
        after which an agent may read in a thread."""
        newest = f"SELECT {CONCLUSION_COLUMNS} FROM room_conclusions ORDER BY at DESC LIMIT {MAX_ROOMS}"
        rooms: list[RoomConclusion] = await self._ask(lambda db: [conclusion_in(row) for row in db.execute(newest)], [])
        found = []
        for room in rooms:
            is_readable = room.thread_id != here and may_see(room.channel_id) and not set(room.people) & set(ignored)
            if is_readable and (share := recall.subject_share(query, room.topic, room.arguments)) >= recall.FLOOR:
                found.append((share, room))
        found.sort(key=lambda each: -each[0])  # a stable sort: the newest first among equals
        best = [room for _, room in found if max(room.message_ids, default=0) > await since(room.thread_id)]
        return tuple(best[:most])

    async def profile(self, user_id: int) -> Profile | None:
        """Return None if the person has no profile or removed it."""
        return await self._ask(lambda db: profile(db, user_id), None)

    async def consent(self, user_id: int) -> bool | None:
        """Return whether the person wants unprompted messages; None if they didn't say."""
        row = await self._read_row("SELECT unasked FROM consents WHERE user_id = ?", user_id)
        return bool(row[0]) if row else None

    async def kept_about(self, user_id: int) -> Kept:
        def query(db: sqlite3.Connection) -> Kept:
            since = db.execute("SELECT min(at) FROM message_log WHERE author_id = ?", (user_id,)).fetchone()[0]
            shown = profile(db, user_id)
            return Kept(count_person(db, user_id), len(shown.topics) if shown else 0, since)

        return await self._ask(query, Kept())

    async def export(self, people: Collection[int]) -> Mapping[str, list[dict[str, Any]]] | None:
        """Return the data about a person with these ids, read in a thread of its own; None if it can't be read."""
        if self._path is None:
            return None
        questions = QuestionThread(self._path, seconds=EXPORT_SECONDS)
        try:
            return await questions.ask(lambda db: export_person(db, people), None)
        finally:
            await questions.aclose()

    async def unasked(self, message_id: int) -> UnaskedNote | None:
        """Return the note about an agent's unprompted message; None if the message isn't one."""
        row = await self._read_row("SELECT * FROM unasked WHERE message_id = ?", message_id)
        return UnaskedNote(**dict(row)) if row else None

    async def posted_by(self, message_id: int) -> str | None:
        """Return the agent that posted this message; None if the record has no such post."""
        row = await self._read_row("SELECT agent FROM posts WHERE message_id = ?", message_id)
        return row[0] if row else None

    async def aclose(self) -> None:
        if self._questions is not None:
            await self._questions.aclose()

    async def _read_row(self, query: str, key: int) -> sqlite3.Row | None:
        return await self._ask(lambda db: db.execute(query, (key,)).fetchone(), None)

    async def _ask(self, question: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        return nothing if self._questions is None else await self._questions.ask(question, nothing)


class QuestionThread:
    """A thread with a connection to the record, opened when first needed and again if the file was replaced.

    A file that is missing, unreadable, or without tables is treated as empty. An unreadable file is logged once.
    """

    def __init__(self, path: Path, *, seconds: float = QUESTION_SECONDS) -> None:
        self._path, self._seconds, self._until, self._problem = path, seconds, 0.0, ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memory")
        self._open: tuple[sqlite3.Connection, int | None] | None = None  # used in that thread alone

    async def ask(self, question: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """Run `question` in the thread; return its answer, or `nothing` if the record can't be read."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(self._ask, question, nothing))

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _ask(self, question: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        try:
            file = identity(self._path)
            if self._open and self._open[1] != file:
                self._close()
            if file is None:
                return nothing
            if self._open is None:
                connection = connect_blocking(self._path)
                connection.set_progress_handler(lambda: int(time.monotonic() > self._until), STEPS)
                self._open = connection, file
            self._until = time.monotonic() + self._seconds
            found = question(self._open[0])
        except (sqlite3.Error, OSError, RecordError) as error:
            if "no such table" not in str(error):  # the recorder is still creating the tables of a new file
                level = logging.DEBUG if str(error) == self._problem else logging.WARNING
                log.log(level, "reading %s for memories failed: %s; none are found until then", self._path, error)
                self._problem = str(error)
            self._close()
            return nothing
        self._problem = ""
        return found

    def _close(self) -> None:
        if self._open:
            self._open[0].close()
            self._open = None


# -- messages, reply chains, and the lines of a model's material -------------------------------------------------------


def message_of(row: sqlite3.Row) -> LoggedMessage:
    return LoggedMessage(**dict(row))


def message(db: sqlite3.Connection, message_id: int) -> LoggedMessage | None:
    row = db.execute(f"SELECT {SELECTED} FROM message_log WHERE message_id = ?", (message_id,)).fetchone()
    return message_of(row) if row else None


def upwards(db: sqlite3.Connection, newest: LoggedMessage, most: int) -> list[LoggedMessage]:
    """Return a message and its parents in the reply chain, the newest first, in its channel."""
    found = db.execute(_PARENTS, (newest.message_id, newest.channel_id, most - 1))
    return list({said.message_id: said for said in map(message_of, found)}.values())


def channels_of(db: sqlite3.Connection, agent: str) -> list[int]:
    """Return the channels that have a logged message of the agent; the newest first."""
    return [row["id"] for row in db.execute(_CHANNELS, (agent, MAX_CHANNELS))]


def newest_of(db: sqlite3.Connection, agent: str, *, profiles: bool = False) -> int:
    """Return the id of the newest message in the agent's channels; 0 if there is none. With `profiles`, return the id
    that belongs to the time of the latest changed profile if that is newer."""
    row = db.execute(_CHANNELS, (agent, 1)).fetchone()
    changed = db.execute("SELECT max(at) FROM profiles").fetchone()[0] if row and profiles else None
    return max(int(row["newest"]), id_at(changed or 0.0)) if row else 0


def chain(db: sqlite3.Connection, message_id: int, most: int, reply_to: int | None = None) -> Chain:
    """Return the reply chain before a message. `reply_to`: the message it answers, as the log may not have it yet."""
    known = message(db, message_id)
    parent = message(db, reply_to or (known.reply_to if known else None) or 0)
    if parent is None or most <= 0 or (known and known.channel_id != parent.channel_id):
        return Chain()
    parents = upwards(db, parent, min(most, MAX_IN_CHAIN))
    found = db.execute(
        "SELECT message_id, text FROM summaries WHERE message_id IN (SELECT value FROM json_each(?))",
        (json.dumps([said.message_id for said in parents]),),
    )
    summaries = dict(map(tuple, found))
    for place, said in enumerate(parents):
        if summary := summaries.get(said.message_id):
            theirs = (said.message_id,)
            people = db.execute("SELECT user_id FROM summary_people WHERE summary_id = ?", theirs)
            sources = db.execute("SELECT message_id FROM summary_sources WHERE summary_id = ? ORDER BY 1", theirs)
            return Chain(
                summary,
                said.message_id,
                tuple(reversed(parents[:place])),
                frozenset(row[0] for row in people) | authors_of(parents[:place]),
                said.channel_id,
                tuple(row[0] for row in sources),
            )
    return Chain(messages=tuple(reversed(parents)), people=authors_of(parents), channel_id=parent.channel_id)


def authors_of(messages: Iterable[LoggedMessage]) -> frozenset[int]:
    return frozenset(said.author_id for said in messages if said.author_id is not None)


def lines(messages: Iterable[LoggedMessage], first: str = "") -> tuple[str, int]:
    """Return messages as lines "Name: text", of at most MAX_MATERIAL characters, and how many messages they have.

    `messages` are the newest first, the lines the oldest first. `first` is a line before them.
    """
    texts = (f"{shown_name(said)}: {one_line(said.text)[:MAX_LINE]}" for said in messages)
    fitting = newest_that_fit(texts, MAX_MATERIAL - len(first), apart=1)
    return "\n".join(filter(None, (first, *fitting))), len(fitting)


def shown_name(said: LoggedMessage) -> str:
    """Return the author's name on one line, without colons, because a colon ends the name."""
    name = one_line((said.name or said.agent or "").replace(":", " "))
    return name[:MAX_NAME].rstrip() or "someone"


def one_line(text: str) -> str:
    return " ".join(_UNSEEN.sub(" ", text).split())


# -- people ------------------------------------------------------------------------------------------------------------


def profile(db: sqlite3.Connection, user_id: int) -> Profile | None:
    """Return the person's own topics, then topics that a model added from newer messages; None if there are none."""
    lists = _read_lists(db, user_id)
    topics = _join_topics(lists)
    if not topics:
        return None
    name = next((row["name"] for row in reversed(lists) if row["name"]), "")
    own = any(row["by"] == PERSON and json.loads(row["topics"]) for row in lists)
    return Profile(user_id, name, topics, PERSON if own else MODEL, max(row["at"] for row in lists))


def topics_for(db: sqlite3.Connection, user_id: int, channel_id: int) -> tuple[str, ...]:
    """Return the topics of a profile that may be used in a channel.

    If others read the channel, a model's topics are used only if they come from messages that others could read. The
    person's own topics may be used everywhere.
    """
    lists = _read_lists(db, user_id)
    has_models = any(row["by"] == MODEL for row in lists)
    if has_models and is_shared(db, channel_id, user_id) and not is_open(db, user_id):
        lists = [row for row in lists if row["by"] != MODEL]
    return _join_topics(lists)


def origins_of(db: sqlite3.Connection, user_id: int, channel_id: int) -> tuple[int, ...]:
    """Return the channels in which the person may have mentioned a model's topics, () if nobody else reads the channel.

    No channel is missing: a model's topics are deleted before the last message there leaves the log (`lost_profiles`).
    """
    if not is_shared(db, channel_id, user_id):
        return ()
    found = db.execute(
        f"SELECT DISTINCT channel_id FROM message_log WHERE author_id = ?1 AND message_id <="
        f" (SELECT upto FROM profiles WHERE user_id = ?1 AND by = '{MODEL}') ORDER BY channel_id",
        (user_id,),
    ).fetchall()
    return tuple(row[0] for row in found if is_shared(db, row[0], user_id))


def is_open(db: sqlite3.Connection, user_id: int) -> bool:
    """Return whether a model's topics about a person come from messages that others could read. One message shows that
    for all, since idle_queries.py never mixes private and other messages."""
    row = db.execute(
        "SELECT channel_id FROM message_log WHERE message_id ="
        f" (SELECT upto FROM profiles WHERE user_id = ? AND by = '{MODEL}')",
        (user_id,),
    ).fetchone()
    return row is not None and is_shared(db, row["channel_id"], user_id)


def is_shared(db: sqlite3.Connection, channel_id: int, user_id: int) -> bool:
    """Return whether others read this channel: it is in a guild or group, or others wrote there lately (by the log)."""
    newest = "FROM message_log WHERE channel_id = ? ORDER BY message_id DESC LIMIT"
    row = db.execute(f"SELECT guild_id {newest} 1", (channel_id,)).fetchone()
    if row is None or row["guild_id"] is not None:
        return True
    others = f"SELECT 1 FROM (SELECT author_id {newest} 300) WHERE author_id <> ? LIMIT 1"
    return db.execute(others, (channel_id, user_id)).fetchone() is not None


def _read_lists(db: sqlite3.Connection, user_id: int) -> list[sqlite3.Row]:
    """Return the person's lists of topics, their own first."""
    query = "SELECT by, name, topics, at FROM profiles WHERE user_id = ? ORDER BY by = ? DESC"
    return db.execute(query, (user_id, PERSON)).fetchall()


def _join_topics(lists: Iterable[sqlite3.Row]) -> tuple[str, ...]:
    """Return the topics in order, without duplicates that differ only in case or surrounding space."""
    topics: dict[str, str] = {}
    for topic in (topic for row in lists for topic in json.loads(row["topics"])):
        topics.setdefault(topic.casefold().strip(), topic)
    return tuple(topics.values())[:MAX_TOPICS]
