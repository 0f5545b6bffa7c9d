"""Programs that are bad servers: each one in a process of its own, none of it left."""

import asyncio
import logging
import os
import sys

import psutil
import pytest

from agentic.tools.mcp.config import ServerConfig
from agentic.tools.mcp.process import ServerProcess, child_environment
from tests.support.redis_server import until

MESSAGE = b'{"jsonrpc":"2.0","method":"notifications/x"}'


def program(source, ended, *, grace=0.2, **more):
    config = ServerConfig(name="p", command=sys.executable, args=("-S", "-c", source), **more)
    return ServerProcess(config, os.environ, ended.append, grace=grace)


def gone(pid):
    """Ended; it may wait to be reaped by somebody else's parent."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_what_it_prints_before_its_messages_is_passed_over():
    ended = []
    async with program(f"print('Welcome!\\n\\n{{\\n'); print({MESSAGE!r}.decode())", ended) as (read, _):
        message = await read.receive()
        assert message.message.method == "notifications/x"
        await until(lambda: ended)
    assert ended == ["it ended with exit code 0"]


async def test_one_that_ends_at_once_tells_its_last_words_on_one_line_without_secrets(caplog):
    caplog.set_level(logging.DEBUG)
    ended = []
    process = program("import sys; sys.stderr.write('key hunter2000\\n\\x1b[31mno\\nlicence\\n'); sys.exit(3)", ended)
    process._config._secrets = frozenset({"hunter2000"})
    async with process:
        await until(lambda: ended)
    assert ended == ["it ended with exit code 3; it said: key [redacted] | [31mno | licence"]
    assert "MCP server p: licence" in caplog.text
    assert "hunter2000" not in caplog.text


async def test_one_that_prints_only_garbage_is_ended():
    ended = []
    async with program("while True: print('y')", ended):
        await until(lambda: ended)
    assert ended == ["it prints other text than MCP messages on its standard output"]


async def test_a_line_without_an_end_is_not_kept():
    ended = []
    source = "import sys\nwhile True: sys.stdout.write('x' * 1000000)"
    process = program(source, ended)
    async with process:
        await until(lambda: ended)
    assert ended == ["it sent a line of more than 8 MiB"]
    assert gone(process._process.pid)


async def test_a_flood_on_standard_error_is_read_and_bounded():
    ended = []
    source = "import sys\nfor n in range(300): sys.stderr.write('x' * 10000)\nsys.exit(1)"
    async with program(source, ended):
        await until(lambda: ended)
    assert len(ended[0]) < 1200


async def test_it_sees_no_setting_but_what_it_is_given(monkeypatch):
    monkeypatch.setenv("BOT_TOKEN_CLAUDE", "canary")
    ended = []
    source = "import os, sys; sys.stderr.write(' '.join(sorted(os.environ))); sys.exit(1)"
    async with program(source, ended, env={"GIVEN": "x"}):
        await until(lambda: ended)
    assert "GIVEN" in ended[0]
    assert "PATH" in ended[0]
    assert "BOT_TOKEN" not in ended[0]
    assert child_environment({"PATH": "a", "KEY": "b"}, {"PATH": "c"}) == {"PATH": "c"}


async def test_one_that_will_not_end_is_killed_with_its_children():
    source = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print('{"jsonrpc":"2.0","method":"%d"}' % child, flush=True)
while True:
    time.sleep(1000)
"""
    process = program(source, [])
    async with process as (read, _):
        child = int((await read.receive()).message.method)
        parent = process._process.pid
        assert not gone(parent)
    assert gone(parent)
    await until(lambda: gone(child))


async def test_nothing_is_left_when_the_end_itself_is_cancelled():
    source = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + (
        f"print({MESSAGE!r}.decode(), flush=True)\nwhile True: time.sleep(1000)"
    )
    process = program(source, [], grace=1000.0)
    greeted = asyncio.Event()

    async def use():
        async with process as (read, _):
            await read.receive()
            greeted.set()

    using = asyncio.create_task(use())
    await greeted.wait()
    using.cancel()
    await asyncio.sleep(0)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    await until(lambda: gone(process._process.pid))


async def test_a_program_that_is_not_there_cannot_be_started():
    process = ServerProcess(ServerConfig(name="p", command="no-such-program-here"), os.environ, [].append)
    with pytest.raises(FileNotFoundError):
        await process.__aenter__()
