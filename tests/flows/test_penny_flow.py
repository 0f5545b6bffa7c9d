"""The persona Penny as the repository has it, on Signal with a model of Ollama: a question is searched for and answered
with a picture, and while nobody writes the idle tasks come in their order.

Signal, Ollama and the search engine are servers on loopback; Ollama is asked by its official client.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentic.process.root import ROOT
from agentic.runtime.services import provider_model
from tests.support.flow import decision
from tests.support.models.chat_api import ChatAnswer, ChatRequest, ChatServer
from tests.support.moved_clock import MovedClock
from tests.support.recorded import recorded
from tests.support.redis_server import until
from tests.support.signal_flow import SignalFlow, signal_flow
from tests.support.signal_server import ACCOUNT, ANNA, quoting
from tests.support.tools.search_web import PHOTO, SearchWeb, search_web

PENNY = ROOT / "personas" / "penny"
FIRST_PAGE = "Trees of the world: https://trees.example/tall"
IDLE = {
    "UNASKED_PERSON_HOURS": "0",
    "UNASKED_CHANNEL_HOURS": "0",
    "COORDINATOR_ACTIVE_START": "0",
    "COORDINATOR_ACTIVE_END": "24",
}
UNASKED = "SELECT 1 FROM unasked"
TEXTS = {
    "summarise": "Anna asked for the tallest tree; Penny named Hyperion.",
    "profile": "- trees\n- lighthouses",
    "follow_up": decision("That one was measured again this week: it has grown by four centimetres since spring."),
    "discover": decision("A lighthouse on the coast of Brittany opens its doors for the first time on Sunday."),
    "answer": decision("It is Hyperion, a redwood in California."),
}


def kind_of(request: ChatRequest) -> str:
    """The task that a request is for."""
    said = "\n".join(str(message.get("content", "")) for message in request.messages)
    marks = {
        "summarise": "You take notes on a conversation",
        "profile": "You keep a list of the subjects",
        "follow_up": "Nobody answered the last message",
        "discover": "likes to talk about the subjects",
    }
    return next((kind for kind, mark in marks.items() if mark in said), "answer")


class Model:
    """The model that Ollama serves: it searches before an answer, where it may."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.after: Callable[[], Awaitable[object]] | None = None  # awaited before an answer

    def __call__(self, request: ChatRequest) -> ChatAnswer:
        kind = kind_of(request)
        self.kinds.append(kind)
        tools = [tool["function"]["name"] for tool in request.body.get("tools", ())]
        searched = any(message["role"] == "tool" for message in request.messages)
        if kind == "answer" and "web_search" in tools and not searched:
            return ChatAnswer(text="", calls=[("web_search", '{"query": "tallest tree of the world"}')])
        return ChatAnswer(text=TEXTS[kind], after=self.after)

    @property
    def tasks(self) -> list[str]:
        """In the order in which each was first asked for."""
        return list(dict.fromkeys(kind for kind in self.kinds if kind != "answer"))


def penny_at(folder: Path, server: ChatServer) -> dict[str, str]:
    """Penny's folder as it is, with the model that it names in comments, and Ollama at the server's address."""
    shutil.copytree(PENNY, folder / "personas" / "penny")
    identity = folder / "personas" / "penny" / "identity.md"
    lines = identity.read_text(encoding="utf-8")
    for line in ("provider: ollama", "model: gpt-oss:20b"):
        assert f"# {line}\n" in lines
        lines = lines.replace(f"# {line}\n", f"{line}\n")
    identity.write_text(lines, encoding="utf-8")
    (folder / "config").mkdir()
    (folder / "config" / "endpoints.yaml").write_text(f"endpoints: {{ollama: {{base_url: '{server.base_url}'}}}}\n")
    return {"PERSONAS_DIR": str(folder / "personas"), "CONFIG_FILES_DIR": str(folder / "config")}


@asynccontextmanager
async def penny(
    folder: Path, model: Callable[[ChatRequest], ChatAnswer], clock: Callable[[], float] = time.time, **settings: str
) -> AsyncIterator[tuple[SignalFlow, SearchWeb, ChatServer, Any]]:
    async with search_web() as web, ChatServer(model, models=("gpt-oss:20b",)) as ollama:
        files = penny_at(folder, ollama)
        numbers = {"SIGNAL_NUMBERS": f"penny:{ACCOUNT}", "TAVILY_API_KEY": "tavily-key-1"}
        async with (
            signal_flow(folder / "data", **{**numbers, **files, **settings}) as f,
            f.running(make_model=provider_model, clock=clock, **web.setup) as runtime,
        ):
            yield f, web, ollama, runtime


async def test_a_message_is_searched_for_and_answered_with_a_source_and_a_picture(tmp_path: Path) -> None:
    model = Model()
    async with penny(tmp_path, model) as (f, web, ollama, _):
        model.after = lambda: f.signal.until(lambda: f.signal.typing == [(ANNA, True)])
        await f.say("which tree is the tallest of all?")
        await f.answered()
        (sent,) = f.signal.sent
        assert sent.text.startswith("It is Hyperion, a redwood in California.")
        assert FIRST_PAGE in sent.text
        assert sent.pictures == [PHOTO]
        assert web.queries == web.asked_pictures == ["tallest tree of the world"]
        assert {(request.path, request.body["model"]) for request in ollama.requests} == {("/api/chat", "gpt-oss:20b")}
        assert f.models.requests == []


async def test_while_nobody_writes_the_tasks_come_in_their_order_each_once(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("agent_coordinator.idle.background.TICK_SECONDS", 0.05)
    model, clock, data = Model(), MovedClock(), tmp_path / "data"
    async with penny(tmp_path, model, clock, **IDLE) as (f, _, _, runtime):
        await f.say("which tree is the tallest of all?")
        (answer,) = await f.answered()
        post = f.signal.sent[0]
        await f.say("I would like to stand below it once.", quote=quoting(ACCOUNT, post.timestamp, answer))
        await f.answered(2)
        await until(lambda: len(recorded(data, "SELECT 1 FROM message_log")) == 4, 60)
        await clock.nobody_writes_for(300, runtime, lambda: recorded(data, "SELECT 1 FROM summaries, profiles"))
        await clock.nobody_writes_for(300 + 7_200, runtime, lambda: recorded(data, UNASKED))
        await clock.nobody_writes_for(300 + 14_400, runtime, lambda: len(recorded(data, UNASKED)) == 2)
        assert model.tasks == ["summarise", "profile", "follow_up", "discover"]
        follow_up, discovery = f.signal.sent[2:]
        assert follow_up.text.startswith("That one was measured again")
        assert follow_up.quotes is not None
        assert discovery.text.startswith("A lighthouse on the coast")
        assert discovery.quotes is None
        assert recorded(data, "SELECT text FROM summaries") == [(TEXTS["summarise"],)]
        assert recorded(data, "SELECT topics FROM profiles") == [('["trees", "lighthouses"]',)]
        assert all(cause for (cause,) in recorded(data, "SELECT cause FROM unasked"))
        assert follow_up.pictures == discovery.pictures == [PHOTO]
