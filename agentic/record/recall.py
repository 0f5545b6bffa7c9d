"""Finds what was said before that fits to a question, and nothing where nothing fits well: that annoys.

FTS5 finds by the question's rarer words, in any of their forms, and ranks by bm25. Of what it found a memory fits that
has enough of the question, each word counted by how much it says: one that half of all messages have says little.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentic.record.index import TABLE
from agentic.record.terms import alike, asked_terms, beginning, has_forms, terms

MOST_TERMS = 16  # of a question
MOST_RANKED = 1_000  # rows: ranking takes some microseconds each
FLOOR = 0.4  # of the weight of the question's terms that a memory has
TOO_COMMON = 0.25  # of all rows: such a term alone is no subject
FEW_ROWS = 40  # in which no term is common


@dataclass(frozen=True, slots=True)
class Reach:
    """What a reader may find: of each channel in `between`, what lies between two messages, without these; nothing that
    one of `ignored` wrote, or that is made of their words."""

    between: Mapping[int, tuple[int, int]]
    ignored: Collection[int] = ()

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of REACHED."""
        places = [(channel, *ids) for channel, ids in self.between.items()]
        return {"places": json.dumps(places), "ignored": json.dumps(list(self.ignored))}


# The rows that a Reach has, of rows with an `id` (a summary's is negative). A query limits its rows only after this:
# what the reader may not see must not hide what they may.
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
_HITS = f"""
WITH {PLACES}, hits AS MATERIALIZED (SELECT rowid AS id, {{rank}} AS rank FROM {TABLE} WHERE {TABLE} MATCH :match)
SELECT id, coalesce(said.channel_id, made.channel_id) AS channel_id, coalesce(said.name, '') AS name,
  coalesce(said.text, made.text) AS text, coalesce(said.at, made.at) AS at, said.author_id AS author_id
FROM hits {REACHED} ORDER BY rank LIMIT {MOST_RANKED}
"""
_BEST = _HITS.format(rank="bm25(memory_index)")
_NEWEST = _HITS.format(rank="-abs(rowid)")
_OF_IDS = """
SELECT value AS id, coalesce(said.channel_id, made.channel_id) AS channel_id, coalesce(said.name, '') AS name,
  coalesce(said.text, made.text) AS text, coalesce(said.at, made.at) AS at, said.author_id AS author_id
FROM json_each(?) LEFT JOIN message_log said ON said.message_id = value
LEFT JOIN summaries made ON made.message_id = -value WHERE coalesce(said.channel_id, made.channel_id) IS NOT NULL
"""
# Each channel by one step in an index, however many messages it has.
_CHANNELS = """
WITH RECURSIVE each (id) AS (
    SELECT min(channel_id) FROM {0}
    UNION ALL SELECT (SELECT min(channel_id) FROM {0} WHERE channel_id > each.id) FROM each WHERE each.id IS NOT NULL
)
SELECT id FROM each WHERE id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Memory:
    """Something that was said, or a summary of it. `kind`: message, summary. `name` is the author's, "" of a summary;
    `people` wrote it. `message_id` is of the message, or of the last one that the summary is made of, `first_id` of the
    first one."""

    kind: str
    channel_id: int
    message_id: int
    name: str
    text: str
    at: float
    people: frozenset[int]
    first_id: int


def channels(db: sqlite3.Connection) -> tuple[int, ...]:
    """The channels of which there are memories."""
    found = (row[0] for table in ("message_log", "summaries") for row in db.execute(_CHANNELS.format(table)))
    return tuple(dict.fromkeys(found))


def recall(db: sqlite3.Connection, query: str, reach: Reach, most: int) -> tuple[Memory, ...]:
    """Memories that fit to the query and that the reader may find, the best first."""
    if not reach.between or not db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (TABLE,)).fetchone():
        return ()
    asked = asked_terms(query)[:MOST_TERMS]
    rows = db.execute(f"SELECT count(*) FROM {TABLE}_docsize").fetchone()[0]
    if not rows:
        return ()
    common = int(max(FEW_ROWS, rows) * TOO_COMMON)
    counts = {term: _count(db, term, common + 1) for term in asked}
    wanted = _wanted(counts, common)
    if not wanted:
        return ()
    weights = {term: math.log(1 + (rows - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    many = counts[wanted[0]] > MOST_RANKED
    match = (" AND " if many else " OR ").join(map(_phrase, wanted))
    hits = db.execute(_NEWEST if many else _BEST, {"match": match, **reach.parameters}).fetchall()
    fitting = [(share, hit) for hit in hits if (share := _share(hit, weights)) >= FLOOR]
    fitting.sort(key=lambda each: -each[0])  # of equal ones the order stays
    best = list({hit["text"]: hit for _, hit in fitting}.values())[:most]
    return tuple(_memory(db, hit) for hit in best)


def by_ids(db: sqlite3.Connection, ids: Sequence[int]) -> tuple[Memory, ...]:
    """The memories of these rows of the index, in that order; a summary has minus its message's id."""
    hits = {hit["id"]: hit for hit in db.execute(_OF_IDS, (json.dumps(ids),))}
    return tuple(_memory(db, hits[key]) for key in ids if key in hits)


def _count(db: sqlite3.Connection, term: str, most: int) -> int:
    question = f"SELECT count(*) FROM (SELECT 1 FROM {TABLE} WHERE {TABLE} MATCH ? LIMIT ?)"
    return int(db.execute(question, (_phrase(term), most)).fetchone()[0])


def _wanted(counts: Mapping[str, int], common: int) -> list[str]:
    """The terms to look for, the rarest first; none where all are too common to be a subject."""
    found = sorted((term for term, count in counts.items() if 0 < count <= common), key=lambda term: counts[term])
    if not found or counts[found[0]] > MOST_RANKED:
        return found
    kept, ranked = found[:1], counts[found[0]]
    for term in found[1:]:
        ranked += counts[term]
        if ranked > MOST_RANKED:
            break
        kept.append(term)
    return kept


def _phrase(term: str) -> str:
    return f'"{beginning(term)}" *' if has_forms(term) else f'"{term}"'


def _share(hit: sqlite3.Row, weights: Mapping[str, float]) -> float:
    """How much of the question's weight is in a memory."""
    there = frozenset(terms(f"{hit['name']} {hit['text']}"))
    has = sum(weight for term, weight in weights.items() if term in there or _has_form(there, term))
    return has / sum(weights.values())


def _has_form(there: Iterable[str], term: str) -> bool:
    start = beginning(term)
    return any(other.startswith(start) and alike(term, other) for other in there)


def _memory(db: sqlite3.Connection, hit: sqlite3.Row) -> Memory:
    message_id = abs(hit["id"])
    if hit["id"] > 0:
        author = hit["author_id"]
        people = frozenset(() if author is None else (author,))
        return Memory("message", hit["channel_id"], message_id, hit["name"], hit["text"], hit["at"], people, message_id)
    oldest = db.execute("SELECT min(message_id) FROM summary_sources WHERE summary_id = ?", (message_id,)).fetchone()[0]
    found = db.execute("SELECT user_id FROM summary_people WHERE summary_id = ?", (message_id,))
    people = frozenset(row[0] for row in found)
    return Memory("summary", hit["channel_id"], message_id, "", hit["text"], hit["at"], people, oldest or message_id)
