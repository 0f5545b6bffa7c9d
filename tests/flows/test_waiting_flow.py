"""Two people ask bots of one model server at home: the second sees how many answers come first."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from agentic.runtime.services import provider_model
from agentic.turn import waiting
from tests.support.flow import decision, flow
from tests.support.models.chat_api import ChatAnswer, ChatServer

MARK = " ▌"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(waiting, "LONG_WAIT", 0.0)
    monkeypatch.setattr(waiting, "PACE", 0.05)


@asynccontextmanager
async def asked_two(folder, second):
    """Claude answers Alice, and Grok waits to answer Bob: with `second`. Yields the flow and what lets Claude end."""
    config, go_on = folder / "config", asyncio.Event()
    config.mkdir()

    def answer(_):
        return ChatAnswer(text=decision("First."), after=go_on.wait) if len(server.requests) == 1 else second

    async with ChatServer(answer, models=("tiny",)) as server:
        (config / "endpoints.yaml").write_text(f"endpoints: {{lab: {{base_url: '{server.base_url}'}}}}\n")
        env = {"CLAUDE_MODEL": "lab/tiny", "GROK_MODEL": "lab/tiny", "CONFIG_FILES_DIR": str(config)}
        async with flow(folder / "data", **env) as f, f.running(agents=("claude", "grok"), make_model=provider_model):
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> is tea soup?")
            await f.discord.wait_for(lambda: server.requests)
            await f.discord.say("Bob", "casual", f"<@{f.user_id('grok')}> and broth?")
            await f.discord.wait_for(lambda: f.said("casual", "grok"))
            yield f, go_on


def grok_messages(f):
    return [
        (m["id"], m["content"]) for m in f.discord.messages("casual") if int(m["author"]["id"]) == f.user_id("grok")
    ]


async def test_the_line_is_in_the_message_that_will_hold_the_answer(tmp_path):
    async with asked_two(tmp_path, ChatAnswer(text=decision("Broth is soup."))) as (f, go_on):
        ((line_id, line),) = grok_messages(f)
        assert line == f"Thinking (1 ahead)…{MARK}"
        assert f.said("debate", "claude") == [], "nobody is ahead of the first"
        go_on.set()
        await f.discord.wait_for(lambda: grok_messages(f) == [(line_id, "Broth is soup.")])


async def test_the_line_goes_if_there_is_no_answer(tmp_path):
    async with asked_two(tmp_path, ChatAnswer(status=401)) as (f, go_on):
        ((line_id, _),) = grok_messages(f)
        go_on.set()
        await f.discord.wait_for(lambda: grok_messages(f) and line_id not in dict(grok_messages(f)))
        assert "I can't answer right now" in f.said("casual", "grok")[-1]
