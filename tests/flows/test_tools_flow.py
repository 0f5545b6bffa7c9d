"""A turn with tools over real sockets: the provider's own function calls, and what Discord shows of them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from flow import decision, flow
from thinking_scene import let

from agent_cogs.showing import ToolShow
from agent_context.options import Options
from agent_discord.webhooks import Webhooks
from agent_local.model_server import Answer
from agent_runtime import running
from agent_tools.records import ToolRecords
from tests.agent_tools.tool_doubles import FakeTool
from tests.doubles import MemoryPosts

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


@asynccontextmanager
async def showing(cog):
    """Calls are shown by webhooks of the test's own."""
    async with aiohttp.ClientSession() as session:
        house = cog.house
        hooks = Webhooks(session, house.directory, MemoryPosts(), house.way_out.refused)
        show = ToolShow(hooks, cog.gate, cog.where.spot)
        yield show
        await show.aclose()


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


async def test_a_call_is_shown_by_webhook_and_no_bot_sees_it(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude", "grok")) as runtime:
        f.models.answer = asks_first
        cog = runtime.bots["claude"].cog
        async with showing(cog) as show:
            let(None, weather(), cog=cog, options=VISIBLE, show_tools=show)
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
        async with f.running(agents=("claude",)) as runtime, ToolRecords(tmp_path / "tools") as records:
            let(None, weather(), cog=runtime.bots["claude"].cog, tool_records=records)
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> how is the weather?")
            await f.discord.wait_for(lambda: f.said("debate", "claude"))
        async with running(f.setup(agents=("claude",))) as runtime, ToolRecords(tmp_path / "tools") as records:
            await runtime.wait_online()
            let(None, cog=runtime.bots["claude"].cog, tool_records=records)
            f.models.answer = lambda r: decision("as before")
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> and what did you find?")
            await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
        texts = "\n".join(f.models.requests[-1].texts)
        question, line, answer = (
            texts.index(part) for part in ("how is the weather", "[tool] claude>", "says anthropic")
        )
        assert question < line < answer
