"""Coordinators that come and go in mid-conversation: the bots notice nothing."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import aiohttp
import pytest

from agent_coordinator.events import ConversationEnded
from agentic.process.root import ROOT
from agentic.runtime import health
from agentic.runtime.bot import cancel
from tests.support.flow import decision, flow
from tests.support.ports import free_port
from tests.support.program import Program
from tests.support.redis_server import RedisServer, until


class Held:
    """The second request of all waits until it is let go."""

    def __init__(self, f):
        self.f, self.thinking, self.go_on = f, asyncio.Event(), asyncio.Event()

    async def __call__(self, request):
        number = len(self.f.models.requests)
        if number == 2:
            self.thinking.set()
            await self.go_on.wait()
        return decision(f"turn {number}", topic="t")


def reports_of(runtime):
    found = []
    runtime.coordinator.engine.observers.append(
        lambda event: found.append(event.state) if isinstance(event, ConversationEnded) else None
    )
    return found


@pytest.mark.promise(77)
async def test_a_coordinator_that_is_started_anew_goes_on_with_the_turn_that_was_under_way(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="2") as f, f.running() as runtime:
        f.models.answer = held = Held(f)
        talking = asyncio.create_task(runtime.coordinator.start_conversation(f.channel("debate")))
        await held.thinking.wait()
        await cancel([talking, runtime._tasks.pop("coordinator")])
        runtime.start_coordinator()
        reports = reports_of(runtime)
        held.go_on.set()
        await f.discord.wait_for(lambda: reports)
        (report,) = reports
        assert (report.messages, len(f.said("debate"))) == (4 * report.counts.round,) * 2
        assert len(f.models.requests) == report.messages, "no turn was thought twice"
        assert sorted(set(f.said("debate"))) == sorted(f.said("debate"))


async def test_a_result_that_came_while_nobody_led_is_taken_as_it_was(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        f.models.answer = held = Held(f)
        talking = asyncio.create_task(runtime.coordinator.start_conversation(f.channel("debate")))
        await held.thinking.wait()
        await cancel([talking, runtime._tasks.pop("coordinator")])
        held.go_on.set()
        await f.discord.wait_for(lambda: len(f.said("debate")) == 2)
        runtime.start_coordinator()
        reports = reports_of(runtime)
        await f.discord.wait_for(lambda: reports)
        assert (reports[0].messages, len(f.said("debate")), len(f.models.requests)) == (4, 4, 4)


def coordinator_process(folder, f, redis, **environment):
    """The coordinator alone."""
    debate = f.channel("debate")
    settings = {
        "REDIS_URL": redis.url,
        "CHANNEL_THEME_MAP": f"{debate}:debate",
        "COORDINATOR_MAX_ROUNDS": "1",
        "COORDINATOR_SCHEDULE_MIN": "0",
        "COORDINATOR_SCHEDULE_MAX": "0",
        "COORDINATOR_TURN_DELAY_MIN": "0",
        "COORDINATOR_TURN_DELAY_MAX": "0",
        **environment,
    }
    return Program(folder, entry="main_coordinator", environment=settings)


async def ended(process):
    """Tells it to end as a service manager does; its log."""
    process.tell(signal.SIGTERM)
    assert await process.ended() == 0, process.stderr
    return process.stderr


async def test_a_coordinator_alone_that_is_killed_is_followed_by_the_next_within_seconds(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f, f.running(coordinator=False):
            f.models.answer = held = Held(f)
            with coordinator_process(tmp_path, f, redis, COORDINATOR_FIRE_ON_STARTUP="true") as first:
                await asyncio.wait_for(held.thinking.wait(), 30)
                first.kill()
                with coordinator_process(tmp_path, f, redis) as second:
                    held.go_on.set()
                    await f.discord.wait_for(lambda: len(f.said("debate")) == 4, timeout=30)
                    log = await ended(second)
            assert "resumed in round 1" in log
            assert len(f.models.requests) == 4
            assert sorted(f.said("debate")) == [f"turn {number}" for number in (1, 2, 3, 4)]


async def test_a_coordinator_alone_has_the_log_the_health_and_the_metrics_of_every_other_start(tmp_path):
    port = free_port()
    settings = {"LOG_FORMAT": "json", "LOG_LEVEL": "DEBUG", "HEALTH_PORT": str(port)}
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            with coordinator_process(tmp_path, f, redis, **settings) as process:
                assert await asyncio.to_thread(answer_of, port) == 200
                async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics") as response:
                    assert "agentic_discord_redis_up" in await response.text()
                log = await ended(process)
    assert all(json.loads(line)["message"] for line in log.splitlines())


TELLS = """
import logging
from agentic.runtime import runtime

async def serve(setup):
    settings = setup.settings
    logging.getLogger("x").warning("it is %s", settings.tavily_api_key.get_secret_value())
    raise RuntimeError(settings.tavily_api_key.get_secret_value())

runtime.serve = serve
"""


def test_no_secret_is_in_the_log_of_a_coordinator_alone(tmp_path):
    secret = "a-key-of-some-length"
    environment = {"TAVILY_API_KEY": secret, "CHANNEL_THEME_MAP": "100000000000000001"}
    with Program(tmp_path, entry="main_coordinator", before=TELLS, environment=environment) as process:
        assert process.wait() == 1
    assert process.says("it is [redacted]")
    assert process.says("RuntimeError")
    assert not process.says(secret)


def answer_of(port):
    """What /readyz says when it is ready, within 20 seconds."""
    until = time.monotonic() + 20
    while (status := health.ask(port, "ready")) != 200 and time.monotonic() < until:
        time.sleep(0.05)
    return status


async def test_a_coordinator_alone_hears_of_a_stop_and_keeps_to_it_after_its_restart(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f, f.running(coordinator=False):
            f.models.answer = held = Held(f)
            with coordinator_process(tmp_path, f, redis, COORDINATOR_FIRE_ON_STARTUP="true") as process:
                await asyncio.wait_for(held.thinking.wait(), 30)
                await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> stop")
                await until(lambda: process.says("ended (stopped)"))
            with coordinator_process(tmp_path, f, redis, COORDINATOR_FIRE_ON_STARTUP="true") as process:
                await until(lambda: process.says("no channel is free"), within=30)
                await ended(process)
            assert len([text for text in f.said("debate") if text.startswith("turn")]) == 1


def test_a_coordinator_alone_says_what_it_lacks(tmp_path):
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    alone = [sys.executable, "-m", "agent_coordinator"]
    done = subprocess.run(alone, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30)  # noqa: S603
    assert (done.returncode, "has no channels" in done.stderr) == (2, True), done.stderr
    with Program(tmp_path, entry="main_coordinator", environment={"LOG_LEVEL": "loud"}) as process:
        assert (process.wait(), process.says("LOG_LEVEL")) == (2, True), process.stderr
