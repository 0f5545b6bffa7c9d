"""Logged messages as they are read: rows to values, reply chains, and the lines of a model's material."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentic.ids import id_at
from agentic.state.idle import MOST_MATERIAL
from agentic.wire.entries import LoggedMessage

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
