"""The program is told to stop while it works, and asked how it is."""

import asyncio
import os
import signal

import aiohttp
import pytest

from agentic.runtime.runtime import serve
from tests.support.flow import decision, flow
from tests.support.ports import free_port
from tests.support.program import environment, program
from tests.support.redis_server import RedisServer, until


async def status(port, path):
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                return response.status
        except aiohttp.ClientError:
            return 0


async def becomes(port, path, wanted):
    async with asyncio.timeout(30):
        while await status(port, path) != wanted:  # noqa: ASYNC110
            await asyncio.sleep(0)


def held(f):
    """The models wait until the event is set."""
    go_on = asyncio.Event()

    async def answer(request):
        await go_on.wait()
        return decision("the last word")

    f.models.answer = answer
    return go_on


@pytest.mark.promise(100)
async def test_a_running_turn_ends_in_order_and_a_waiting_one_is_not_begun(tmp_path, caplog):
    async with flow(tmp_path) as f:
        go_on, port = held(f), free_port()
        setup = f.setup(agents=("claude",), settings=f.settings.with_(health_port=port))
        serving = asyncio.create_task(serve(setup))
        await becomes(port, "/readyz", 200)
        for word in ("one", "two"):
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> {word}")
        await f.models.wait_for(1)
        os.kill(os.getpid(), signal.SIGTERM)
        await becomes(port, "/readyz", 503)
        await f.discord.say("Bob", "casual", f"<@{f.user_id('claude')}> too late")
        assert await status(port, "/healthz") == 200
        go_on.set()
        assert await asyncio.wait_for(serving, 30) == 0
        assert f.said("debate", "claude") == ["the last word"]
        assert f.said("casual", "claude") == []
        assert len(f.models.requests) == 1
        assert await status(port, "/healthz") == 0
        assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.promise(100)
async def test_a_turn_that_outlasts_its_grace_is_given_up(tmp_path, caplog):
    async with flow(tmp_path, SHUTDOWN_GRACE_SECONDS="0.1") as f:
        held(f)
        serving = asyncio.create_task(serve(f.setup(agents=("claude",))))
        await f.discord.wait_for(lambda: f.discord.online)
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
        await f.models.wait_for(1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(serving, 30) == 0
        assert "are canceled: claude" in caplog.text
        assert f.said("debate", "claude") == []


@pytest.mark.promise(100)
async def test_a_second_ctrl_c_leaves_at_once_though_a_turn_has_time_left(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path) as f:
            held(f)
            settings = environment(f, redis.url, SHUTDOWN_GRACE_SECONDS="60")
            async with program(tmp_path, f, "--only", "claude", **settings) as process:
                await f.discord.wait_for(lambda: "claude" in f.discord.online, timeout=30)
                await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
                await f.models.wait_for(1)
                process.tell(signal.SIGINT)
                await until(lambda: process.says("stopping"))
                process.tell(signal.SIGINT)
                assert await process.ended(within=5) == 0, process.stderr


async def test_without_redis_it_is_live_and_not_ready_until_redis_is_back(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            port = free_port()
            serving = asyncio.create_task(serve(f.setup(settings=f.settings.with_(health_port=port))))
            await becomes(port, "/readyz", 200)
            redis.kill()
            await becomes(port, "/readyz", 503)
            assert await status(port, "/healthz") == 200
            redis.start()
            await becomes(port, "/readyz", 200)
            await until(lambda: len(f.discord.online) == 4)
            os.kill(os.getpid(), signal.SIGTERM)
            assert await asyncio.wait_for(serving, 30) == 0
