"""A real server of the official package, over standard streams and over HTTP on loopback."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import psutil
import pytest

from agentic.llm.types import Picture, Prompt
from agentic.process.root import ROOT
from agentic.tools.mcp.config import ServerConfig
from agentic.tools.mcp.servers import McpServers
from agentic.tools.tool import collect_tools, specs_of
from tests.support.redis_server import until
from tests.support.tools.mcp_doubles import asking, call, names
from tests.support.tools.mcp_server import PNG, http_server
from tests.support.tools.tool_doubles import FakeModel, run_tools
from tests.support.tools.tool_doubles import call as tool_call

PROGRAM = ROOT / "tests/support/tools/mcp_server.py"


@asynccontextmanager
async def over_stdio(**more):
    config = ServerConfig(name="t", command=sys.executable, args=(str(PROGRAM),), **more)
    async with McpServers([config], environment=os.environ) as servers:
        await servers.tried()
        yield servers


@asynccontextmanager
async def over_http(**more):
    async with http_server() as url, McpServers([ServerConfig(name="t", url=url, **more)], environment={}) as servers:
        await servers.tried()
        yield servers


@pytest.mark.parametrize("opened", [over_stdio, over_http])
async def test_tools_and_resources_of_a_real_server_can_be_used(opened):
    async with opened() as servers:
        found = {tool.spec.name: tool.spec for tool in servers.tools_for("claude")}
        assert found["t__add"].description == "Adds two numbers."
        assert found["t__add"].parameters["required"] == ["a", "b"]
        assert (await call(servers, "t__add", {"a": 2**70, "b": 1})).text == str(2**70 + 1)
        odd = '<b> \u2028 \U0001f600 "quoted"\n'
        assert (await call(servers, "t__say", {"text": odd})).text == odd
        assert (await call(servers, "t__draw")).pictures == (Picture(PNG, "image/png"),)
        everything = (await call(servers, "t__everything")).text
        assert everything.splitlines() == [
            "words",
            "[sound, audio/wav: it can't be played here]",
            "[resource notes://today: today, what is planned]",
            "[resource notes://a]",
            "embedded",
            "[resource notes://b: application/x-thing, 3 bytes]",
            '{"answer": 42}',
        ]
        assert "notes://of/{day} (replace the parts in braces)" in (await call(servers, "t__list_resources")).text
        assert (await call(servers, "t__read_resource", {"uri": "notes://today"})).text == "nothing <planned>"
        assert (await call(servers, "t__read_resource", {"uri": "notes://picture"})).pictures
        await errors_are_outputs(servers)
        await new_tools_are_found(servers)


async def errors_are_outputs(servers):
    refused = await call(servers, "t__refuse")
    assert (refused.is_error, refused.text) == (True, "Error executing tool refuse")
    wrong = await call(servers, "t__add", {"a": "x"})
    assert wrong.is_error
    unknown = await call(servers, "t__read_resource", {"uri": "nope://"})
    assert (unknown.is_error, unknown.text) == (True, "the server says: Unknown resource: nope://")
    broken = await call(servers, "t__say", {"text": "\ud800"})
    assert (broken.is_error, broken.text) == (True, "the arguments can't be written as JSON")


async def new_tools_are_found(servers):
    assert (await call(servers, "t__grow")).text == "grown"
    await until(lambda: "t__grown" in names(servers))
    assert (await call(servers, "t__grown")).text == "new"


async def test_a_model_that_calls_tools_gets_what_a_real_server_answers():
    async with over_http() as servers:
        box, problems = collect_tools(servers.tools_for("claude"))
        assert problems == []
        model = FakeModel([tool_call("t__add", 1, a=1, b=2), tool_call("t__draw", 2)], "three")
        outcome = await run_tools(model, Prompt(text="?", tools=specs_of(box)), box, context=asking())
        results = model.prompts[-1].rounds[-1].results
    assert outcome.reply.text == "three"
    assert [result.text for result in results] == ["3", "(nothing)"]
    assert results[1].pictures == (Picture(PNG, "image/png"),)


OLD = """
import json, sys
names = ["one"]
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, number = message["method"], message.get("id")
    if method == "initialize":
        send(id=number, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "old", "version": "1"}})
    elif method == "tools/list":
        cursor = int((message.get("params") or {}).get("cursor", 0))
        page = {"tools": [{"name": names[cursor], "inputSchema": {"type": "object"}}]}
        send(id=number, result=page | ({"nextCursor": str(cursor + 1)} if cursor + 1 < len(names) else {}))
    elif method == "tools/call":
        names.append("two")
        send(method="notifications/tools/list_changed")
        send(id=number, error={"code": -32000, "message": "no\\nway"})
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "unknown"})
"""


async def test_a_server_of_an_older_protocol_works_and_its_changes_are_heard_page_by_page():
    config = ServerConfig(name="old", command=sys.executable, args=("-S", "-c", OLD))
    async with McpServers([config], environment=os.environ) as servers:
        await servers.tried()
        assert names(servers) == ["old__one"]
        output = await call(servers, "old__one")
        assert (output.is_error, output.text) == (True, "the server says: no way")
        await until(lambda: names(servers) == ["old__one", "old__two"])
        assert servers.status() == {"old": "running"}  # -32000 is many servers' word for any error


async def test_a_program_that_crashes_under_a_call_is_alive_at_the_next(caplog):
    async with over_stdio(tools=("crash", "say", "environment")) as servers:
        assert names(servers) == ["t__crash", "t__environment", "t__say"]
        crashed = await call(servers, "t__crash")
        assert crashed.is_error
        assert crashed.text == "the connection to the server was lost; it is being restarted"
        assert (await call(servers, "t__say", {"text": "again"})).text == "again"
        assert "PATH" in (await call(servers, "t__environment")).text.split()
        children = [child for child in psutil.Process().children() if str(PROGRAM) in child.cmdline()]
        assert len(children) == 1
    assert "MCP server t ended: it ended with exit code 7; it said:" in caplog.text
    assert "out of cheese" in caplog.text
    assert not children[0].is_running()


async def test_an_answer_that_is_too_large_ends_a_program_and_an_http_call(caplog):
    async with over_http() as servers:
        flood = await call(servers, "t__flood", {"size": 9_000_000})
        assert flood.is_error
        assert len(flood.text) < 200
        cut = await call(servers, "t__flood", {"size": 100_000})
        assert len(cut.text) < 60_000


async def test_a_call_that_hangs_is_given_up_and_the_server_goes_on():
    async with over_http(call_seconds=1.0) as servers:
        hanging = asyncio.create_task(call(servers, "t__hang"))
        assert (await call(servers, "t__say", {"text": "beside it"})).text == "beside it"
        output = await hanging
        assert (output.is_error, output.text) == (True, "the server t took too long")
        assert (await call(servers, "t__say", {"text": "after it"})).text == "after it"


async def test_an_http_server_that_went_away_and_came_back_is_found_again():
    async with http_server() as url:
        servers = McpServers([ServerConfig(name="t", url=url, call_seconds=5)], environment={}, pauses=(0.0,) * 1000)
        await servers.__aenter__()
        await servers.tried()
    try:
        away = await call(servers, "t__say", {"text": "anybody?"})
        assert away.is_error
        await until(lambda: servers.status() == {"t": "starting"})
        async with http_server(port=int(url.split(":")[2].split("/")[0])):
            assert (await call(servers, "t__say", {"text": "back"})).text == "back"
            await servers.__aexit__(None, None, None)
    finally:
        await servers.__aexit__(None, None, None)


async def test_headers_reach_the_server_and_a_key_that_it_refuses_shows_in_no_line(caplog):
    asked = []

    async def refuse(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1") as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        config = ServerConfig(name="t", url=url, headers={"Authorization": "Bearer hunter2000"})
        async with McpServers([config], environment={}) as servers:
            await servers.tried()
            assert names(servers) == []
    assert b"Bearer hunter2000" in asked[0]
    assert "MCP server t failed to start: HTTP 401 No" in caplog.text
    assert "hunter2000" not in caplog.text
