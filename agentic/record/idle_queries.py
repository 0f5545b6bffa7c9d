"""Find subjects for the coordinator's background tasks.

These are reply chains without a summary, people with new messages for their profile, an agent's unfinished
conversations with people, and people that an agent may write to.

Each query reads only the newest messages of a limited number of channels, so a long log doesn't make it slow.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentic.ids import id_at
from agentic.record.memories import (
    MAX_IN_CHAIN,
    SELECTED,
    QuestionThread,
    authors_of,
    chain,
    channels_of,
    is_open,
    is_shared,
    lines,
    message,
    message_of,
    newest_of,
    origins_of,
    profile,
    shown_name,
    topics_for,
    upwards,
)
from agentic.record.personal_data import PERSON
from agentic.record.recall import each_of
from agentic.state.idle import Candidate, Sent
from agentic.wire.entries import LoggedMessage

MIN_CHARACTERS = 20  # of a person's messages since the last profile; less says nothing about the person
MAX_TALK = 20  # messages of a conversation
EXCHANGE_SECONDS = 3600.0  # a person's messages this long after an agent's message belong to the same exchange

# Finds a reply that nobody has answered. It replies to a reply, or to any message if ?4 is set. Neither it nor another
# reply to the same message has a summary: if a hundred people reply to a message, the chain before is summarized once.
_UNSUMMARIZED = """
SELECT last.message_id FROM (
    SELECT message_id, reply_to FROM message_log
    WHERE channel_id = ?1 AND reply_to IS NOT NULL AND message_id < ?2 ORDER BY message_id DESC LIMIT 60
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
{each_of("author_id", "message_log")}
SELECT id, coalesce((SELECT max(upto) FROM profiles WHERE user_id = id), 0) AS upto,
  (SELECT max(message_id) FROM message_log WHERE author_id = id) AS newest
FROM each WHERE id IS NOT NULL AND newest > upto ORDER BY newest DESC LIMIT 50
"""
# The agent's posts and the people they are for, from the note about an unprompted message or from the reply.
_POSTS = f"""
SELECT post.message_id, post.at, post.reply_to, unasked.at AS sent_at,
  iif(unasked.at IS NULL, parent.author_id, unasked.person_id) AS person_id
FROM (
    SELECT message_id, at, reply_to FROM message_log WHERE agent = ? AND channel_id = ?
    ORDER BY message_id DESC LIMIT 15
) post
LEFT JOIN unasked ON unasked.message_id = post.message_id
LEFT JOIN message_log parent ON parent.message_id = post.reply_to AND parent.author = '{PERSON}'
ORDER BY post.message_id DESC
"""
_LAST_WRITER = f"""
SELECT author_id FROM (
    SELECT author, author_id, message_id FROM message_log WHERE channel_id = ? AND message_id BETWEEN ? AND ?
    ORDER BY message_id DESC LIMIT 30
) WHERE author = '{PERSON}' LIMIT 1
"""
_SENT = """
SELECT message_id, agent, task, channel_id, person_id, text, at,
  iif(person_id IS NULL,
    EXISTS (SELECT 1 FROM message_log said WHERE said.channel_id = unasked.channel_id
      AND said.message_id > unasked.message_id AND said.author = 'person'),
    EXISTS (SELECT 1 FROM message_log said WHERE said.author_id = person_id
      AND said.message_id > unasked.message_id AND said.channel_id = unasked.channel_id)) AS answered
FROM unasked WHERE at >= ? ORDER BY at, message_id
"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An agent's newest message to a person in a channel. `unasked`: it was unprompted."""

    agent: str
    person_id: int
    channel_id: int
    post_id: int
    at: float
    unasked: bool


class IdleMemory(QuestionThread):
    """Reads the record for the coordinator's background tasks. `exchanges`: two messages are enough for a summary.

    An agent takes part in a channel if the log has a message from it there. Times are unix seconds. If the record
    can't be read, nothing is found and nothing is raised.
    """

    def __init__(self, path: Path, *, exchanges: bool = False) -> None:
        super().__init__(path)
        self._exchanges = exchanges

    async def newest(self, agent: str, task: str) -> int:
        """Return the id of the newest logged message in the agent's channels; 0 if there is none. For `discover`, a
        profile that changed later is treated like a message of that time."""
        return await self.ask(lambda db: newest_of(db, agent, profiles=task == "discover"), 0)

    async def to_summarise(self, agent: str, before: float, skip: Collection[int] = ()) -> Candidate | None:
        """Return a chain of three or more messages. Its newest is older than `before`, in no summary, not in `skip`."""

        def query(db: sqlite3.Connection) -> Candidate | None:
            for channel_id in channels_of(db, agent):
                where = (channel_id, id_at(before), json.dumps([*skip]), self._exchanges)
                row = db.execute(_UNSUMMARIZED, where).fetchone()
                if row and (last := message(db, row[0])):
                    return _summary_candidate(db, last)
            return None

        return await self.ask(query, None)

    async def to_profile(self, agent: str, skip: Collection[int] = ()) -> Candidate | None:
        """Return a person with messages newer than their profile: the material. The newest one isn't in `skip`."""

        def query(db: sqlite3.Connection) -> Candidate | None:
            channels = channels_of(db, agent)
            for person_id, upto, _ in db.execute(_UNPROFILED).fetchall() if channels else ():
                theirs = _new_messages(db, person_id, upto, channels)
                is_skipped = theirs and theirs[0].message_id in skip
                if not is_skipped and sum(len(said.text) for said in theirs) >= MIN_CHARACTERS:
                    topics = topics_for(db, person_id, theirs[0].channel_id)
                    return _person_candidate(person_id, theirs[0], theirs, topics, (person_id,))
            return None

        return await self.ask(query, None)

    async def hanging(self, agent: str, before: float, count: int) -> tuple[Candidate, ...]:
        """Return the newest conversations of people with the agent that ended before `before` and had no follow-up."""

        def query(db: sqlite3.Connection) -> tuple[Candidate, ...]:
            found: list[Candidate] = []
            for exchange in _exchanges(db, agent):
                last = None if exchange.unasked else _last_message(db, exchange)
                if last is None or last.at >= before:
                    continue
                followed_up = db.execute(
                    "SELECT 1 FROM unasked WHERE channel_id = ? AND at >= ? AND coalesce(person_id, ?3) = ?3",
                    (last.channel_id, last.at, exchange.person_id),
                ).fetchone()
                if not followed_up:
                    found.append(_follow_up_candidate(db, exchange, last))
                    if len(found) >= count:
                        break
            return tuple(found)

        return await self.ask(query, ())

    async def people(self, agent: str, count: int) -> tuple[Candidate, ...]:
        """Return people with a profile, and the channel in which they last talked with the agent, latest first."""

        def query(db: sqlite3.Connection) -> tuple[Candidate, ...]:
            found: dict[int, Candidate] = {}
            for exchange in _exchanges(db, agent):
                person_id = exchange.person_id
                topics = () if person_id in found else topics_for(db, person_id, exchange.channel_id)
                if topics and (post := message(db, exchange.post_id)):
                    known = profile(db, person_id)
                    found[person_id] = _candidate(
                        post,
                        person_id=person_id,
                        person_name=known.name if known else "",
                        topics=topics,
                        origins=origins_of(db, person_id, post.channel_id),
                        people=(person_id,),
                    )
                    if len(found) >= count:
                        break
            return tuple(found.values())

        return await self.ask(query, ())

    async def sent(self, since: float) -> tuple[Sent, ...]:
        """Return all agents' unprompted messages since then, oldest first."""

        def query(db: sqlite3.Connection) -> tuple[Sent, ...]:
            found = map(dict, db.execute(_SENT, (since,)))
            return tuple(Sent(**{**row, "answered": bool(row["answered"])}) for row in found)

        return await self.ask(query, ())

    async def consents(self) -> Mapping[int, bool]:
        """Return user id → whether the person wants unprompted messages, for people who said so."""
        query = "SELECT user_id, unasked FROM consents"
        return await self.ask(lambda db: {row[0]: bool(row[1]) for row in db.execute(query)}, {})


def _candidate(last: LoggedMessage, **more: Any) -> Candidate:
    """Return a candidate for a task in this message's channel."""
    here, guild, last_id = last.channel_id, last.guild_id, last.message_id
    return Candidate(channel_id=here, guild_id=guild, message_id=last_id, upto=last_id, at=last.at, **more)


def _person_candidate(
    person_id: int,
    last: LoggedMessage,
    newest_first: Sequence[LoggedMessage],
    topics: tuple[str, ...],
    people: tuple[int, ...],
) -> Candidate:
    """Return a candidate about a person, with these messages as material."""
    material, count = lines(newest_first)
    theirs = next((said for said in newest_first if said.author_id == person_id), None)
    return _candidate(
        last,
        person_id=person_id,
        person_name=shown_name(theirs) if theirs else "",
        material=material,
        topics=topics,
        message_ids=tuple(said.message_id for said in reversed(newest_first[:count])),
        people=people,
    )


def _summary_candidate(db: sqlite3.Connection, last: LoggedMessage) -> Candidate:
    """Return the reply chain that ends with a message, starting from its latest summary."""
    found = chain(db, last.message_id, MAX_IN_CHAIN)
    newest_first = (last, *reversed(found.messages))
    first = f"Summary of what was said before: {found.summary}" if found.summary else ""
    material, count = lines(newest_first, first)
    before = db.execute("SELECT message_id FROM summary_sources WHERE summary_id = ?", (found.upto,))
    ids = (*(row[0] for row in before), *(said.message_id for said in reversed(newest_first[:count])))
    people = tuple(sorted(found.people | authors_of((last,))))
    return _candidate(last, material=material, message_ids=ids, people=people)


def _new_messages(db: sqlite3.Connection, person_id: int, upto: int, channels: Sequence[int]) -> list[LoggedMessage]:
    """Return the person's new messages that others could read. If the person writes only in private chats, return
    messages from there; topics from them are never used in front of others."""
    found = db.execute(
        f"SELECT {SELECTED} FROM message_log WHERE author_id = ? AND message_id > ? AND author = 'person'"
        f" AND channel_id IN (SELECT value FROM json_each(?)) ORDER BY message_id DESC LIMIT 400",
        (person_id, upto, json.dumps(channels)),
    )
    theirs = list(map(message_of, found))
    shared = {channel: is_shared(db, channel, person_id) for channel in {said.channel_id for said in theirs}}
    readable = [said for said in theirs if shared[said.channel_id]]
    return readable if readable or is_open(db, person_id) else theirs


def _last_message(db: sqlite3.Connection, exchange: Exchange) -> LoggedMessage | None:
    """Return the last message of the exchange; None if the person later wrote something else there."""
    found = db.execute(
        f"SELECT {SELECTED} FROM message_log WHERE author_id = ? AND message_id > ? AND channel_id = ?"
        " ORDER BY message_id DESC LIMIT 1",
        (exchange.person_id, exchange.post_id, exchange.channel_id),
    ).fetchone()
    if found is None:
        return message(db, exchange.post_id)
    said = message_of(found)
    return said if said.reply_to == exchange.post_id or said.at - exchange.at <= EXCHANGE_SECONDS else None


def _follow_up_candidate(db: sqlite3.Connection, exchange: Exchange, last: LoggedMessage) -> Candidate:
    said = upwards(db, last, MAX_TALK)
    if len(said) < 3:
        # They didn't use replies: take the newest messages of the two within an hour.
        begin, person_id, agent = id_at(last.at - EXCHANGE_SECONDS), exchange.person_id, exchange.agent
        found = db.execute(
            f"SELECT {SELECTED} FROM (SELECT * FROM message_log WHERE channel_id = ?1 AND message_id BETWEEN ?2 AND ?3"
            " ORDER BY message_id DESC LIMIT 200) WHERE author_id = ?4 OR agent = ?5 ORDER BY message_id DESC LIMIT ?6",
            (last.channel_id, begin, last.message_id, person_id, agent, MAX_TALK),
        )
        said = list(map(message_of, found))
    # Readers of a follow-up may not know other channels, so topics from there are left out.
    elsewhere = set(origins_of(db, exchange.person_id, last.channel_id)) - {last.channel_id}
    topics = () if elsewhere else topics_for(db, exchange.person_id, last.channel_id)
    return _person_candidate(exchange.person_id, last, said, topics, tuple(sorted(authors_of(said))))


def _exchanges(db: sqlite3.Connection, agent: str) -> list[Exchange]:
    """Return the agent's conversations, one per person and channel, the newest first."""
    found: dict[tuple[int, int], Exchange] = {}
    for channel_id in channels_of(db, agent):
        for post in db.execute(_POSTS, (agent, channel_id)).fetchall():
            sent, person_id = post["sent_at"] is not None, post["person_id"]
            if post["reply_to"] is None and not sent:  # it is for the person who wrote last
                since = id_at(post["at"] - EXCHANGE_SECONDS)
                person_id, *_ = db.execute(_LAST_WRITER, (channel_id, since, post["message_id"])).fetchone() or (None,)
            if person_id is not None:
                each = Exchange(agent, person_id, channel_id, post["message_id"], post["at"], unasked=sent)
                found.setdefault((channel_id, person_id), each)
    return sorted(found.values(), key=lambda exchange: -exchange.post_id)[:200]
