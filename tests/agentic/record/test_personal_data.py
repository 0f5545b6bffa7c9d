"""The table of what is stored about whom knows every column about a person, and says how each kind of data ends."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_config import load_settings
from agentic.ids import id_at
from agentic.record.database import FOLDER, connect_blocking, migrate, read_migrations
from agentic.record.forgetting import export_person
from agentic.record.personal_data import RECORD, STORED, Kind, inventory
from agentic.wire.entries import (
    ActionNote,
    ConsentNote,
    Contender,
    ContestNote,
    PostWords,
    ProfileNote,
    ReactionNote,
    RoomMessage,
    RoomNote,
    RoomWords,
    SearchWords,
    UnaskedNote,
)
from tests.support.recording import quotes, said, summary, turn, words

ROOT = Path(__file__).parents[3]
ABOUT_PEOPLE = re.compile(r"_id$|_by$|^by$|name$|user|person|people|author")
ANN, BOB, OTHER = 77, 78, 79

OF_AGENTS = "ready owner bench seen count cooldown ticks cost window session reset"
OF_ALL = (
    "room_shares "
    "summary_claim owner idle rooms room_marks pulls past_pulls personas recorded_agents live_options commands_bot"
    " recorder check schedule channel_queue starter_queue conversation webhook_posts instructed notice event"
    " reactive_cooldown proposals_stirred avatars"
)
ABOUT_NOBODY = {f"agent:{{name}}:{key}" for key in OF_AGENTS.split()} | {f"coordinator:{key}" for key in OF_ALL.split()}
"""The keys of Redis, up to their next part, that neither say who a person is nor have a person's words."""


DEFAULTS = load_settings({}, None)


def cells(kind: Kind) -> tuple[str, ...]:
    return kind.table.name, kind.where, kind.expires, kind.forgotten, kind.exported


def columns(path: Path) -> dict[str, list[str]]:
    with closing(connect_blocking(path)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        ours = (name for name in tables if name != "migrations" and not name.startswith(("sqlite_", "memory_index")))
        return {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in ours}


def known() -> dict[str, set[str]]:
    """The columns that the table names, by table."""
    found: dict[str, set[str]] = {}
    for row in RECORD:
        names = found.setdefault(row.table, set())
        names |= {each for each in (row.person, row.sent, row.message, row.channel) if each}
        names |= {*row.export.split(), *row.rest.split(), *filter(None, row.key.split(", "))}
        for effect in (row.on_forget, row.on_delete):
            names |= {*effect} if isinstance(effect, Mapping) else set()
        for child, (theirs, _) in (row.children or {}).items():
            found.setdefault(child, set()).update(theirs.split(", "))
    return found


def unknown(path: Path) -> list[str]:
    """The tables, and the columns that look as if they were about a person, that the table does not know."""
    has = known()
    missing = [table for table in columns(path) if table not in has]
    for table, names in columns(path).items():
        missing += [f"{table}.{name}" for name in names if ABOUT_PEOPLE.search(name) and name not in has.get(table, ())]
    return missing


def test_every_table_and_every_column_about_people_is_known(tmp_path: Path) -> None:
    migrate(tmp_path / "record.db")
    assert unknown(tmp_path / "record.db") == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("CREATE TABLE friends (a INTEGER, b INTEGER);", ["friends"]),
        ("ALTER TABLE rooms ADD COLUMN closed_by INTEGER;", ["rooms.closed_by"]),
        ("ALTER TABLE posts ADD COLUMN reader_id INTEGER;", ["posts.reader_id"]),
        ("ALTER TABLE reactions ADD COLUMN user_name TEXT;", ["reactions.user_name"]),
    ],
)
@pytest.mark.promise(576)
def test_a_migration_that_adds_one_is_noticed(tmp_path: Path, sql: str, found: list[str]) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(FOLDER, folder)
    (folder / f"{len(read_migrations()) + 1:04d}_more.sql").write_text(sql)
    migrate(tmp_path / "record.db", read_migrations(folder))
    assert unknown(tmp_path / "record.db") == found


def test_the_table_names_only_columns_that_there_are(tmp_path: Path) -> None:
    migrate(tmp_path / "record.db")
    there = columns(tmp_path / "record.db")
    for table, names in known().items():
        assert names <= {*there[table]}, table


def test_each_kind_of_data_is_forgotten_and_sent_or_the_table_says_why_not() -> None:
    for row in STORED:
        same = [each for each in STORED if each.table == row.table]
        ends = any(each.store or each.theirs or (each.person and each.on_forget != "keep") for each in same)
        if row.name:
            assert row.expires, row.name
            assert ends or any(each.stays for each in same), row.name
            assert any(each.export or each.withheld or each.stays for each in same), row.name
            assert max(len(cell.split()) for kind in inventory(DEFAULTS) for cell in cells(kind)) <= 25
        if row.person and not row.name:
            assert any(each.name or each.withheld for each in same), row


def test_the_page_about_privacy_lists_the_table() -> None:
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    for kind in inventory(DEFAULTS):
        assert f"| {' | '.join(cells(kind))} |" in page, kind.table.name


def test_the_keys_of_redis_are_those_of_the_protocol_and_each_that_is_about_people_is_listed() -> None:
    page = (ROOT / "docs" / "dev" / "protocol.md").read_text()
    documented = set(re.findall(r"^\| `([a-z]+:[^`]+)` \| (?!channel)", page, re.MULTILINE))
    listed = {row.table for row in STORED if row.place == "redis"}
    assert listed - documented == set()
    known = tuple(f"{key}:" for key in listed | ABOUT_NOBODY)
    assert {key for key in documented if not f"{key}:".startswith(known)} == set()


def everything(number: int, person: int = ANN, word: str = "secret") -> list[Any]:
    """An entry of each kind in which a person is named, and their words are "secret"."""
    name = {ANN: "Ann", BOB: "Bob"}[person]
    message = said(number, word, channel_id=5, author_id=person, name=name)
    at, post = message.at, id_at(message.at + 1)
    return [
        turn(f"t{number}", asked_by=person, asked_message_id=message.message_id, at=at, guild_id=9),
        words(f"t{number}", asked_by=person, at=at, text=word, quoted=quotes((message.message_id, person))),
        words(
            f"q{number}",
            asked_by=OTHER,
            at=at,
            text=word,
            quoted=quotes((message.message_id, person), (-person, person)),
        ),
        SearchWords(agent="claude", turn_id=f"t{number}", n=0, channel_id=5, at=at, query=word),
        PostWords(
            agent="claude",
            turn_id=f"t{number}",
            message_id=post,
            channel_id=5,
            at=at,
            text="an answer",
            answers_message_id=message.message_id,
        ),
        ReactionNote(message_id=post, channel_id=5, user_id=person, emoji="🔥", at=at),
        ActionNote(id=f"a{number}", at=at, by=str(person), action="start", detail=word),
        RoomWords(
            agent="claude",
            thread_id=50,
            at=at,
            messages=(RoomMessage(message_id=message.message_id, author="person", author_id=person, text=word, at=at),),
        ),
        RoomNote(
            thread_id=50 + number,
            channel_id=5,
            conversation_id="c",
            topic="tea",
            policy="pull",
            status="active",
            opened_by=person,
            opened_at=at,
            changed_at=at,
        ),
        ContestNote(
            id=str(message.message_id),
            kind="arena",
            at=at,
            channel_id=5,
            question=word,
            asked_by=person,
            contenders=(Contender(agent="claude"),),
        ),
        message,
        summary(message, text=word, at=at),
        ProfileNote(user_id=person, name=name, topics=(word,), upto=message.message_id, at=at),
        ProfileNote(user_id=person, name=name, topics=(word,), by="person", at=at),
        ConsentNote(user_id=person, unasked=True, at=at),
        UnaskedNote(
            message_id=post + 1,
            agent="claude",
            task="discover",
            channel_id=5,
            person_id=person,
            cause=word,
            text=word,
            at=at,
        ),
    ]


def left_of(path: Path) -> set[str]:
    """The columns of all tables in which Ann's id, or her word, still is."""
    found = set()
    with closing(connect_blocking(path)) as db:
        for table, names in columns(path).items():
            for name in names:
                query = (
                    f"SELECT 1 FROM {table} WHERE CAST({name} AS TEXT) IN ('{ANN}', 'Ann') OR {name} LIKE '%secret%'"  # noqa: S608
                )
                if db.execute(query).fetchone():
                    found.add(f"{table}.{name}")
    return found


@pytest.mark.promise(134)
@pytest.mark.promise(420)
@pytest.mark.parametrize("late", [False, True], ids=["recorded before the request", "that arrive after it"])
async def test_no_column_of_any_table_has_a_forgotten_person(scene: Any, late: bool) -> None:
    """Whatever names them, and whether it was recorded before the request or arrives after it."""
    if not late:
        await scene.put(*everything(1))
        await scene.record()
        people = {f"{row.table}.{row.person}" for row in RECORD if row.person} - {"forgotten.user_id"}
        assert people <= left_of(scene.path) | {"actions.by"}
    await scene.forgets.order(ANN)
    await scene.record()
    await scene.put(*everything(1), *everything(2))
    await scene.record()
    assert left_of(scene.path) == {"forgotten.user_id"}
    assert scene.rows("SELECT count(*) > 1, count(DISTINCT agent) FROM turns") == [(1, 1)], "the turns stay"


@pytest.mark.promise(577)
async def test_a_person_is_sent_what_is_theirs_and_no_word_of_anybody_else(scene: Any) -> None:
    shared = words("both", asked_by=ANN, text="bees, wasps", quoted=quotes((1, ANN), (2, BOB)))
    await scene.put(*everything(1, ANN, "bees"), *everything(2, BOB, "wasps"), shared)
    await scene.record()
    with closing(connect_blocking(scene.path)) as db:
        sent = {person: export_person(db, [person]) for person in (ANN, BOB)}
        both = export_person(db, [ANN, BOB])
    assert [row["detail"] for row in sent[ANN]["actions"]] == ["bees"]
    assert set(sent[ANN]) == {row.table for row in RECORD if row.person and row.export}
    assert {table for table, rows in sent[ANN].items() if not rows} == {"forgotten"}
    for person, others in ((ANN, ("wasps", "Bob", str(BOB))), (BOB, ("bees", "Ann", str(ANN)))):
        text = re.sub(r"1\d{9}\.0|\d{15,}", "", json.dumps(sent[person]))  # times and long ids
        assert [word for word in others if word in text] == []
    assert {table: len(rows) for table, rows in both.items()} == {
        table: len(rows) + len(sent[BOB][table]) for table, rows in sent[ANN].items()
    }
