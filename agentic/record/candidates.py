"""Reply chains that want a summary, and people whose new messages want a profile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence

from agentic.ids import id_at
from agentic.record.messages import (
    MOST_IN_CHAIN,
    SELECTED,
    authors_of,
    chain,
    channels_of,
    lines,
    message,
    message_of,
    shown_name,
)
from agentic.record.people import is_open, is_shared, topics_for
from agentic.state.idle import Candidate
from agentic.wire.entries import LoggedMessage

MOST_REPLIES = 60  # of a channel, when a chain is looked for
MOST_PEOPLE = 50  # when somebody with new messages is
MOST_MESSAGES = 400  # of a person
FEWEST_CHARACTERS = 20  # that a person wrote since the last profile; less says nothing about them

# A reply to a reply, or to any message if ?4 says so, which nobody has answered, and up to which there is no summary,
# nor up to another reply to the same message: if a hundred people answer one, the chain before it is read once.
_UNSUMMARISED = f"""
SELECT last.message_id FROM (
    SELECT message_id, reply_to FROM message_log
    WHERE channel_id = ?1 AND reply_to IS NOT NULL AND message_id < ?2 ORDER BY message_id DESC LIMIT {MOST_REPLIES}
) last
JOIN message_log middle ON middle.message_id = last.reply_to AND middle.channel_id = ?1
LEFT JOIN message_log first ON first.message_id = middle.reply_to AND first.channel_id = ?1
WHERE (?4 OR first.message_id IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM message_log WHERE reply_to = last.message_id)
  AND NOT EXISTS (
    SELECT 1 FROM message_log beside JOIN summaries ON summaries.message_id = beside.message_id
    WHERE beside.reply_to = last.reply_to
  )
  AND last.message_id NOT IN (SELECT value FROM json_each(?3))
ORDER BY last.message_id DESC LIMIT 1
"""
_UNPROFILED = f"""
WITH RECURSIVE each (id) AS (
    SELECT min(author_id) FROM message_log WHERE author_id IS NOT NULL
    UNION ALL SELECT (SELECT min(author_id) FROM message_log WHERE author_id > each.id)
    FROM each WHERE each.id IS NOT NULL
)
SELECT id, coalesce((SELECT max(upto) FROM profiles WHERE user_id = id), 0) AS upto,
  (SELECT max(message_id) FROM message_log WHERE author_id = id) AS newest
FROM each WHERE id IS NOT NULL AND newest > upto ORDER BY newest DESC LIMIT {MOST_PEOPLE}
"""


def to_summarise(
    db: sqlite3.Connection, agent: str, before: float, skip: Collection[int] = (), *, exchanges: bool = False
) -> Candidate | None:
    """The newest chain that wants a summary, but none whose last message is one of `skip`; with `exchanges` also a
    message with its answer alone."""
    for channel_id in channels_of(db, agent):
        row = db.execute(_UNSUMMARISED, (channel_id, id_at(before), json.dumps([*skip]), exchanges)).fetchone()
        last = message(db, row[0]) if row else None
        if last:
            return _chain_of(db, last)
    return None


def _chain_of(db: sqlite3.Connection, last: LoggedMessage) -> Candidate:
    """The chain with its last message, from its last summary on."""
    found = chain(db, last.message_id, MOST_IN_CHAIN)
    newest_first = (last, *reversed(found.messages))
    first = f"Summary of what was said before: {found.summary}" if found.summary else ""
    material, count = lines(newest_first, first)
    before = db.execute("SELECT message_id FROM summary_sources WHERE summary_id = ?", (found.upto,))
    ids = (*(row[0] for row in before), *(said.message_id for said in reversed(newest_first[:count])))
    return Candidate(
        channel_id=last.channel_id,
        guild_id=last.guild_id,
        message_id=last.message_id,
        upto=last.message_id,
        material=material,
        message_ids=ids,
        people=tuple(sorted(found.people | authors_of((last,)))),
        at=last.at,
    )


def to_profile(db: sqlite3.Connection, agent: str, skip: Collection[int] = ()) -> Candidate | None:
    """A person who wrote what their profile does not have yet, but nobody whose newest message is one of `skip`."""
    channels = channels_of(db, agent)
    for person_id, upto, _ in db.execute(_UNPROFILED).fetchall() if channels else ():
        theirs = _shared_first(db, person_id, _written(db, person_id, upto, channels))
        if theirs and theirs[0].message_id in skip:
            continue
        if sum(len(said.text) for said in theirs) >= FEWEST_CHARACTERS:
            return _person_of(db, person_id, theirs)
    return None


def _written(db: sqlite3.Connection, person_id: int, upto: int, channels: Sequence[int]) -> list[LoggedMessage]:
    found = db.execute(
        f"SELECT {SELECTED} FROM message_log WHERE author_id = ? AND message_id > ? AND author = 'person'"
        f" AND channel_id IN (SELECT value FROM json_each(?)) ORDER BY message_id DESC LIMIT {MOST_MESSAGES}",
        (person_id, upto, json.dumps(channels)),
    )
    return list(map(message_of, found))


def _shared_first(db: sqlite3.Connection, person_id: int, theirs: Sequence[LoggedMessage]) -> list[LoggedMessage]:
    """The messages that others could read, and only of a person who writes nowhere else those of a private chat: its
    topics could not be used where others read."""
    shared = {channel: is_shared(db, channel, person_id) for channel in {said.channel_id for said in theirs}}
    found = [said for said in theirs if shared[said.channel_id]]
    return found if found or is_open(db, person_id) else list(theirs)


def _person_of(db: sqlite3.Connection, person_id: int, newest_first: Sequence[LoggedMessage]) -> Candidate:
    last = newest_first[0]
    material, count = lines(newest_first)
    return Candidate(
        channel_id=last.channel_id,
        guild_id=last.guild_id,
        message_id=last.message_id,
        person_id=person_id,
        person_name=shown_name(last),
        upto=last.message_id,
        material=material,
        topics=topics_for(db, person_id, last.channel_id),
        message_ids=tuple(said.message_id for said in reversed(newest_first[:count])),
        people=(person_id,),
        at=last.at,
    )
