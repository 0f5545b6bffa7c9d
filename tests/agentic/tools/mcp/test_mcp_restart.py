"""Servers over HTTP that are killed, restarted, or forget our session."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager

import psutil
import pytest

from agentic.process.root import ROOT
from agentic.tools.mcp.config import ServerConfig
from agentic.tools.mcp.servers import McpServers
from tests.support.ports import free_port
from tests.support.redis_server import until
from tests.support.tools.mcp_doubles import call, names
from tests.support.tools.mcp_server import http_program
from tests.support.tools.mcp_sessions import (
    PYTHON,
    SessionServer,
    accept_without_answer,
    cut_in_mid_answer,
    reply,
)

PROGRAM = ROOT / "tests/support/tools/mcp_server.py"
JSON = "application/json"
REJECTIONS = {
    "the Python package": PYTHON,
    "the TypeScript package": (
        404,
        JSON,
        b'{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}',
    ),
    "the TypeScript examples": (
        400,
        JSON,
        b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}',
    ),
    "plain text": (400, "text/plain", b"Invalid or missing session ID"),
    "JSON of its own": (400, JSON, b'{"error":"no such session"}'),
    "a proxy's page": (404, "text/html; charset=utf-8", b"<h1>404 page not found</h1>"),
    "nothing": (404, "text/plain", b""),
    "gone": (410, JSON, b"null"),
}


@asynccontextmanager
async def connected(url, **more):
    config = ServerConfig(name="t", url=url, **more)
    async with McpServers([config], environment={}) as servers:
        await servers.tried()
        yield servers


@pytest.mark.promise(532)
@pytest.mark.parametrize("rejection", REJECTIONS.values(), ids=REJECTIONS)
async def test_a_call_after_a_restart_runs_once_in_a_new_session(rejection, caplog):
    caplog.set_level("INFO")
    async with SessionServer(rejection=rejection) as server, connected(server.url) as servers:
        assert (await call(servers, "t__say")).text == "run 1"
        await server.kill()
        server.tools.append("more")
        await server.start()
        output = await call(servers, "t__say")
        assert (output.is_error, output.text) == (False, "run 2")
        assert server.calls == ["say", "say"]
        assert names(servers) == ["t__more", "t__say"]
        assert not (await call(servers, "t__more")).is_error
    assert "MCP server t ended: " in caplog.text


async def test_a_session_that_expired_while_idle_is_renewed_and_concurrent_calls_run_once_each():
    async with SessionServer(has_stream=False) as server, connected(server.url) as servers:
        server.forget()
        outputs = await asyncio.gather(*(call(servers, "t__say") for _ in range(3)))
        assert [output.is_error for output in outputs] == [False] * 3
        assert len(server.calls) == 3
        assert server.requests.count("initialize") == 2


async def test_a_server_that_knows_no_session_of_its_own_is_asked_twice_not_forever():
    async with SessionServer() as server, connected(server.url) as servers:

        def forget_again():
            server.forget()
            return lambda writer, number: reply(writer, *PYTHON)

        server.before_call = forget_again
        output = await call(servers, "t__say")
        assert output.is_error
        assert "doesn't know the session" in output.text
        assert server.requests.count("tools/call") == 2
        server.before_call = lambda: None
        assert not (await call(servers, "t__say")).is_error


async def test_a_call_while_the_server_restarts_waits_for_it():
    async with SessionServer() as server, connected(server.url) as servers:
        await server.kill()
        waiting = asyncio.create_task(call(servers, "t__say"))
        await until(lambda: servers.reasons()["t"])
        await server.start()
        assert (await waiting).text == "run 1"
        assert server.calls == ["say"]


async def test_a_call_ends_with_its_time_if_the_server_stays_down():
    async with SessionServer() as server, connected(server.url, call_seconds=1.0) as servers:
        await server.kill()
        output = await call(servers, "t__say")
        assert (output.is_error, output.text) == (True, "the server t is not running; it is being restarted")
        assert names(servers) == ["t__say"]
        await server.start()
        assert (await call(servers, "t__say")).text == "run 1"


async def test_a_call_that_comes_after_a_long_outage_does_not_wait_for_the_next_attempt():
    async with SessionServer() as server:
        config = ServerConfig(name="t", url=server.url)
        async with McpServers([config], environment={}, pauses=(0.0, 3600.0)) as servers:
            await servers.tried()
            await server.kill()
            await until(lambda: "reached" in servers.reasons()["t"])
            await server.start()
            assert (await call(servers, "t__say")).text == "run 1"


async def test_new_tools_of_a_restarted_server_are_found_without_a_call():
    async with SessionServer() as server, connected(server.url) as servers:
        await until(lambda: "GET" in server.requests)
        await server.kill()
        server.tools = ["other"]
        await server.start()
        await until(lambda: names(servers) == ["t__other"])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (cut_in_mid_answer, "the server's answer was incomplete; the call may have run"),
        (accept_without_answer, "the server says: server answered a request with 202 Accepted"),
    ],
)
async def test_a_call_that_may_have_run_is_not_made_again(answer, text):
    async with SessionServer() as server, connected(server.url) as servers:
        server.before_call = lambda: answer
        output = await call(servers, "t__say")
        assert (output.is_error, output.text) == (True, text)
        assert server.requests.count("tools/call") == 1
        server.before_call = lambda: None
        assert (await call(servers, "t__say")).text == "run 1"


@pytest.mark.promise(533)
async def test_a_call_under_which_the_server_is_killed_is_not_made_again():
    async with SessionServer() as server, connected(server.url) as servers:
        reached = asyncio.Event()

        async def hang(writer, number):
            reached.set()
            await asyncio.Event().wait()

        server.before_call = lambda: hang
        calling = asyncio.create_task(call(servers, "t__say"))
        await reached.wait()
        await server.kill()
        server.before_call = lambda: None
        await server.start()
        assert (await calling).is_error
        assert server.calls == []
        assert (await call(servers, "t__say")).text == "run 1"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503])
async def test_a_rejection_that_is_no_lost_session_is_not_retried(status):
    async with SessionServer() as server, connected(server.url) as servers:
        server.status = status
        output = await call(servers, "t__say")
        assert (output.is_error, output.text) == (True, f"the server says: HTTP {status} Said")
        assert server.requests.count("tools/call") == 1
        server.status = None
        assert (await call(servers, "t__say")).text == "run 1"
        assert server.requests.count("initialize") == 1


@pytest.mark.promise(559)
@pytest.mark.parametrize("status", [401, 403])
async def test_calls_fail_immediately_while_a_restarted_server_refuses_the_key(status, caplog):
    caplog.set_level("WARNING")
    async with SessionServer() as server:
        config = ServerConfig(name="t", url=server.url, call_seconds=600.0, headers={"Authorization": "s3cret"})
        async with McpServers([config], environment={}, pauses=(0.0, 3600.0)) as servers:
            await servers.tried()
            await server.kill()
            await until(lambda: "reached" in servers.reasons()["t"])
            server.status = status
            await server.start()
            async with asyncio.timeout(30):
                outputs = await asyncio.gather(*(call(servers, "t__say") for _ in range(3)))
                outputs.append(await call(servers, "t__say"))
            for output in outputs:
                assert output.is_error
                assert f"the server t rejected the connection: HTTP {status} Said" in output.text
            assert server.requests.count("tools/call") == 0
            assert names(servers) == ["t__say"]
            server.status = None
            await call(servers, "t__say")  # starts one more attempt
            await until(lambda: servers.status()["t"] == "running")
            assert (await call(servers, "t__say")).text == "run 1"
    assert f"HTTP {status}" in caplog.text
    assert "s3cret" not in caplog.text


async def test_an_error_of_the_call_itself_with_status_400_keeps_the_session():
    async with SessionServer() as server, connected(server.url) as servers:
        wrong = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"no text"}}'
        server.before_call = lambda: lambda writer, number: reply(writer, 400, JSON, wrong % number)
        output = await call(servers, "t__say")
        assert (output.is_error, output.text) == (True, "the server says: no text")
        assert server.requests.count("initialize") == 1


async def test_a_server_in_a_process_that_is_killed_and_restarted_works_at_the_next_call():
    port = free_port()
    async with http_program(port) as first, connected(f"http://127.0.0.1:{port}/mcp") as servers:
        assert (await call(servers, "t__say", {"text": "one"})).text == "one"
        hanging = asyncio.create_task(call(servers, "t__hang"))
        assert (await call(servers, "t__say", {"text": "two"})).text == "two"
        first.kill()
        await first.wait()
        assert (await hanging).is_error
        offered = names(servers)
        waiting = asyncio.create_task(call(servers, "t__say", {"text": "three"}))
        async with http_program(port):
            assert (await waiting).text == "three"
            assert names(servers) == offered


async def test_a_program_that_is_killed_works_at_the_next_call():
    config = ServerConfig(name="t", command=sys.executable, args=(str(PROGRAM),))
    async with McpServers([config], environment=os.environ) as servers:
        await servers.tried()
        (child,) = [child for child in psutil.Process().children() if str(PROGRAM) in child.cmdline()]
        hanging = asyncio.create_task(call(servers, "t__hang"))
        assert (await call(servers, "t__say", {"text": "one"})).text == "one"
        os.kill(child.pid, signal.SIGKILL)
        assert (await hanging).is_error
        assert (await call(servers, "t__say", {"text": "two"})).text == "two"
