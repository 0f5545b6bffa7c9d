"""Bots on other models than their own: on a server as Ollama's and llama.cpp's, in lists, with tools."""

import base64
import io
import json
import sys

from aiohttp import web
from aiohttp.test_utils import TestServer
from PIL import Image

from agent_config import AGENTS
from agentic.process.root import ROOT
from agentic.runtime.services import provider_model
from tests.support.flow import decision, flow
from tests.support.models.chat_api import ChatAnswer, ChatServer
from tests.support.models.wire.values import Answer
from tests.support.program import Program
from tests.support.tools.search_web import LOOPBACK, open_to


def tool_results(request):
    return [message["content"] for message in request.messages if message["role"] == "tool"]


def tool_names(request):
    return sorted(tool["function"]["name"] for tool in request.body.get("tools", ()))


def on_server(folder, server, *, more=""):
    """config/ with Ollama at this server's address; `more` is its mcp.yaml."""
    config = folder / "config"
    config.mkdir()
    (config / "endpoints.yaml").write_text(f"endpoints: {{ollama: {{base_url: '{server.base_url}'}}}}\n")
    if more:
        (config / "mcp.yaml").write_text(more)
    return str(config)


async def test_a_bot_without_any_key_reads_a_page_and_answers_by_a_model_server_of_its_owner(tmp_path):
    async def page(_):
        return web.Response(text="<h1>Trees</h1><p>The tallest is Hyperion.</p>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/trees", page)

    async with TestServer(app, host=LOOPBACK) as pages:
        asked = f"http://forest.example:{pages.port}/trees"

        def answer(request):
            if not tool_results(request):
                return ChatAnswer(text="", calls=[("web_fetch", json.dumps({"url": asked}))], finish="tool_calls")
            return decision(f"It is {'Hyperion' if 'Hyperion' in tool_results(request)[0] else 'unknown'}.")

        async with ChatServer(answer, models=("llama3",)) as server:
            files = on_server(tmp_path, server)
            settings = {"CLAUDE_MODEL": "ollama/llama3", "ANTHROPIC_API_KEY": "", "CONFIG_FILES_DIR": files}
            async with flow(tmp_path / "data", **settings) as f:
                assert f.settings.agents["claude"].api_key is None
                async with f.running(
                    agents=("claude",), make_model=provider_model, pages=open_to(pages.port)
                ) as runtime:
                    assert runtime.bots["claude"].cog.provider == "compatible"
                    await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> which tree is the tallest?")
                    await f.discord.wait_for(lambda: f.said("casual", "claude"))
                assert f.said("casual", "claude") == ["It is Hyperion."]
                assert f.models.requests == []
        first, second = server.requests
        assert tool_names(first) == ["web_fetch", "web_search"]
        assert "Authorization" not in first.headers
        assert "The tallest is Hyperion." in tool_results(second)[0]
        (record,) = (tmp_path / "data" / "tools" / "claude" / str(f.channel("casual"))).glob("*.jsonl")
        assert "Hyperion" in record.read_text(encoding="utf-8")


async def test_the_next_model_of_a_list_answers_where_the_first_is_down(tmp_path, caplog):
    async with ChatServer(lambda request: decision("It is me, the second.")) as server:
        settings = {"CLAUDE_MODEL": "claude-haiku-5-5,ollama/llama3", "MODEL_RETRIES": "0"}
        async with flow(tmp_path / "data", **settings, CONFIG_FILES_DIR=on_server(tmp_path, server)) as f:
            f.models.answer = lambda request: Answer(status=500)
            async with f.running(agents=("claude",), make_model=provider_model):
                for count in (1, 2):
                    await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> who are you?")
                    await f.discord.wait_for(lambda count=count: len(f.said("casual", "claude")) == count)
            assert f.said("casual", "claude") == ["It is me, the second."] * 2
            assert len(f.models.requests) == 1  # it is left alone for a while
    assert "anthropic/claude-haiku-5-5 failed, falling back to ollama/llama3" in caplog.text


def drawn(form, side=300):
    out = io.BytesIO()
    Image.new("RGB", (side, side), "red").save(out, form)
    return out.getvalue()


def seen(request):
    """The pictures of a request."""
    encoded = [picture for message in request.messages for picture in message.get("images", ())]
    return [Image.open(io.BytesIO(base64.b64decode(picture))) for picture in encoded]


async def test_pictures_of_every_kind_reach_a_model_server_as_it_takes_them_and_as_its_owner_says(tmp_path):
    async with ChatServer(lambda request: decision("I see.")) as server:
        files = on_server(tmp_path, server)
        profile = "profile: {max_pictures: 2, picture_pixels: 100}"
        endpoints = f"endpoints: {{ollama: {{base_url: '{server.base_url}', {profile}}}}}\n"
        settings = {"CLAUDE_MODEL": "ollama/llama3", "CONFIG_FILES_DIR": files}
        for own, wanted in (("", [("JPEG", 300)] * 3), (endpoints, [("JPEG", 100)] * 2)):
            if own:
                (tmp_path / "config" / "endpoints.yaml").write_text(own)
            async with (
                flow(tmp_path / f"data{len(wanted)}", **settings) as f,
                f.running(agents=("claude",), make_model=provider_model),
            ):
                kinds = [("a.webp", "WEBP"), ("b.gif", "GIF"), ("c.jpg", "JPEG")]
                attached = [(name, drawn(form), f"image/{form.lower()}") for name, form in kinds]
                await f.discord.say("Alice", "casual", "look", attachments=attached)
                await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> what is this?")
                await f.discord.wait_for(lambda f=f: f.said("casual", "claude"))
            assert [(picture.format, picture.width) for picture in seen(server.requests[-1])] == wanted


MCP = f"""
servers:
  lab:
    command: {sys.executable}
    args: ["{ROOT / "tests" / "support/tools/mcp_server.py"}"]
    tools: [add]
"""


async def test_in_local_mode_all_bots_speak_by_one_model_each_with_its_soul_and_the_tools_of_an_mcp_server(tmp_path):
    """The one conversation of --once begins when the servers of tools are there, however long they take."""

    def answer(request):
        found = tool_results(request)
        if found or "lab__add" not in tool_names(request):
            return decision(f"The sum is {found[0]}." if found else "I have no tool yet.")
        return ChatAnswer(text="", calls=[("lab__add", '{"a": 20, "b": 22}')], finish="tool_calls")

    async with ChatServer(answer, models=("llama3",)) as server:
        on_server(tmp_path, server, more=MCP)
        environment = {"HOME": str(tmp_path), "COLUMNS": "200", "TIMEZONE": "UTC", "CLAUDE_MODEL": "claude-own"}
        arguments = ("--local", "--once", "--model", "ollama/llama3")
        with Program(tmp_path, *arguments, environment=environment) as process:
            assert await process.ended(within=100) == 0, process.stderr
    assert process.stderr == ""
    assert "ChatGPT, Claude, Gemini, Grok (ollama/llama3): on your own machines" in process.stdout
    systems = {request.messages[0]["content"] for request in server.requests}
    souls = [[name for name, spec in AGENTS.items() if f"You are {spec.display_name}" in text] for text in systems]
    assert all(len(names) == 1 for names in souls)
    assert {name for names in souls for name in names} == set(AGENTS)
    assert {request.path for request in server.requests} == {"/api/chat"}
    said = [line for line in process.stdout.splitlines() if " #debate " in line]
    assert any("The sum is 42." in line for line in said)
    assert all("lab__add" in tool_names(request) for request in server.requests)
    assert any(tool_results(request) == ["42"] for request in server.requests)
    assert list((tmp_path / "data" / "local" / "tools").glob("*/*/*.jsonl"))
