"""The life of servers: started side by side, started again, given up, stopped. Connections are doubles."""

import asyncio
import logging

import pytest

from agentic.tools.mcp.config import ServerConfig
from agentic.tools.mcp.servers import MAX_STARTS, McpFailure, McpServers, Offer
from tests.support.redis_server import until
from tests.support.tools.mcp_doubles import FakeServer, call, command, names, tool

AT_ONCE = (0.0,) * 100


def running(server, *configs, pauses=AT_ONCE, **more):
    return McpServers(configs or [command()], environment={}, connect=server, pauses=pauses, **more)


async def test_a_server_that_starts_slowly_holds_up_nobody_and_a_call_waits_for_it():
    go = asyncio.Event()
    server = FakeServer(None, go.wait)
    async with running(server) as servers:
        await servers.tried()
        say = servers.tools_for("claude")[0]
        server.watches[0].end("it ended")
        await until(lambda: len(server.watches) == 2)
        assert servers.status() == {"s": "starting"}
        assert names(servers) == ["s__say"]  # what stands in cached prompts stays
        calling = asyncio.create_task(call(servers, say.spec.name, {"a": 1}))
        await asyncio.sleep(0)
        go.set()
        assert (await calling).text == "say {'a': 1}"


@pytest.mark.promise(534)
async def test_nobody_waits_for_a_server_that_is_down_nor_long_for_one_that_hangs(monkeypatch):
    down, hung = FakeServer(OSError("refused")), FakeServer(asyncio.Event().wait)
    async with running(down) as servers:
        await servers.ready("claude")
        assert servers.reasons() == {"s": "refused"}
    monkeypatch.setattr("agentic.tools.mcp.servers.READY_SECONDS", 0.05)
    monkeypatch.setattr("agentic.tools.mcp.servers.STOP_SECONDS", 0.05)
    async with running(hung, command(agents=("grok",))) as servers:
        await servers.ready("claude")  # not a server of this agent
        assert servers.reasons() == {"s": ""}
        await servers.ready("grok")
        assert servers.status() == {"s": "starting"}


async def test_the_tools_of_a_server_that_was_given_up_stay_in_the_prompt_and_fail():
    server = FakeServer(None, OSError("no such thing"))
    async with running(server) as servers:
        await servers.ready("claude")
        server.watches[0].end("it ended")
        await until(lambda: servers.status() == {"s": "stopped"})
        assert names(servers) == ["s__say"]
        assert (await call(servers, "s__say")).text == "the server s is not running"


async def test_servers_start_side_by_side():
    go = asyncio.Event()
    server = FakeServer(go.wait)
    async with running(server, command("a"), command("b")) as servers:
        await until(lambda: len(server.watches) == 2)
        assert names(servers) == []
        go.set()
        await servers.tried()
        assert names(servers) == ["a__say", "b__say"]


async def test_a_call_under_which_the_server_ends_is_an_error_and_the_next_finds_it_alive():
    server = FakeServer()
    async with running(server) as servers:
        await servers.tried()

        def lost(name, arguments):
            server.watches[0].end("it ended with exit code 1")
            return McpFailure("the connection to the server was lost")

        server.answer = lost
        output = await call(servers, "s__say")
        assert output.is_error
        assert output.text == "the connection to the server was lost"
        server.answer = lambda name, arguments: "well"
        assert (await call(servers, "s__say")).text == "well"
        assert len(server.watches) == 2
        assert server.closed == 1


async def test_a_call_that_hangs_ends_with_its_time(caplog):
    server = FakeServer()
    server.answer = lambda name, arguments: asyncio.Event().wait()
    async with running(server, command(call_seconds=0.01)) as servers:
        await servers.tried()
        output = await call(servers, "s__say")
        assert output.is_error
        assert output.text == "the server s took too long"


async def test_a_call_has_no_more_time_than_its_turn():
    async with running(FakeServer(), clock=lambda: 1000.0) as servers:
        await servers.tried()
        assert (await call(servers, "s__say", deadline=999.0)).is_error
        assert not (await call(servers, "s__say", deadline=1010.0)).is_error


async def test_a_program_that_does_not_start_is_given_up_with_one_line(caplog):
    caplog.set_level(logging.WARNING)
    server = FakeServer(RuntimeError("no such thing"))
    async with running(server, command("bad"), ServerConfig(name="b2", command="x")) as servers:
        await until(lambda: set(servers.status().values()) == {"stopped"})
        assert names(servers) == []
    assert len(server.watches) == 2 * MAX_STARTS
    lines = [record.getMessage() for record in caplog.records if "bad" in record.getMessage()]
    assert lines == [
        "MCP server bad failed to start: no such thing; retrying",
        f"MCP server bad failed to start {MAX_STARTS} times: no such thing; it won't be started again",
    ]


async def test_an_address_is_asked_for_until_somebody_answers():
    server = FakeServer(*[ConnectionError("nobody")] * 3 * MAX_STARTS, None)
    async with running(server, ServerConfig(name="far", url="http://127.0.0.1:1/mcp")) as servers:
        await until(lambda: names(servers))
        assert servers.status() == {"far": "running"}


async def test_the_pauses_grow_and_a_call_that_cannot_wait_as_long_says_so():
    server = FakeServer()
    async with running(server, command(call_seconds=0.01), pauses=(0.0, 1000.0)) as servers:
        await servers.tried()
        server.watches[0].end("it ended")
        await until(lambda: len(server.watches) == 2)
        await until(lambda: servers.status()["s"] == "running")
        server.watches[1].end("it ended again")
        output = await call(servers, "s__say")
        assert output.is_error
        assert output.text == "the server s is not running; it is being restarted"
        assert len(server.watches) == 2


async def test_a_server_that_ran_well_for_a_while_is_started_again_at_once():
    now = [1000.0]
    server = FakeServer()
    async with running(server, pauses=(0.0, 1000.0), clock=lambda: now[0]) as servers:
        for number in range(1, 5):
            await until(lambda: servers.status()["s"] == "running")
            assert len(server.watches) == number
            now[0] += 100
            server.watches[-1].end("it ended")
            await until(lambda number=number: len(server.watches) == number + 1)


async def test_a_server_that_hangs_at_its_start_is_given_up_too(caplog):
    server = FakeServer(asyncio.Event().wait)
    async with running(server, command(start_seconds=0.001)) as servers:
        await until(lambda: servers.status()["s"] == "stopped")
    assert "it wasn't ready within 0.001 s" in caplog.text


async def test_tools_that_have_changed_are_listed_anew():
    server = FakeServer()
    async with running(server) as servers:
        await servers.tried()
        server.offered = Offer((tool("say"), tool("more")), resources=True)
        server.watches[0].change()
        await until(lambda: len(names(servers)) > 1)
        assert names(servers) == ["s__list_resources", "s__more", "s__read_resource", "s__say"]
        assert (await call(servers, "s__read_resource", {"uri": "notes://a"})).text == "contents of notes://a"
        assert len(server.watches) == 1


async def test_an_agent_has_the_servers_and_tools_that_it_is_allowed():
    server = FakeServer(offer=Offer((tool("read_file"), tool("write_file")), resources=True))
    configs = [
        command("mine", agents=("claude",), tools=("read_*",)),
        command("all", tools=("*", "!write_*", "!*_resources")),
    ]
    async with running(server, *configs) as servers:
        await servers.tried()
        assert names(servers, "claude") == [
            "mine__read_file", "mine__read_resource", "all__read_file", "all__read_resource",
        ]  # fmt: skip
        assert names(servers, "grok") == ["all__read_file", "all__read_resource"]


async def test_at_the_end_every_connection_is_closed_and_who_waits_is_told():
    go = asyncio.Event()
    server = FakeServer(None, go.wait)
    async with running(server, command("a")) as servers:
        await servers.tried()
        server.answer = lambda name, arguments: asyncio.Event().wait()
        server.watches[0].end("it ended")
        waiting = asyncio.create_task(call(servers, "a__say"))
        await until(lambda: len(server.watches) == 2)
        go.set()
        await until(lambda: servers.status()["a"] == "running")
        waiting.cancel()
    assert server.closed == 2
    assert servers.status() == {"a": "stopped"}


async def test_without_a_server_nothing_runs():
    before = asyncio.all_tasks()
    async with McpServers([], environment={}) as servers:
        assert asyncio.all_tasks() == before
        await servers.tried()
        assert servers.tools_for("claude") == ()


async def test_what_a_server_says_is_one_line_without_the_settings_that_it_was_given():
    config = command()
    config._secrets = frozenset({"hunter2000"})
    server = FakeServer()
    server.answer = lambda name, arguments: McpFailure("wrong key:\nhunter2000 " + "x" * 5000)
    async with running(server, config) as servers:
        await servers.tried()
        output = await call(servers, "s__say")
    assert output.text.startswith("wrong key: [redacted] xxx")
    assert len(output.text) <= 400
