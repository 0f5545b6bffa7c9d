"""What a bot does by itself, through the whole program: a heartbeat, a job, hooks, news from outside."""

import asyncio
import json
import time

import aiohttp
import pytest

from agentic.automation.webhook_server import WebhookPayload, sign
from agentic.personas.schedules import Check, Job
from agentic.state.waiting_turns import LastRuns
from agentic.wire.connection import RedisConnection
from tests.support.flow import decision, flow
from tests.support.ports import free_port
from tests.support.redis_server import PATIENT, RedisServer, until

SECRET = "signed-with-this-secret"
HEARTBEAT = "## Build\n- interval: 60\n- channel: casual\n\nLook at the BUILD.\n"
AGENTS = (
    "## Cron Jobs\n### Plan\n- cron: 0 9 * * *\n- channel: debate\n- catch_up: yes\n\nMake a PLAN.\n"
    "## Hooks\n### startup\n- channel: debate\n\nSay HELLO.\n"
    "### agent_stop\n- when: webhook\n\nNOTE it.\n"
    "### shutdown\n- channel: debate\n\nSay GOODBYE.\n"
)
ORDERS = ("BUILD", "PLAN", "HELLO", "NOTE", "GOODBYE", "main is red")


def by_order(request):
    text = request.texts[-1]
    return decision(next((f"did: {order}" for order in ORDERS if order in text), "did: nothing"))


@pytest.fixture
def personas(tmp_path):
    folder = tmp_path / "personas" / "claude"
    folder.mkdir(parents=True)
    (folder / "heartbeat.md").write_text(HEARTBEAT)
    (folder / "agents.md").write_text(AGENTS)
    return {"PERSONAS_DIR": str(folder.parent)}


async def ran_before(url, seconds):
    """The check and the job ran so long ago, by another process."""
    fields = [Check("Build", "", 60).field, Job("Plan", "0 9 * * *", "").field]
    async with RedisConnection(url, command_timeout=PATIENT) as link:
        for field in fields:
            assert await LastRuns(link).run("claude", field, time.time() - seconds)


@pytest.mark.promise(110)
async def test_heartbeat_job_and_startup_hook_run_in_their_channels_and_a_restart_repeats_none(tmp_path, personas):
    with RedisServer() as redis:
        await ran_before(redis.url, 2 * 86_400)
        async with flow(tmp_path, redis_url=redis.url, **personas) as f:
            f.models.answer = by_order
            async with f.running(agents=("claude",)) as runtime:
                await f.discord.wait_for(lambda: len(f.said("debate")) == 2 and f.said("casual"), timeout=30)
                assert sorted(f.said("debate", "claude")) == ["did: HELLO", "did: PLAN"]
                assert f.said("casual", "claude") == ["did: BUILD"]
                await runtime.drain()
                assert f.said("debate")[-1] == "did: GOODBYE"
            asked = len(f.models.requests)
            async with f.running(agents=("claude",)) as runtime:
                await runtime.drain()
            assert len(f.models.requests) == asked + 1, "of the second run only the goodbye"


@pytest.mark.promise(115)
async def test_a_server_that_comes_late_loses_no_startup_hook_no_job_and_no_news(tmp_path, personas):
    late = {}

    def hold(created):
        late.update(created)
        return {"id": created["id"], "unavailable": True}

    with RedisServer() as redis:
        await ran_before(redis.url, 2 * 86_400)
        async with flow(tmp_path, redis_url=redis.url, **personas) as f:
            f.models.answer = by_order
            f.discord.faults.altered["GUILD_CREATE"] = hold
            async with f.running(agents=("claude",), coordinator=False) as runtime:
                errands = runtime.bots["claude"].cog.host.automation
                told = asyncio.create_task(
                    errands.receive(
                        "event-1", WebhookPayload(channel_id=f.channel("casual"), name="build", text="main is red")
                    )
                )
                await until(lambda: errands._clock._held)
                assert f.models.requests == []
                await f.discord.send_event("claude", "GUILD_CREATE", late)
                assert await told == "taken"
                await f.discord.wait_for(lambda: len(f.said("debate")) == 2 and len(f.said("casual")) == 2)
            assert sorted(f.said("debate", "claude")) == ["did: HELLO", "did: PLAN"]
            assert sorted(f.said("casual", "claude")) == ["did: BUILD", "did: main is red"]


@pytest.mark.promise(113)
async def test_what_waits_at_a_shutdown_is_taken_up_by_the_next_run(tmp_path):
    go_on = asyncio.Event()

    async def held(request):
        await go_on.wait()
        return by_order(request)

    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            f.models.answer, only = held, {"agents": ("claude",), "coordinator": False}
            async with f.running(**only) as runtime:
                cog = runtime.bots["claude"].cog
                await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> the BUILD?")
                await f.models.wait_for(1)
                news = WebhookPayload(channel_id=f.channel("casual"), name="build", text="main is red")
                assert [await cog.host.automation.receive(f"event-{n}", news) for n in range(3)] == ["taken"] * 3
                await f.discord.say("Bob", "casual", f"<@{f.user_id('claude')}> the PLAN?")
                await until(lambda: cog.host.queue.inbox.size() == 4)
                draining = asyncio.create_task(runtime.drain())
                await until(lambda: cog.host.queue.inbox.size() == 0)
                go_on.set()
                await draining
            assert f.said("casual", "claude") == ["did: BUILD"]
            async with f.running(**only):
                await f.discord.wait_for(lambda: len(f.said("casual", "claude")) == 5)
            assert sorted(f.said("casual", "claude")) == ["did: BUILD", "did: PLAN", *["did: main is red"] * 3]
            assert len(f.models.requests) == 5, "each once"


async def test_a_signed_event_is_told_in_its_channel_and_hooks_stand_around_it(tmp_path, personas, caplog):
    caplog.set_level("INFO")
    port = free_port()
    async with flow(tmp_path, EVENTS_PORT=str(port), EVENTS_SECRET=SECRET, **personas) as f:
        f.models.answer = by_order
        body = json.dumps({"channel_id": f.channel("casual"), "name": "build", "text": "main is red"}).encode()
        stamp = str(round(time.time()))
        async with f.running(agents=("claude",)) as runtime, aiohttp.ClientSession() as session:

            async def post(agent, **more):
                url = f"http://127.0.0.1:{port}/events/{agent}"
                headers = {"X-Timestamp": stamp, "X-Signature": sign(SECRET, stamp, agent, body), **more}
                async with session.post(url, data=body, headers=headers) as answer:
                    return answer.status

            assert await post("claude", **{"X-Signature": "sha256=0"}) == 401
            assert await post("grok") == 404
            assert await post("claude") == 202
            assert await post("claude") == 409
            await f.discord.wait_for(lambda: f.said("casual"))
            await runtime.drain()
            assert f.said("casual", "claude") == ["did: main is red"]
            assert "has no channel to post them in" in caplog.text
            assert "did: NOTE" not in caplog.text, "the log holds no words"
            assert SECRET not in caplog.text


def test_the_secret_is_among_the_secrets(tmp_path):
    from agent_config import SettingsError, load_settings

    given = {"EVENTS_PORT": "8788", "EVENTS_SECRET": SECRET}
    assert SECRET in load_settings(given, None).secrets()
    for wrong in ({"EVENTS_PORT": "8788"}, {"EVENTS_SECRET": "short"}):
        with pytest.raises(SettingsError, match="EVENTS_SECRET"):
            load_settings(wrong, None)
