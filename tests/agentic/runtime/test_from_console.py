"""The console's replays, from a request to a model server and back."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from agent_config import load_settings
from agentic.console.parts import RecordFile
from agentic.runtime.replays import ConsoleReplays
from agentic.state.shared_state import SharedState
from agentic.wire.connection import RedisConnection
from tests.support.console import client_of, console_parts, csrf
from tests.support.models.chat_api import ChatServer
from tests.support.models.chat_doubles import ChatScript
from tests.support.recorded_calls import PERSONA, recorded_call, write_record
from tests.support.redis_server import RedisServer

TEA = json.dumps({"skip": False, "text": "Tea."})
COFFEE = json.dumps({"skip": False, "text": "Coffee."})
TURN = "/api/turns/claude/i1/replay"


class Notes:
    def __init__(self):
        self.taken = []

    def note(self, note):
        self.taken.append(note)


@asynccontextmanager
async def console(tmp_path, link, *answers, **more):
    """(post, notes, server): a console over the record of one turn, and the server of the agents' model."""
    async with ChatServer(ChatScript(*answers)) as server:
        (tmp_path / "config").mkdir()
        prices = f"{{base_url: {server.base_url}, price_in: 100, price_out: 100}}"
        (tmp_path / "config" / "endpoints.yaml").write_text(f"endpoints:\n  llamacpp: {prices}\n")
        (tmp_path / "personas" / "bold").mkdir(parents=True)
        (tmp_path / "personas" / "bold" / "soul.md").write_text("You are bold.\n")
        places = {"CONFIG_FILES_DIR": "config", "PERSONAS_DIR": "personas"}
        environ = {name: str(tmp_path / folder) for name, folder in places.items()}

        def load(model):
            return load_settings(environ, None, model=model)

        write_record(tmp_path / "record.db", "c1", [recorded_call(TEA)])
        store, notes = RecordFile(tmp_path / "record.db"), Notes()
        replays = ConsoleReplays(load("llamacpp/local"), SharedState(link), load=load, **more)
        parts = console_parts(link, environ, store=store, notes=notes)
        async with client_of(parts, *replays.routes(parts)) as client:
            headers = await csrf(client)

            async def post(path=TURN, **body):
                response = await client.post(path, json=body, headers=headers)
                return response.status, await response.json()

            assert await (await client.get("/api/replay")).json() == {
                "models": ["llamacpp/local"],
                "personas": ["bold"],
            }
            yield post, notes.taken, server


async def costs_of(agent, link):
    today = f"{datetime.now(load_settings({}, None).timezone):%Y-%m-%d}"
    return await SharedState(link).limits.costs.read(agent, today)


@pytest.fixture
async def link():
    with RedisServer() as server:
        async with RedisConnection(server.url) as opened:
            yield opened


async def test_an_estimate_comes_first_and_the_replay_is_booked_and_noted(tmp_path, link):
    async with console(tmp_path, link, COFFEE) as (post, notes, server):
        status, estimate = await post(estimate=True)
        assert (status, estimate["model"], server.requests, notes) == (200, "llamacpp/local", [], [])
        status, answers = await post(persona="bold")
        assert (status, answers["old"]["decision"], answers["new"]["decision"]) == (
            200,
            {"text": "Tea."},
            {"text": "Coffee."},
        )
        assert 0 < answers["new"]["cost_usd"] <= estimate["most_usd"]
        system = server.requests[0].messages[0]["content"]
        assert "You are bold." in system
        assert PERSONA not in system
        (note,) = notes
        assert (note.action, note.by, note.agent) == ("replay", "console", "claude")
        assert (note.detail, note.outcome) == ("i1, persona bold", "another answer, $0.0120")
        assert (await costs_of("claude", link))["replay_cost"] == answers["new"]["cost_usd"]


async def test_a_persona_file_is_tried_without_being_saved(tmp_path, link):
    async with console(tmp_path, link, COFFEE) as (post, notes, server):
        folder = tmp_path / "personas" / "claude"
        folder.mkdir()
        (folder / "soul.md").write_text("You are calm.\n")
        (folder / "user.md").write_text("Sam likes tea.\n")
        status, answers = await post(file="soul.md", text="You are a pirate.\n")
        assert (status, answers["new"]["decision"]) == (200, {"text": "Coffee."})
        system = server.requests[0].messages[0]["content"]
        assert "You are a pirate." in system
        assert "Sam likes tea." in system
        assert "You are calm." not in system
        assert (folder / "soul.md").read_text() == "You are calm.\n"
        assert notes[0].detail == "i1, soul.md"


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        (TURN, {"file": "../soul.md", "text": "x"}, 400, "file"),
        (TURN, {"file": "soul.md", "text": "x", "persona": "bold"}, 400, "Change only one: the model, the persona, or"),
        ("/api/turns/claude/i9/replay", {}, 404, "isn't in the history"),
        (TURN, {"persona": "../config"}, 404, "isn't in PERSONAS_DIR"),
        (TURN, {"persona": "bold", "model": "llamacpp/local"}, 400, "Change only one: the model, the persona, or"),
        (TURN, {"model": "llamacpp/other", "estimate": True}, 400, "no such model"),
        (TURN, {"model": "nobody/x"}, 400, "expected provider/model"),
        (TURN, {"persona": 7}, 400, "persona"),
    ],
)
async def test_what_cannot_be_replayed_is_said_in_one_line(tmp_path, link, path, body, status, error):
    async with console(tmp_path, link, TEA) as (post, notes, server):
        got, answer = await post(path, **body)
        assert got == status
        assert error in answer["error"]
        assert server.requests == []
        assert all(error in note.outcome for note in notes)


class Held:
    """A model that never answers."""

    name, can_draw, free = "llamacpp/local", False, False

    def __init__(self, _agent):
        self.asked = asyncio.Event()

    async def complete(self, _prompt, _history=()):
        self.asked.set()
        await asyncio.Event().wait()

    async def aclose(self):
        pass


@pytest.mark.promise(144)
async def test_one_replay_runs_at_a_time_and_what_a_cancelled_call_may_have_cost_counts(tmp_path, link):
    held = Held(None)
    async with console(tmp_path, link, TEA, make_model=lambda _agent: held) as (post, notes, _):
        _, estimate = await post(estimate=True)
        first = asyncio.create_task(post())
        await held.asked.wait()
        assert await post() == (409, {"error": "Another replay is running. Wait for it, or cancel it."})
        assert await post("/api/replay/cancel") == (200, {"cancelled": True})
        assert (await first)[0] == 409
        assert [note.outcome for note in notes] == [
            "Canceled. The call may still have cost something, which is recorded."
        ]
        assert (await costs_of("claude", link))["replay_cost"] == pytest.approx(estimate["most_usd"])
        assert await post("/api/replay/cancel") == (200, {"cancelled": False})
        assert (await post(model="llamacpp/local"))[1]["same"]
