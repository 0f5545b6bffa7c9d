"""Turns entries about what people say into rows; the same rules as in agentic/record/rows.py, and in any order alike.

A person's own profile and a model's are two rows. What a model made of messages from before the person's last edit is
not kept beside it, so a model adds to an edited or removed profile only where newer messages exist.
"""

from __future__ import annotations

import json

from agentic.ids import id_at
from agentic.record.rows import Statement, insert
from agentic.wire.entries import ConsentNote, LoggedMessage, ProfileNote, SummaryNote, UnaskedNote

MODEL, PERSON = "model", "person"  # who made a profile

_NOW = "(julianday('now') - 2440587.5) * 86400.0"


def lost_profiles(which: str, at: str = _NOW) -> str:
    """Empties a model's profiles that may be of messages which are about to leave the log; it makes them again of what
    is left. Else nobody knew any longer where their topics were spoken of. A person's own stay.

    `which` is the condition on `gone`, the messages, and `known`, the profile. `at`: what was read before is not taken
    any more; not when a deletion was seen, since the log was read until now.
    """
    return (
        f"UPDATE profiles SET name = '', topics = '[]', upto = 0, at = max(at, {at}) WHERE by = '{MODEL}'"
        " AND user_id IN (SELECT gone.author_id FROM message_log gone JOIN profiles known ON"
        f" known.user_id = gone.author_id AND known.by = '{MODEL}' AND known.upto >= gone.message_id WHERE {which})"
    )


MESSAGE = insert(
    "message_log",
    "message_id, channel_id, guild_id, service, author, author_id, agent, name, text, reply_to, at, read_at",
    "(message_id) DO UPDATE SET author = excluded.author, author_id = excluded.author_id, agent = excluded.agent,"
    " name = excluded.name, text = excluded.text, read_at = excluded.read_at"
    " WHERE (excluded.read_at, excluded.text) > (message_log.read_at, message_log.text)",
)
PARENT = "UPDATE message_log SET reply_to = ?1 WHERE message_id = ?2 AND reply_to IS NULL"
"""Not every process knows what a post answers, so a later row without that does not remove it."""

OUTDATED_SUMMARY = (
    "DELETE FROM summaries WHERE at < ?3"
    " AND message_id IN (SELECT summary_id FROM summary_sources WHERE message_id = ?1)"
    " AND EXISTS (SELECT 1 FROM message_log WHERE message_id = ?1 AND text <> ?2 AND read_at < ?3)"
)
OUTDATED_PROFILE = lost_profiles("gone.message_id = ?1 AND gone.text <> ?2 AND max(gone.read_at, known.at) < ?3", "?3")
SUMMARY = insert(
    "summaries",
    "message_id, channel_id, agent, text, at",
    "(message_id) DO UPDATE SET agent = excluded.agent, text = excluded.text, at = excluded.at"
    " WHERE (excluded.at, excluded.text) > (summaries.at, summaries.text)",
)
# Of all that were made of this chain: one too many removes a summary rather too soon than too late.
SUMMARY_SOURCE = insert("summary_sources", "message_id, summary_id")
SUMMARY_PERSON = insert("summary_people", "user_id, summary_id")

_PROFILE = "INSERT INTO profiles (user_id, by, name, topics, upto, deleted, at)"
_NEW_PROFILE = "name = excluded.name, topics = excluded.topics, upto = excluded.upto, at = excluded.at"
OWN_PROFILE = (
    f"{_PROFILE} VALUES (?, '{PERSON}', ?, ?, ?, ?, ?) ON CONFLICT (user_id, by) DO UPDATE SET {_NEW_PROFILE},"
    " deleted = excluded.deleted WHERE (excluded.at, excluded.topics) > (profiles.at, profiles.topics)"
)
MODELS_PROFILE = (
    f"{_PROFILE} SELECT ?1, '{MODEL}', ?2, ?3, ?4, 0, ?5"
    f" WHERE NOT EXISTS (SELECT 1 FROM profiles WHERE user_id = ?1 AND by = '{PERSON}' AND upto >= ?4)"
    f" ON CONFLICT (user_id, by) DO UPDATE SET {_NEW_PROFILE}"
    " WHERE (excluded.upto, excluded.at, excluded.topics) > (profiles.upto, profiles.at, profiles.topics)"
    " AND (profiles.upto > 0 OR excluded.at > profiles.at)"  # what was read before a loss may hand the lost on
)
OLD_PROFILE = (
    f"DELETE FROM profiles WHERE user_id = ?1 AND by = '{MODEL}'"
    f" AND upto <= (SELECT upto FROM profiles WHERE user_id = ?1 AND by = '{PERSON}')"
)
CONSENT = insert(
    "consents",
    "user_id, unasked, because, at",
    "(user_id) DO UPDATE SET unasked = excluded.unasked, because = excluded.because, at = excluded.at"
    # Of two at once the refusal counts.
    " WHERE (excluded.at, -excluded.unasked, excluded.because) > (consents.at, -consents.unasked, consents.because)",
)
UNASKED = insert("unasked", "message_id, agent, task, channel_id, person_id, cause, text, at")


def message_statements(said: LoggedMessage) -> list[Statement]:
    """A summary or a profile from before an edit may have the words that it removed."""
    place = (said.message_id, said.channel_id, said.guild_id, said.service)
    author = (said.author, said.author_id, said.agent, said.name)
    row = (*place, *author, said.text, said.reply_to, said.at, said.read_at)
    parent = [(PARENT, [(said.reply_to, said.message_id)])] if said.reply_to is not None else []
    edit = (said.message_id, said.text, said.read_at)
    return [(OUTDATED_SUMMARY, [edit]), (OUTDATED_PROFILE, [edit]), (MESSAGE, [row]), *parent]


def summary_statements(note: SummaryNote) -> list[Statement]:
    sources = dict.fromkeys((*note.message_ids, note.message_id))
    return [
        (SUMMARY, [(note.message_id, note.channel_id, note.agent, note.text, note.at)]),
        (SUMMARY_SOURCE, [(source, note.message_id) for source in sources]),
        (SUMMARY_PERSON, [(person, note.message_id) for person in dict.fromkeys(note.people)]),
    ]


def profile_statements(note: ProfileNote) -> list[Statement]:
    """A person's own one knows all messages from before it."""
    topics = json.dumps(note.topics, ensure_ascii=False)
    if not note.deleted and note.by == MODEL:
        return [(MODELS_PROFILE, [(note.user_id, note.name, topics, note.upto, note.at)])]
    shown = ("", "[]") if note.deleted else (note.name, topics)
    row = (note.user_id, *shown, id_at(note.at), int(note.deleted), note.at)
    return [(OWN_PROFILE, [row]), (OLD_PROFILE, [(note.user_id,)])]


def consent_statement(note: ConsentNote) -> Statement:
    return CONSENT, [(note.user_id, int(note.unasked), note.because, note.at)]


def unasked_statement(note: UnaskedNote) -> Statement:
    what = (note.channel_id, note.person_id, note.cause, note.text, note.at)
    return UNASKED, [(note.message_id, note.agent, note.task, *what)]
