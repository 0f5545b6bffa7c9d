"""The costs that the public program left in Redis become days of the record, once."""

import asyncio
from contextlib import closing

import pytest
from support.records import fill
from support.redis_server import RedisServer

from agentic.record.__main__ import main
from agentic.record.database import connect_blocking
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import PATIENT

KEPT = {
    "agent:claude:cost:2026-05-01": {"total_cost": "1.25", "ai_cost": "1.25", "input_tokens": "4000", "ai_calls": "9"},
    "agent:grok:cost:2026-05-02": {"total_cost": "0.5", "image_cost": "0.25", "note": "by hand", "odd": "nan"},
    "agent:grok:cost:2026-05-03": {"total_cost": "0"},
    "agent:grok:cost:yesterday": {"total_cost": "99"},
    "another:program:cost:2026-05-01": {"total_cost": "99"},
}


async def write(url, kept):
    async with RedisConnection(url, command_timeout=PATIENT) as link:
        for key, fields in kept.items():
            await link.call(lambda redis, key=key, fields=fields: redis.hset(key, mapping=fields))
        await link.call(lambda redis: redis.set("agent:grok:cost:2026-05-09", "no hash"))


def imported(path):
    with closing(connect_blocking(path)) as connection:
        found = connection.execute("SELECT day, agent, field, amount FROM imported_costs ORDER BY 1, 2, 3").fetchall()
    return [tuple(row) for row in found]


@pytest.fixture
def command(monkeypatch, tmp_path):
    with RedisServer() as server:
        monkeypatch.setenv("DATA_DIR", str(tmp_path))
        monkeypatch.setenv("REDIS_URL", server.url)
        monkeypatch.chdir(tmp_path)
        yield lambda kept: asyncio.run(write(server.url, kept)) or main(["import-costs"])


@pytest.mark.promise(129)
def test_the_costs_of_redis_are_imported_once_however_often_it_is_done(command, tmp_path, capsys):
    assert command(KEPT) == 0
    assert (
        "Imported the costs of 2026-05-01 to 2026-05-02: $1.75 (claude $1.25, grok $0.50)." in capsys.readouterr().out
    )
    first = imported(tmp_path / "record.db")
    assert ("2026-05-01", "claude", "input_tokens", 4000.0) in first
    assert {(day, agent) for day, agent, _, _ in first} == {("2026-05-01", "claude"), ("2026-05-02", "grok")}
    assert not {"note", "odd"} & {field for _, _, field, _ in first}
    assert command(KEPT) == 0
    assert imported(tmp_path / "record.db") == first


@pytest.mark.promise(129)
def test_days_that_the_record_has_itself_are_left_out(command, tmp_path, capsys):
    fill(tmp_path / "record.db", 200, days=2)
    kept = {f"agent:claude:cost:{day}": {"total_cost": "7"} for day in ("2026-11-20", "2026-11-22")}
    assert command(kept) == 0
    assert capsys.readouterr().out.endswith("Skipped 1 daily sum of days that are already recorded.\n")
    assert imported(tmp_path / "record.db") == [("2026-11-20", "claude", "total_cost", 7.0)]


def test_a_redis_that_does_not_answer_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("REDIS_URL", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["import-costs"]) == 1
    assert "Nothing was imported" in capsys.readouterr().err
    assert not (tmp_path / "record.db").exists()
