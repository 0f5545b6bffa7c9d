"""An agent's conversations with people, as far as the log has them: those left hanging, and with whom it talked last.

Each question looks at the newest messages of so many channels that its time stays small however long the log is; what
it thus never sees is old.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from agentic.ids import id_at
from agentic.record.memories_rows import PERSON
from agentic.record.messages import SELECTED, authors_of, channels_of, lines, message, message_of, shown_name, upwards
from agentic.record.people import origins_of, profile, topics_for
from agentic.state.idle import Candidate
from agentic.wire.entries import LoggedMessage

MOST_POSTS = 15  # of the agent in a channel
MOST_EXCHANGES = 200  # the newest
CHAIN = 20  # messages of a conversation
FEWEST_IN_CHAIN = 3
EXCHANGE_SECONDS = 3600.0  # what a person writes within that time after an agent's message belongs to it

# Posts of the agent with the people that they are for: by what was noted of it, or what it answers.
_POSTS = f"""
SELECT post.message_id, post.at, post.reply_to, unasked.at AS sent_at,
  iif(unasked.at IS NULL, parent.author_id, unasked.person_id) AS person_id
FROM (
    SELECT message_id, at, reply_to FROM message_log WHERE agent = ? AND channel_id = ?
    ORDER BY message_id DESC LIMIT {MOST_POSTS}
) post
LEFT JOIN unasked ON unasked.message_id = post.message_id
LEFT JOIN message_log parent ON parent.message_id = post.reply_to AND parent.author = '{PERSON}'
ORDER BY post.message_id DESC
"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An agent's newest message for a person in a channel. `unasked`: nobody had asked for it."""

    agent: str
    person_id: int
    channel_id: int
    post_id: int
    at: float
    unasked: bool


def hanging(db: sqlite3.Connection, agent: str, before: float, count: int) -> tuple[Candidate, ...]:
    found: list[Candidate] = []
    for exchange in _exchanges(db, agent):
        last = None if exchange.unasked else _last_of(db, exchange)
        if last and last.at < before and not _followed_up(db, exchange, last):
            found.append(_conversation_of(db, exchange, last))
            if len(found) >= count:
                break
    return tuple(found)


def _last_of(db: sqlite3.Connection, exchange: Exchange) -> LoggedMessage | None:
    """The last message of the exchange; None where the person went on there without the agent."""
    found = db.execute(
        f"SELECT {SELECTED} FROM message_log WHERE author_id = ? AND message_id > ? AND channel_id = ?"
        " ORDER BY message_id DESC LIMIT 1",
        (exchange.person_id, exchange.post_id, exchange.channel_id),
    ).fetchone()
    if found is None:
        return message(db, exchange.post_id)
    said = message_of(found)
    return said if said.reply_to == exchange.post_id or said.at - exchange.at <= EXCHANGE_SECONDS else None


def _followed_up(db: sqlite3.Connection, exchange: Exchange, last: LoggedMessage) -> bool:
    row = db.execute(
        "SELECT 1 FROM unasked WHERE channel_id = ? AND at >= ? AND coalesce(person_id, ?3) = ?3",
        (last.channel_id, last.at, exchange.person_id),
    ).fetchone()
    return row is not None


def _conversation_of(db: sqlite3.Connection, exchange: Exchange, last: LoggedMessage) -> Candidate:
    said = upwards(db, last, CHAIN)
    if len(said) < FEWEST_IN_CHAIN:
        said = _talk_before(db, exchange, last)
    material, count = lines(said)
    theirs = next((each for each in said if each.author_id == exchange.person_id), None)
    return Candidate(
        channel_id=last.channel_id,
        guild_id=last.guild_id,
        message_id=last.message_id,
        person_id=exchange.person_id,
        person_name=shown_name(theirs) if theirs else "",
        upto=last.message_id,
        material=material,
        topics=_topics_of_here(db, exchange.person_id, last.channel_id),
        message_ids=tuple(each.message_id for each in reversed(said[:count])),
        people=tuple(sorted(authors_of(said))),
        at=last.at,
    )


def _topics_of_here(db: sqlite3.Connection, person_id: int, channel_id: int) -> tuple[str, ...]:
    """A follow-up is about its talk: topics of other channels, which its readers may not know, have no place in it."""
    elsewhere = set(origins_of(db, person_id, channel_id)) - {channel_id}
    return () if elsewhere else topics_for(db, person_id, channel_id)


def _talk_before(db: sqlite3.Connection, exchange: Exchange, last: LoggedMessage) -> list[LoggedMessage]:
    """The newest messages of the two up to then, of one sitting, where they did not answer each other by replies."""
    found = db.execute(
        f"SELECT {SELECTED} FROM (SELECT * FROM message_log WHERE channel_id = ?1 AND message_id BETWEEN ?2 AND ?3"
        " ORDER BY message_id DESC LIMIT 200) WHERE author_id = ?4 OR agent = ?5 ORDER BY message_id DESC LIMIT ?6",
        (
            last.channel_id,
            id_at(last.at - EXCHANGE_SECONDS),
            last.message_id,
            exchange.person_id,
            exchange.agent,
            CHAIN,
        ),
    )
    return list(map(message_of, found))


def people(db: sqlite3.Connection, agent: str, count: int) -> tuple[Candidate, ...]:
    found: dict[int, Candidate] = {}
    for exchange in _exchanges(db, agent):
        person_id = exchange.person_id
        topics = () if person_id in found else topics_for(db, person_id, exchange.channel_id)
        if topics and (post := message(db, exchange.post_id)):
            known = profile(db, person_id)
            found[person_id] = Candidate(
                channel_id=post.channel_id,
                guild_id=post.guild_id,
                message_id=post.message_id,
                person_id=person_id,
                person_name=known.name if known else "",
                upto=post.message_id,
                topics=topics,
                origins=origins_of(db, person_id, post.channel_id),
                people=(person_id,),
                at=post.at,
            )
            if len(found) >= count:
                break
    return tuple(found.values())


def _exchanges(db: sqlite3.Connection, agent: str) -> list[Exchange]:
    """The agent's conversations, one a person and channel, the newest first."""
    found: dict[tuple[int, int], Exchange] = {}
    for channel_id in channels_of(db, agent):
        for post in db.execute(_POSTS, (agent, channel_id)).fetchall():
            sent = post["sent_at"] is not None
            alone = post["reply_to"] is None and not sent
            person_id = _wrote_before(db, channel_id, post) if alone else post["person_id"]
            if person_id is not None:
                each = Exchange(agent, person_id, channel_id, post["message_id"], post["at"], unasked=sent)
                found.setdefault((channel_id, person_id), each)
    return sorted(found.values(), key=lambda exchange: -exchange.post_id)[:MOST_EXCHANGES]


def _wrote_before(db: sqlite3.Connection, channel_id: int, post: sqlite3.Row) -> int | None:
    """The last person who wrote there before."""
    row = db.execute(
        "SELECT author_id FROM (SELECT author, author_id, message_id FROM message_log WHERE channel_id = ?"
        " AND message_id BETWEEN ? AND ? ORDER BY message_id DESC LIMIT 30) WHERE author = ? LIMIT 1",
        (channel_id, id_at(post["at"] - EXCHANGE_SECONDS), post["message_id"], PERSON),
    ).fetchone()
    return row[0] if row else None
