"""A turn with tools over real sockets: the provider's own function calls, and what Discord shows of them."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager

import pytest

from agentic.context.options import Options
from agentic.process.root import ROOT
from agentic.runtime.runtime import running
from tests.support.asking import ask, config, link, shown
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.thinking_scene import let
from tests.support.tools.mcp_sessions import SessionServer
from tests.support.tools.tool_doubles import FakeTool

MCP_SERVER = ROOT / "tests/support/tools/mcp_server.py"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SHOWN = ".claude>[weather]: city: Oslo\nclaude<[weather]: rain until noon"
VISIBLE = Options(tool_output_visible=True)


def weather(answer="rain until noon"):
    return FakeTool("weather", lambda _: answer, PARAMETERS)


def asks_first(request):
    """Each model looks the weather up before it answers."""
    if not request.results:
        return Answer(text="", calls=(("weather", json.dumps({"city": "Oslo"})),))
    return decision(f"{request.results[-1][1]}, says {request.provider}")


@pytest.mark.parametrize("name", ["chatgpt", "claude", "gemini", "grok"])
async def test_each_providers_model_calls_a_tool_and_answers_with_its_result(tmp_path, name):
    async with flow(tmp_path) as f, f.running(agents=(name,)) as runtime:
        f.models.answer = asks_first
        tool = weather()
        let(None, tool, cog=runtime.bots[name].cog)
        await f.discord.say("Alice", "debate", f"<@{f.user_id(name)}> how is the weather?")
        await f.discord.wait_for(lambda: f.said("debate", name))
        first, last = f.models.requests
        assert f.said("debate", name) == [f"rain until noon, says {first.provider}"]
        assert ("weather" in first.tools, tool.ran) == (True, [{"city": "Oslo"}])
        assert [text for _, text in last.results] == ["rain until noon"]
        assert first.tail in last.texts, "what was asked stays where it was"


async def test_the_first_turn_after_a_start_has_the_tools_of_every_server(tmp_path):
    server = f"servers:\n  lab:\n    command: {sys.executable}\n    args: ['{MCP_SERVER}']\n"
    async with flow(tmp_path / "data", **config(tmp_path, mcp=server)) as f:
        f.models.answer = lambda _: decision("fine")
        async with f.running(agents=("claude",)) as runtime:
            first = await ask(f)
            assert "lab__add" in first.tools
            await runtime.services.agents.tools.servers.tried()
            second = await ask(f)
            assert (second.tools, second.system) == (first.tools, first.system)


@pytest.mark.promise(532)
async def test_a_turn_after_the_restart_of_a_tool_server_uses_it(tmp_path):
    def say_first(request):
        return decision(request.results[-1][1]) if request.results else Answer(text="", calls=(("lab__say", "{}"),))

    async with SessionServer() as server:
        files = config(tmp_path, mcp=f"servers:\n  lab:\n    url: {server.url}\n")
        async with flow(tmp_path / "data", **files) as f, f.running(agents=("claude",)):
            f.models.answer = say_first
            for number in (1, 2):
                await ask(f)
                await f.discord.wait_for(lambda number=number: f"run {number}" in f.said("debate", "claude"))
                await server.kill()
                await server.start()


async def test_a_call_is_shown_by_webhook_and_no_bot_sees_it(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude", "grok")) as runtime:
        f.models.answer = asks_first
        cog = runtime.bots["claude"].cog
        let(None, weather(), cog=cog, options=VISIBLE)
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> how is the weather?")
        await f.discord.wait_for(lambda: "rain until noon, says anthropic" in f.said("debate"))
        await f.discord.wait_for(lambda: SHOWN in f.said("debate"))
        (shown,) = (m for m in f.discord.messages("debate") if m["content"].startswith("."))
        assert (shown["author"]["username"], bool(shown.get("webhook_id"))) == ("Claude", True)
        f.models.answer = lambda r: decision("fine")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('grok')}> and you?")
        await f.discord.wait_for(lambda: f.said("debate", "grok"))
        assert "[weather]" not in "\n".join(f.models.requests[-1].texts)


async def test_what_a_tool_brought_is_known_after_a_restart(tmp_path):
    async with flow(tmp_path) as f:
        f.models.answer = asks_first
        async with f.running(agents=("claude",)) as runtime:
            let(None, weather(), cog=runtime.bots["claude"].cog)
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> how is the weather?")
            await f.discord.wait_for(lambda: f.said("debate", "claude"))
        async with running(f.setup(agents=("claude",))) as runtime:
            await runtime.wait_online()
            let(None, cog=runtime.bots["claude"].cog)
            f.models.answer = lambda r: decision("as before")
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> and what did you find?")
            await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
        texts = "\n".join(f.models.requests[-1].texts)
        question, line, answer = (
            texts.index(part) for part in ("how is the weather", "[tool] claude>", "says anthropic")
        )
        assert question < line < answer


@asynccontextmanager
async def weather_told(tmp_path):
    """Claude has looked the weather up; and the last message of another channel."""
    async with (
        flow(tmp_path) as f,
        f.running(agents=("claude",)) as runtime,
    ):
        await f.discord.create_channel("archive")
        archived = await f.discord.say("Bob", "archive", "archived")
        let(None, weather(), cog=runtime.bots["claude"].cog)
        f.models.answer = asks_first
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> how is the weather?")
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        f.models.answer = lambda r: decision("fine")
        yield f, archived


async def test_what_a_tool_brought_stands_in_its_place_before_a_history_too(tmp_path):
    async with weather_told(tmp_path) as (f, archived):
        await f.discord.say("Bob", "debate", "later words")
        await f.discord.say("Alice", "debate", f".history\n---\nlast: {link(f, 'archive', archived)}")
        seen = shown(await ask(f))
        order = ("how is the weather", "[tool] claude>", "says anthropic", "later words", "archived", "what now?")
        places = [seen.index(part) for part in order]
        assert places == sorted(places)


async def test_what_a_tool_brought_is_cleared_with_the_messages_that_it_belongs_to(tmp_path):
    async with weather_told(tmp_path) as (f, archived):
        await f.discord.say("Alice", "debate", ".history")
        await f.discord.say("Alice", "debate", f".history\n---\nlast: {link(f, 'archive', archived)}")
        seen = shown(await ask(f))
        assert ("archived" in seen, "rain until noon" in seen) == (True, False)
