"""`python -m agentic.record replay` over a record, a model server and a Redis of its own."""

from __future__ import annotations

import io
import json
from datetime import datetime

import pytest

from agent_config import load_settings
from agentic.record.__main__ import build_parser, main
from agentic.replay.command import replay
from agentic.state.shared_state import SharedState
from agentic.wire.connection import RedisConnection
from tests.support.models.chat_api import ChatServer
from tests.support.models.chat_doubles import ChatScript
from tests.support.recorded_calls import SYSTEM, recorded_call, write_record
from tests.support.redis_server import RedisServer

TEA = json.dumps({"skip": False, "text": "Tea."})
COFFEE = json.dumps({"skip": False, "text": "Coffee, at this hour.", "react_emoji": "☕"})
CALL_USD = 0.012  # 100 tokens in and 20 out at 100 dollars a million


@pytest.fixture
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture
async def models():
    async with ChatServer(ChatScript(COFFEE, TEA)) as server:
        yield server


@pytest.fixture
def settings(tmp_path, models, redis):
    """`settings(**more)`: all agents have the model of this server, which costs 100 dollars a million tokens."""
    prices = f"{{base_url: {models.base_url}, price_in: 100, price_out: 100}}"
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "endpoints.yaml").write_text(f"endpoints:\n  llamacpp: {prices}\n")
    places = {"CONFIG_FILES_DIR": str(tmp_path / "config"), "DATA_DIR": str(tmp_path), "REDIS_URL": redis.url}

    def made(**more):
        return load_settings({**places, **more}, env_file=None, model="llamacpp/local")

    write_record(
        tmp_path / "record.db",
        "c1",
        [recorded_call(TEA, turn_id="i1")],
        [recorded_call(TEA, turn_id="i2", agent="grok", at=1.8e9 + 9)],
        [recorded_call(TEA, turn_id="i3", at=1.8e9 + 20, options={"rounds": [{}]})],
    )
    return made


def options(*arguments):
    return build_parser().parse_args(["replay", *arguments])


async def booked(settings, agent):
    async with RedisConnection(settings.redis_url) as link:
        today = f"{datetime.now(settings.timezone):%Y-%m-%d}"
        return await SharedState(link).limits.costs.read(agent, today)


async def test_old_and_new_answers_stand_beside_each_other_and_are_booked_as_replays(
    settings, models, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "110")
    known = settings()
    assert await replay(options("--conversation", "c1", "--yes"), known) == 1, "the third turn cannot be read"
    shown = capsys.readouterr().out
    assert "Claude · round 1 · claude/i1" in shown
    assert "speaks, reacts ☕" in shown
    assert any("Tea." in line and "Coffee, at this hour." in line for line in shown.splitlines())
    assert "Both: llamacpp/local · speaks" in shown, "Grok's"
    assert "not replayed: this version can't read its recorded prompt" in shown
    assert "2 turns replayed: 1 with the same answer to the byte" in shown
    assert [request.messages[0]["content"] for request in models.requests] == [SYSTEM, SYSTEM]
    costs = await booked(known, "claude")
    assert (costs["total_cost"], costs["replay_cost"], costs["ai_calls"]) == (CALL_USD, CALL_USD, 1)


@pytest.mark.parametrize("which", [("--conversation", "c1"), ("--last",)])
async def test_an_estimate_is_no_less_than_the_cost_and_calls_nothing(settings, models, redis, capsys, which):
    redis.kill()
    assert await replay(options(*which, "--agent", "grok", "--estimate", "--json"), settings()) == 0
    estimate = json.loads(capsys.readouterr().out)
    assert estimate["most_usd"] == estimate["turns"]["grok/i2"] > CALL_USD
    assert models.requests == []


async def test_what_may_cost_more_than_a_cent_is_confirmed_first(settings, models, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    assert await replay(options("--turn", "claude/i1"), settings()) == 2
    assert "Give --yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert await replay(options("--turn", "claude/i1"), settings()) == 0
    assert len(models.requests) == 1


@pytest.mark.promise(144)
@pytest.mark.parametrize(
    ("budget", "refused"), [("BUDGET_DAILY_USD", "today's budget"), ("BUDGET_AGENT_DAILY_USD", "the agent's budget")]
)
async def test_a_used_up_budget_refuses_and_nothing_is_called(settings, models, capsys, budget, refused):
    assert await replay(options("--turn", "claude/i1", "--yes", "--json"), settings(**{budget: "0.01"})) == 1
    (turn,) = json.loads(capsys.readouterr().out)["turns"]
    assert turn["problem"].startswith(refused)
    assert (turn["new"], models.requests) == (None, [])


async def test_a_mistyped_persona_is_told_once_and_before_anything_is_asked(settings, models, capsys):
    assert await replay(options("--conversation", "c1", "--persona", "personas/grokk", "--yes"), settings()) == 2
    told = capsys.readouterr()
    assert told.err.startswith("--persona personas/grokk: no such folder")
    assert (told.out, models.requests) == ("", [])


async def test_without_redis_nothing_that_costs_is_called(settings, models, redis, capsys):
    redis.kill()
    assert await replay(options("--turn", "claude/i1", "--yes"), settings()) == 1
    assert "Redis is unavailable" in capsys.readouterr().err
    assert models.requests == []


def test_a_turn_that_the_record_does_not_have_is_said_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setattr("agentic.replay.command.set_up_logging", lambda *_, **__: None)  # it is the test runner's
    assert main(["replay", "--turn", "claude/i9"]) == 1
    assert "No history was found" in capsys.readouterr().err
    write_record(tmp_path / "record.db", "c1", [recorded_call()])
    assert main(["replay", "--turn", "claude/i9"]) == 1
    assert "no such turn" in capsys.readouterr().err
