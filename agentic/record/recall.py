"""Find earlier messages that match a question well, or none: poor matches annoy people.

FTS5 searches for the question's rarer words, in any form, and ranks by bm25. A result matches if it has enough of the
question, where each word is weighted by its rarity: a word in half of all messages says little. SQLite's tokenizers
don't split Chinese, Japanese, or Thai, so texts are split here, and the index has the terms separated by spaces. Terms
have only letters and digits, so a query with them has no operators.

The index, FTS5's table `memory_index`, isn't part of the migrations, because SQLite may lack FTS5: the recorder creates
and fills it if it can. While a recorder has the file open, triggers keep the index in sync with the tables, so deleting
a message deletes its words. A summary's row has the negative id of its message.

FTS5 only marks deleted text until its segments are merged. (Version 3.42 can delete immediately, but then an older
SQLite can't read the file.) So segments are merged after each deletion, in steps, and overwritten (database.py).
"""

from __future__ import annotations

import json
import logging
import math
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import aiosqlite

from agentic.text import runs
from agentic.tools.own_tools import Memory

MIN_LETTERS = 3  # of a word without digits
MAX_LETTERS = 40  # of a term
BEGINNING = 4  # letters that two forms of a word share at least
SHARED_PART = 0.6  # of the longer form's letters
MODULE = "fts5"
TABLE = "memory_index"
KEPT = "(1, 10)"  # rows of `data` without words that FTS5 needs even to drop the table
MERGED_PAGES = 200  # in a step
MERGE_EVERY = 300.0  # seconds from the end of a merge to the next; a request to be forgotten doesn't wait
MAX_TERMS = 16  # of a question
MAX_RANKED = 1_000  # rows: ranking takes some microseconds each
FLOOR = 0.4  # of the weight of the question's terms: a memory with less doesn't match
TOO_COMMON = 0.25  # of all rows: terms in more rows don't say what a question is about
FEW_ROWS = 40  # too few to call any term common

# Words that are common in questions. A long log shows that they are common, but a short log doesn't.
_QUESTION_WORDS = """
    about all and any are but can could did does ever for from had has have her here him his how its like may mention
    mentioned more not now our out said say she should some tell that the their them then there they thing things think
    this was were what when where which who why will with would you your
    aber als auch auf aus bei bin das dass dem den der des die dies ein eine einen einer erzählt etwas gesagt haben hat
    hatte ich ihr ist kann mal mir mit nach nicht noch oder schon sein sich sie sind über und uns von war warum was wann
    wenn wer wie wir wird wurde zum zur
    avec ce ces cette dans des dit elle est être les leur lui mais nous par pas pour qu que quel quelle quand qui quoi
    son sont sur une vous
    como con cuál cuando del dijo donde ella ellos esta este esto las los más para pero por porque qué que quién son
    sus una
"""
_IN_QUESTIONS = frozenset(_QUESTION_WORDS.split())

# Selects rows within a Reach, by their `id` (negative for a summary). Queries apply LIMIT only after this, so that rows
# outside of the reach don't take the place of others.
PLACES = """
place AS MATERIALIZED (
  SELECT json_extract(value, '$[0]') AS channel, json_extract(value, '$[1]') AS after,
    json_extract(value, '$[2]') AS before FROM json_each(:places)
)
"""
REACHED = """
LEFT JOIN message_log said ON said.message_id = id LEFT JOIN summaries made ON made.message_id = -id
JOIN place ON place.channel = coalesce(said.channel_id, made.channel_id) AND abs(id) < place.before
  AND coalesce((SELECT min(message_id) FROM summary_sources WHERE summary_id = -id), abs(id)) > place.after
  AND (said.author_id IS NULL OR said.author_id NOT IN (SELECT value FROM json_each(:ignored)))
  AND NOT EXISTS (
    SELECT 1 FROM summary_people WHERE summary_id = -id AND user_id IN (SELECT value FROM json_each(:ignored))
  )
"""
_FOUND = """
coalesce(said.channel_id, made.channel_id) AS channel_id, coalesce(said.name, '') AS name,
coalesce(said.text, made.text) AS text, coalesce(said.at, made.at) AS at, said.author_id AS author_id
"""
_HITS = f"""
WITH {PLACES}, hits AS MATERIALIZED (SELECT rowid AS id, {{rank}} AS rank FROM {TABLE} WHERE {TABLE} MATCH :match)
SELECT id, {_FOUND} FROM hits {REACHED} ORDER BY rank LIMIT {MAX_RANKED}
"""
_BEST = _HITS.format(rank="bm25(memory_index)")
_NEWEST = _HITS.format(rank="-abs(rowid)")
_OF_IDS = f"""
SELECT value AS id, {_FOUND} FROM json_each(?) LEFT JOIN message_log said ON said.message_id = value
LEFT JOIN summaries made ON made.message_id = -value WHERE coalesce(said.channel_id, made.channel_id) IS NOT NULL
"""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a reader may find. `between`: channel → two messages, between which memories must be. `ignored`: people
    whose messages aren't found, nor summaries made of them."""

    between: Mapping[int, tuple[int, int]]
    ignored: Collection[int] = ()

    @property
    def parameters(self) -> dict[str, str]:
        places = [(channel, *ids) for channel, ids in self.between.items()]
        return {"places": json.dumps(places), "ignored": json.dumps(list(self.ignored))}


def each_of(column: str, table: str, where: str = "") -> str:
    """Return the start of a query with a table `each`, whose `id` has the distinct values of a column and, last, NULL.

    It takes one step in the column's index per value, however many rows there are. `where` ends with AND.
    """
    smallest = f"SELECT min({column}) FROM {table} WHERE {where}"
    return f"""WITH RECURSIVE each (id) AS (
        {smallest} {column} IS NOT NULL
        UNION ALL SELECT ({smallest} {column} > each.id) FROM each WHERE each.id IS NOT NULL
    )"""


def channels(db: sqlite3.Connection) -> tuple[int, ...]:
    """Return the channels that have memories."""
    queries = (f"{each_of('channel_id', table)} SELECT id FROM each" for table in ("message_log", "summaries"))
    found = (row[0] for query in queries for row in db.execute(query) if row[0] is not None)
    return tuple(dict.fromkeys(found))


def recall(db: sqlite3.Connection, query: str, reach: Reach, most: int) -> tuple[Memory, ...]:
    """Return the memories within reach that match the query, best first."""
    if not reach.between or not db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (TABLE,)).fetchone():
        return ()
    asked = [term for term in dict.fromkeys(terms(query)) if term not in _IN_QUESTIONS][:MAX_TERMS]
    rows = db.execute(f"SELECT count(*) FROM {TABLE}_docsize").fetchone()[0]
    common = int(max(FEW_ROWS, rows) * TOO_COMMON)
    count = f"SELECT count(*) FROM (SELECT 1 FROM {TABLE} WHERE {TABLE} MATCH ? LIMIT ?)"
    counts = {term: int(db.execute(count, (_match_phrase(term), common + 1)).fetchone()[0]) for term in asked}
    wanted = _rare_terms(counts, common)
    if not wanted:
        return ()
    weights = {term: math.log(1 + (rows - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    many = counts[wanted[0]] > MAX_RANKED
    match = (" AND " if many else " OR ").join(map(_match_phrase, wanted))
    hits = db.execute(_NEWEST if many else _BEST, {"match": match, **reach.parameters}).fetchall()
    fitting = [(share, hit) for hit in hits if (share := _matched_share(hit, weights)) >= FLOOR]
    fitting.sort(key=lambda each: -each[0])  # a stable sort: equal shares stay in their order
    best = list({hit["text"]: hit for _, hit in fitting}.values())[:most]
    return tuple(_build_memory(db, hit) for hit in best)


def by_ids(db: sqlite3.Connection, ids: Sequence[int]) -> tuple[Memory, ...]:
    """Read memories by their ids in the index, in this order. A summary's id is negative."""
    hits = {hit["id"]: hit for hit in db.execute(_OF_IDS, (json.dumps(ids),))}
    return tuple(_build_memory(db, hits[key]) for key in ids if key in hits)


def _rare_terms(counts: Mapping[str, int], common: int) -> list[str]:
    """Return the terms to search for, rarest first; [] if all are too common."""
    found = sorted((term for term, count in counts.items() if 0 < count <= common), key=lambda term: counts[term])
    if not found or counts[found[0]] > MAX_RANKED:
        return found
    kept, ranked = found[:1], counts[found[0]]
    for term in found[1:]:
        ranked += counts[term]
        if ranked > MAX_RANKED:
            break
        kept.append(term)
    return kept


def _match_phrase(term: str) -> str:
    has_forms = len(term) >= BEGINNING and term.isalpha()
    return f'"{beginning(term)}" *' if has_forms else f'"{term}"'


def _matched_share(hit: sqlite3.Row, weights: Mapping[str, float]) -> float:
    """Return the share of the question's weight that is in a memory."""
    there = frozenset(terms(f"{hit['name']} {hit['text']}"))
    has = 0.0
    for term, weight in weights.items():
        start = beginning(term)
        if term in there or any(other.startswith(start) and is_alike(term, other) for other in there):
            has += weight
    return has / sum(weights.values())


def subject_share(query: str, topic: str, texts: Sequence[str]) -> float:
    """Return how much of a subject a debate is about, from 0 to 1. A word that only its arguments have counts half."""
    asked = [term for term in dict.fromkeys(terms(query)) if term not in _IN_QUESTIONS][:MAX_TERMS]
    in_topic, in_texts = set(terms(topic)), set(terms(" ".join(texts)))
    found = 0.0
    for term in asked:
        if any(is_alike(term, other) for other in in_topic):
            found += 1.0
        elif any(is_alike(term, other) for other in in_texts):
            found += 0.5
    return found / len(asked) if asked else 0.0


def _build_memory(db: sqlite3.Connection, hit: sqlite3.Row) -> Memory:
    message_id = abs(hit["id"])
    if hit["id"] > 0:
        author = hit["author_id"]
        people = frozenset(() if author is None else (author,))
        return Memory("message", hit["channel_id"], message_id, hit["name"], hit["text"], hit["at"], people)
    found = db.execute("SELECT user_id FROM summary_people WHERE summary_id = ?", (message_id,))
    people = frozenset(row[0] for row in found)
    return Memory("summary", hit["channel_id"], message_id, "", hit["text"], hit["at"], people)


def terms(text: str) -> list[str]:
    """Split a text into terms, in order. In scripts without spaces, terms are pairs of characters."""
    found: list[str] = []
    for run, spaceless in runs(text):
        if spaceless:
            found += [run[at : at + 2] for at in range(max(1, len(run) - 1))]
        elif len(run) >= MIN_LETTERS or not run.isalpha():
            found.append(run[:MAX_LETTERS])
    return found


def beginning(term: str) -> str:
    """Return the start that all forms of a word share: "tomatoes" → "tomat". Short words have no other forms."""
    if len(term) < BEGINNING or not term.isalpha():
        return term
    return term[: max(BEGINNING, math.ceil(SHARED_PART * len(term)))]


def is_alike(one: str, other: str) -> bool:
    """Return whether two terms are equal, or forms of the same word."""
    shared = max(BEGINNING, math.ceil(SHARED_PART * max(len(one), len(other))))
    has_forms = min(len(one), len(other)) >= shared and (one + other).isalpha()
    return one == other or (has_forms and one[:shared] == other[:shared])


CREATE = f"CREATE VIRTUAL TABLE {TABLE} USING fts5 (terms, tokenize = 'ascii')"  # which splits our terms only at spaces
SHADOWS = tuple(f"{TABLE}_{part}" for part in ("data", "idx", "content", "docsize"))


def _follow(table: str, sign: str, *columns: str) -> tuple[str, ...]:
    """Return statements that update the index for a table, and keep it in sync with these columns from then on.

    Only this connection has the triggers: without FTS5 or our function they would fail.
    """

    def terms_of(row: str) -> str:
        joined = " || ' ' || ".join(f"{row}.{name}" for name in columns)
        return f"index_terms({joined})"

    remove = f"DELETE FROM {TABLE} WHERE rowid = {sign}old.message_id; SELECT note_removal()"
    add = f"INSERT INTO {TABLE} (rowid, terms) VALUES ({sign}new.message_id, {terms_of('new')})"
    changed = " OR ".join(f"old.{name} <> new.{name}" for name in columns)
    return (
        f"DELETE FROM {TABLE} WHERE rowid IN (SELECT id FROM {TABLE}_docsize WHERE {sign}id > 0"
        f" AND {sign}id NOT IN (SELECT message_id FROM {table}))",
        f"INSERT INTO {TABLE} (rowid, terms) SELECT {sign}message_id, {terms_of(table)} FROM {table}"
        f" WHERE {sign}message_id NOT IN (SELECT id FROM {TABLE}_docsize)",
        f"CREATE TEMP TRIGGER {table}_added AFTER INSERT ON main.{table} BEGIN {add}; END",
        f"CREATE TEMP TRIGGER {table}_deleted AFTER DELETE ON main.{table} BEGIN {remove}; END",
        f"CREATE TEMP TRIGGER {table}_changed AFTER UPDATE OF {', '.join(columns)} ON main.{table} WHEN {changed}"
        f" BEGIN {remove}; {add}; END",
    )


FOLLOW = (*_follow("message_log", "", "name", "text"), *_follow("summaries", "-", "text"))


class MemoryIndex:
    """The index of a connection that writes. `there`: whether SQLite has FTS5."""

    def __init__(self, db: aiosqlite.Connection, there: bool) -> None:
        self.there = self._removed = there  # an earlier run may have ended before it merged
        self._db, self._merging, self._next = db, False, float("-inf")

    @classmethod
    async def prepare(cls, db: aiosqlite.Connection) -> MemoryIndex:
        """Create or update the index, and keep it in sync. Raises sqlite3.Error."""
        index = cls(db, bool(await _rows(db, f"SELECT 1 FROM pragma_module_list WHERE name = '{MODULE}'")))
        if index.there:
            await index._open()
            return index
        log.warning("recall is off: this Python's SQLite has no FTS5; messages are still recorded")
        # An old index can't be kept in sync: empty it. It's created again when FTS5 is there.
        for (name,) in map(tuple, await _rows(db, f"SELECT name FROM sqlite_schema WHERE name IN {SHADOWS}")):
            where = f" WHERE id NOT IN {KEPT}" if name == SHADOWS[0] else ""
            await db.execute(f"DELETE FROM {name}{where}")
        return index

    async def _open(self) -> None:
        def note_removal() -> None:
            self._removed = True

        await self._db.create_function("index_terms", 1, lambda text: " ".join(terms(text)), deterministic=True)
        await self._db.create_function("note_removal", 0, note_removal)
        exists = await _rows(self._db, f"SELECT 1 FROM sqlite_schema WHERE name = '{TABLE}_data'")
        if exists and not await _rows(self._db, f"SELECT 1 FROM {TABLE}_data WHERE id NOT IN {KEPT} LIMIT 1"):
            await self._db.execute(f"DROP TABLE {TABLE}")  # it's new, or was emptied without FTS5
            exists = []
        if not exists:
            await self._db.execute(CREATE)
        for statement in FOLLOW:
            await self._db.execute(statement)

    async def step(self) -> bool:
        """Merge some segments if words were removed; return whether there was anything to do. Raises sqlite3.Error."""
        if not self._merging:
            if not self._removed or time.monotonic() < self._next:
                return False
            self._removed, self._merging = False, True
            await self._merge(-MERGED_PAGES)  # as one level: without it only segments of like size are merged
            return True
        before = self._db.total_changes
        await self._merge(MERGED_PAGES)
        self._merging = self._db.total_changes - before >= 2  # as FTS5's documentation says
        self._next = time.monotonic() + MERGE_EVERY
        return True

    async def merge_all(self) -> None:
        """Merge all segments now. Raises sqlite3.Error."""
        if self.there:
            self._removed = self._merging = False
            await self._db.execute(f"INSERT INTO {TABLE} ({TABLE}) VALUES ('optimize')")

    async def _merge(self, pages: int) -> None:
        await self._db.execute(f"INSERT INTO {TABLE} ({TABLE}, rank) VALUES ('merge', ?)", (pages,))


async def _rows(db: aiosqlite.Connection, question: str) -> list[aiosqlite.Row]:
    return list(await db.execute_fetchall(question))
