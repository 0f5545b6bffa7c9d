"""Rows of what is remembered: alike in whatever order the entries come, and however often."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC
from pathlib import Path

import aiosqlite
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.ids import id_at
from agentic.record.database import migrate
from agentic.record.memories import MemoryReader
from agentic.record.rows import Rules, days_in
from agentic.record.writing import _write_entries, transaction
from agentic.wire.entries import ConsentNote, DeletionNote, ProfileNote, UnaskedNote
from tests.support.recording import AT, said, summary

TABLES = ("message_log", "summaries", "summary_sources", "summary_people", "profiles", "consents", "unasked")
CHAIN = (said(1, "one"), said(2, "two", author_id=78, to=said(1)), said(3, "three", to=said(2)))
UNASKED = UnaskedNote(
    message_id=id_at(AT), agent="claude", task="discover", channel_id=5, person_id=77, text="x", at=AT
)


def mine(*topics, at, **more):
    return ProfileNote(user_id=77, name="Ann", topics=topics, by="person", at=at, **more)


def model_s(*topics, at, upto):
    return ProfileNote(user_id=77, name="Ann", topics=topics, upto=id_at(upto), at=at)


ENTRIES = (
    *CHAIN,
    CHAIN[0].model_copy(update={"text": "one, edited", "read_at": AT + 5}),
    CHAIN[2].model_copy(update={"reply_to": None, "read_at": AT + 5}),  # of a process that does not know it
    CHAIN[0].model_copy(update={"text": "one, edited at once", "read_at": AT + 5}),
    summary(*CHAIN, at=AT + 9),
    summary(*CHAIN, text="They talked more.", at=AT + 9),
    summary(*CHAIN[:2], text="They began.", at=AT + 1),
    model_s("tea", at=AT, upto=AT - 10),
    model_s("tea", "rain", at=AT + 2, upto=AT - 10),
    mine("coffee", at=AT + 20),
    model_s("coffee", "bread", at=AT + 60, upto=AT + 50),
    mine(at=AT + 5, deleted=True),
    ConsentNote(user_id=77, unasked=True, at=AT),
    ConsentNote(user_id=77, unasked=False, at=AT, because="🔕"),
    ConsentNote(user_id=78, unasked=True, at=AT),
    UNASKED,
    DeletionNote(channel_id=5, message_ids=(CHAIN[1].message_id, UNASKED.message_id), at=AT),
    DeletionNote(channel_id=6, message_ids=(), at=AT, whole=True),
    # Of nobody with a model's profile, which would be made anew where this leaves the log.
    said(5, "in a channel that is gone", channel_id=6, author_id=78),
)


async def written(path, batches):
    async with aiosqlite.connect(path, isolation_level=None) as db:
        await db.execute("PRAGMA foreign_keys = ON")
        for batch in batches:
            async with transaction(db):
                await _write_entries(db, batch, Rules(days_in(UTC)))
    with closing(sqlite3.connect(path)) as connection:
        return {table: sorted(map(repr, connection.execute(f"SELECT * FROM {table}"))) for table in TABLES}  # noqa: S608


def rows_of(batches):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.db"
        migrate(path)
        return asyncio.run(written(path, batches))


@pytest.fixture(scope="module")
def in_order():
    return rows_of([[entry] for entry in ENTRIES])


@pytest.mark.promise(421)
@settings(max_examples=25)
@given(order=st.permutations(ENTRIES), cut=st.integers(0, len(ENTRIES)), again=st.sampled_from(ENTRIES))
def test_entries_give_the_same_rows_in_any_order_and_number(order, cut, again, in_order):
    # A summary is removed by a source's edit only where it is the older one, as here it never is.
    assert rows_of([[again], order[:cut], order[cut:], [again]]) == in_order


def test_those_rows_are_what_the_rules_say(in_order):
    assert len(in_order["message_log"]) == 2, "one was deleted, one is of a deleted channel"
    assert (in_order["summaries"], in_order["summary_sources"], in_order["summary_people"]) == ([], [], [])
    assert len(in_order["profiles"]) == 2
    assert [row for row in in_order["profiles"] if "tea" in row] == []
    assert in_order["unasked"] == [repr((UNASKED.message_id, "claude", "discover", 5, 77, "", "", AT))]
    assert [eval(row)[:2] for row in in_order["consents"]] == [(77, 0), (78, 1)]  # noqa: S307


@pytest.fixture
def profile_of(scene):
    async def read(*notes):
        await scene.put(*notes)
        await scene.record()
        memory = MemoryReader(scene.path)
        found = await memory.profile(77)
        await memory.aclose()
        return (found.topics, found.by) if found else None

    return read


async def test_a_newer_profile_replaces_an_older_one(profile_of):
    newer, older = model_s("rain", at=AT + 5, upto=AT), model_s("tea", at=AT, upto=AT - 5)
    assert await profile_of(newer, older) == (("rain",), "model")


@pytest.mark.promise(421)
async def test_a_model_s_older_list_does_not_come_back_over_a_person_s_own(profile_of):
    assert await profile_of(mine("coffee", at=AT + 9), model_s("tea", at=AT + 20, upto=AT)) == (("coffee",), "person")


async def test_a_model_adds_to_a_person_s_own_list_where_newer_messages_exist(profile_of):
    added = model_s("Coffee", "bread", at=AT + 20, upto=AT + 15)
    assert await profile_of(mine("coffee", at=AT + 9), added) == (("coffee", "bread"), "person")


@pytest.mark.promise(421)
async def test_a_removed_profile_is_gone_until_there_is_something_newer(profile_of, scene):
    assert await profile_of(model_s("tea", at=AT, upto=AT - 1), mine(at=AT + 5, deleted=True)) is None
    assert scene.rows("SELECT by, name, topics FROM profiles") == [("person", "", "[]")]
    assert await profile_of(model_s("bread", at=AT + 20, upto=AT + 9)) == (("bread",), "model")


async def test_an_edit_removes_the_summary_from_before_it(scene):
    await scene.put(*CHAIN, summary(*CHAIN))
    await scene.record()
    await scene.put(CHAIN[0].model_copy(update={"read_at": AT + 5}))
    await scene.record()
    assert scene.rows("SELECT count(*) FROM summaries") == [(1,)], "it was read again, and is the same"
    await scene.put(CHAIN[0].model_copy(update={"text": "sorry", "read_at": AT + 9}))
    await scene.record()
    assert scene.rows("SELECT (SELECT count(*) FROM summaries), (SELECT count(*) FROM summary_people)") == [(0, 0)]
