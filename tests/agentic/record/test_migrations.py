"""Migrations: applied once, in order, all or nothing, never to a file that they do not fit to."""

import hashlib
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from agentic.record.__main__ import main
from agentic.record.database import (
    Migration,
    MigrationError,
    RecordError,
    connect,
    connect_blocking,
    copies,
    migrate,
    read_migrations,
    try_on_copy,
)

FIRST = Migration(
    1, "first", "CREATE TABLE posts (text TEXT) STRICT; -- two\nINSERT INTO posts VALUES ('a;b');\n-- end"
)
SECOND = Migration(2, "second", "ALTER TABLE posts ADD COLUMN at REAL;\nUPDATE posts SET at = 1;")
BROKEN = Migration(
    2, "broken", "ALTER TABLE posts ADD COLUMN at REAL;\nDELETE FROM posts;\nINSERT INTO missing VALUES (1);"
)


def rows(path, question="SELECT * FROM posts"):
    with closing(connect_blocking(path)) as connection:
        return [tuple(row) for row in connection.execute(question)]


def test_the_migrations_of_the_program_make_a_sound_file(tmp_path):
    path = tmp_path / "data" / "record.db"
    assert migrate(path) == read_migrations()
    assert path.stat().st_mode & 0o077 == 0, "words of people: the owner alone may read them"
    with closing(connect_blocking(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_the_statements_of_released_migrations_never_change():
    def digest(migration):
        statements = " ".join(re.sub(r"--[^\n]*", "", migration.text).split())
        return hashlib.sha256(statements.encode()).hexdigest()[:16]

    assert {str(each): digest(each) for each in read_migrations()} == {  # a new one is added here
        "0001_record": "beaecc034b9206fe",
        "0002_replays": "b5e726ea9675e5bc",
        "0003_rooms": "b92714e6c1d2727c",
        "0004_memory": "47b1b52abae608ca",
        "0005_searches": "643e1196bce5b9e1",
        "0006_room_formats": "d3b3918b71517269",
        "0007_debates": "064ef0996613736a",
    }


@pytest.mark.parametrize(("mode", "then"), [(0o644, 0o600), (0o600, 0o600), (0o640, 0o640)])
def test_a_file_that_was_restored_by_hand_is_its_owners_alone_unless_a_group_was_let_in(tmp_path, mode, then):
    path = tmp_path / "record.db"
    path.touch()
    path.chmod(mode)
    with closing(connect_blocking(path, writable=True)) as connection:
        connection.execute("CREATE TABLE words (text TEXT)")
        assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {then}


@pytest.mark.promise(556)
def test_a_second_connection_of_the_process_keeps_the_locks_of_the_first(tmp_path):
    path = tmp_path / "record.db"
    migrate(path, [FIRST])
    insert = "INSERT INTO posts VALUES ('from elsewhere')"
    code = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute({insert!r}); c.commit(); c.close()"
    with closing(connect_blocking(path, writable=True)) as first:
        first.execute("INSERT INTO posts VALUES ('before')")
        connect_blocking(path, writable=True).close()
        subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603
        first.execute("INSERT INTO posts VALUES ('after')")
        assert [text for (text,) in rows(path)][-3:] == ["before", "from elsewhere", "after"]


def test_what_is_applied_is_recorded_and_not_applied_again(tmp_path):
    path = tmp_path / "record.db"
    assert migrate(path, [FIRST], clock=lambda: 5.0) == [FIRST]
    assert migrate(path, [FIRST, SECOND], clock=lambda: 6.0) == [SECOND]
    assert migrate(path, [FIRST, SECOND]) == []
    assert rows(path) == [("a;b", 1.0)]
    recorded = rows(path, "SELECT number, name, applied_at FROM migrations")
    assert recorded == [(1, "first", 5.0), (2, "second", 6.0)]


@pytest.mark.promise(132)
def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "record.db"
    migrate(path, [FIRST])
    with pytest.raises(MigrationError, match=r"0002_broken failed.*no such table: missing"):
        migrate(path, [FIRST, BROKEN])
    assert rows(path) == [("a;b",)]
    assert rows(path, "SELECT max(number) FROM migrations") == [(1,)]
    assert migrate(path, [FIRST, SECOND]) == [SECOND]


@pytest.mark.promise(132)
def test_a_copy_is_made_before_each_migration_and_the_newest_three_are_kept(tmp_path):
    path = tmp_path / "record.db"
    steps = [FIRST, *(Migration(n, "more", "INSERT INTO posts VALUES (hex(3));") for n in range(2, 7))]
    migrate(path, steps[:1])
    assert copies(path) == [], "a new file has nothing to keep"
    migrate(path, steps)
    assert [copy.name for copy in copies(path)] == [f"record.db.before-000{n}" for n in (4, 5, 6)]
    assert rows(copies(path)[0]) == [("a;b",), ("33",), ("33",)]
    assert copies(path)[0].stat().st_mode & 0o077 == 0


@pytest.mark.promise(131)
def test_a_file_of_a_newer_program_of_other_migrations_or_of_another_program_is_refused(tmp_path):
    path = tmp_path / "record.db"
    migrate(path, [FIRST, SECOND])
    before = path.read_bytes()
    with pytest.raises(MigrationError, match=r"a newer version .*0002_second.*\.before-0002"):
        migrate(path, [FIRST])
    with pytest.raises(MigrationError, match="not 0001_other"):
        migrate(path, [Migration(1, "other", FIRST.text), SECOND])
    assert path.read_bytes() == before
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    with pytest.raises(MigrationError, match="another program's"):
        migrate(other, [FIRST])


def test_a_trial_leaves_nothing_behind_and_says_what_would_fail(tmp_path):
    path = tmp_path / "record.db"
    migrate(path, [FIRST])
    assert try_on_copy(path, [FIRST, SECOND]) == [SECOND]
    with pytest.raises(MigrationError, match="0002_broken failed"):
        try_on_copy(path, [FIRST, BROKEN])
    assert rows(path) == [("a;b",)]
    assert {file.name for file in tmp_path.iterdir()} <= {"record.db", "record.db-wal", "record.db-shm"}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("0001_a.sql", "0001_b.sql"), "0001_b: its number is taken by 0001_a"),
        (("0001_a.sql", "0003_b.sql"), "migration 0002 before it is missing"),
        (("1_a.sql",), "NNNN_name"),
    ],
)
def test_doubled_missing_and_odd_numbers_are_found(tmp_path, names, problem):
    for name in names:
        (tmp_path / name).write_text("")
    with pytest.raises(MigrationError, match=problem):
        read_migrations(tmp_path)


async def test_a_reader_changes_nothing_and_needs_a_file(tmp_path):
    path = tmp_path / "a #? folder%20" / "record.db"
    with pytest.raises(RecordError, match="No history was found at"):
        await connect(path)
    migrate(path, [FIRST])
    reader = await connect(path)
    try:
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await reader.execute("DELETE FROM posts")
    finally:
        await reader.close()


def test_the_command_line_says_in_a_line_what_it_did(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    path = tmp_path / "record.db"
    assert main(["migrate", "--validate"]) == 0
    assert main(["migrate", "--test"]) == 0
    assert not path.exists()
    assert main(["migrate"]) == 0
    assert main(["migrate"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{path} is up to date."
    path.write_bytes(b"no database" * 100)
    assert main(["migrate"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("TIMEZONE", "nowhere")
    assert main(["migrate"]) == 2


TRICKY = """
CREATE TABLE a (x TEXT) STRICT; CREATE TABLE b (x TEXT) STRICT; -- two; on a line
/* not; a statement; */ INSERT INTO a VALUES ('one; two'), ("three;"); INSERT INTO a VALUES ('it''s; fine');
CREATE TRIGGER t AFTER INSERT ON a BEGIN
    INSERT INTO b VALUES (CASE WHEN new.x = ';' THEN 'semicolon' ELSE new.x END); DELETE FROM a WHERE x = ';';
END; INSERT INTO a VALUES (';'); INSERT INTO a VALUES ('last')"""


def test_semicolons_end_statements_only_if_sqlite_says_so(tmp_path):
    path = tmp_path / "record.db"
    migrate(path, [Migration(1, "tricky", TRICKY.replace('"three;"', "'three;'"))])
    assert rows(path, "SELECT x FROM a") == [("one; two",), ("three;",), ("it's; fine",), ("last",)]
    assert rows(path, "SELECT x FROM b") == [("semicolon",), ("last",)]


@pytest.mark.promise(543)
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("COMMIT", "must not end its transaction"),
        ("INSERT INTO missing VALUES (1)", "no such table: missing"),
        ("CREATE TABLE one (a UNIQUE); INSERT INTO one VALUES (1); INSERT OR ROLLBACK INTO one VALUES (1)", "UNIQUE"),
        ("DROP TABLE migrations", "no such table: migrations"),
    ],
)
def test_a_migration_that_ends_its_transaction_leaves_the_file_as_it_was(tmp_path, body, why):
    path = tmp_path / "record.db"
    migrate(path, [FIRST])
    with pytest.raises(MigrationError, match=f"0002_bad failed.*{why}"):
        migrate(path, [FIRST, Migration(2, "bad", "DELETE FROM posts; " + body + ";")])  # noqa: S608
    assert rows(path) == [("a;b",)]
    assert migrate(path, [FIRST, SECOND]) == [SECOND]


def test_the_command_line_takes_a_path(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    path = tmp_path / "backup" / "old.db"
    migrate(path, read_migrations()[:1])
    for how, said in (("--validate", f"{path} lacks 0002_"), ("--test", f"Tried on a copy of {path}: 0002_")):
        assert main(["migrate", how, str(path)]) == 0
        assert said in capsys.readouterr().out
    assert rows(path, "SELECT count(*) FROM migrations") == [(1,)]
    assert main(["migrate", str(path)]) == 0
    assert main(["migrate", "--validate", str(path)]) == 0
    assert capsys.readouterr().out.endswith(f"{path} is up to date.\n")
    assert not (tmp_path / "data").exists()
    (tmp_path / "odd.db").write_bytes(b"no database" * 100)
    assert main(["migrate", str(tmp_path / "odd.db")]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'odd.db'}: ")
    assert main(["migrate", str(tmp_path / "mistyped.db")]) == 1
    assert capsys.readouterr().err == f"{tmp_path / 'mistyped.db'}: this file doesn't exist\n"
    assert not (tmp_path / "mistyped.db").exists()
