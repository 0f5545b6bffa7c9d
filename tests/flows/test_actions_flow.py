"""What an owner does from the console, in the whole program: over real sockets, a real Redis and a restart."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import pytest
from aiohttp.test_utils import TestClient, TestServer

from agentic.console.app import console_app
from agentic.console.parts import RecordFile
from agentic.runtime.console import _parts
from agentic.wire.messages import Command
from tests.support.console import csrf
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.redis_server import RedisServer, until


class Owner:
    """A browser at the console of a running program."""

    def __init__(self, client):
        self._client, self._clicks = client, 0

    async def act(self, name, **fields):
        self._clicks += 1
        body = {"id": f"click-{time.time_ns()}", **fields}
        response = await self._client.post(f"/api/actions/{name}", json=body, headers=await csrf(self._client))
        answer = await response.json()
        return answer.get("outcome") or answer["error"]


@asynccontextmanager
async def owner_of(runtime):
    app = console_app(_parts(runtime, RecordFile(None)))
    async with TestClient(TestServer(app)) as client:
        yield Owner(client)


async def notes_in(runtime):
    entries = await runtime._link.commands.xrange("coordinator:record")
    found = [json.loads(entry["data"]) for _, entry in entries if entry["kind"] == "action"]
    return [(note["by"], note["action"], note["outcome"]) for note in found]


def signs(f, channel):
    return [r["emoji"]["name"] for m in f.discord.messages(channel) for r in m.get("reactions", ())]


class Held:
    """The model server's answers are held back until the test lets them go, one by one."""

    def __init__(self):
        self._go = asyncio.Semaphore(0)

    async def __call__(self, request):
        await self._go.acquire()
        return decision(f"by {request.provider}", topic="t")

    def go(self, turns=1):
        for _ in range(turns):
            self._go.release()


async def test_a_conversation_begins_with_the_chosen_bot_and_topic_and_the_owner_chooses_who_goes_on(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime, owner_of(runtime) as owner:
        f.models.answer = held = Held()
        here = str(f.channel("debate"))
        assert await owner.act("start", channel=here, agent="grok", topic="the price of tea") == "started"
        await f.discord.wait_for(lambda: f.models.requests)
        first = f.models.requests[0]
        assert (first.provider, "The topic is “the price of tea”" in first.tail) == ("xai", True)
        assert await owner.act("next", channel=here, agent="gemini") == "requested"
        held.go()
        await f.discord.wait_for(lambda: len(f.models.requests) == 2)
        second = f.models.requests[1]
        assert (second.provider, "A person wants you to continue" in second.tail) == ("google", True)
        assert await owner.act("start", channel=here) == "A conversation is already running in #debate."
        held.go(3)
        await f.discord.wait_for(lambda: len(f.said("debate")) == 4)
        assert f.said("debate")[:2] == ["by xai", "by google"]
        await until(lambda: not runtime.coordinator.engine.locks.busy)
        assert await owner.act("end", channel=here) == "No conversation is running in #debate."
        await runtime.services.record.notes.aclose()
        noted = await notes_in(runtime)
        assert noted[:2] == [("console", "start", "started"), ("console", "next", "requested")]


@pytest.mark.promise(124)
async def test_a_bot_that_was_asked_for_speaks_next_also_under_another_leader(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, COORDINATOR_MAX_ROUNDS="1") as f:
            f.models.answer = held = Held()
            async with f.running() as runtime, owner_of(runtime) as owner:
                here = str(f.channel("debate"))
                await owner.act("start", channel=here, agent="grok")
                await f.discord.wait_for(lambda: f.models.requests)
                assert await owner.act("next", channel=here, agent="gemini") == "requested"
                held.go()
                await f.discord.wait_for(lambda: len(f.models.requests) == 2)
                assert await owner.act("next", channel=here, agent="grok") == "requested"
                held.go()  # gemini's turn may end while the program does
            held.go(20)
            async with f.running():
                await f.discord.wait_for(lambda: len(f.said("debate")) == 5)
                assert f.said("debate")[:3] == ["by xai", "by google", "by xai"]


async def test_where_nobody_converses_the_bot_has_one_turn_and_hears_what_was_said(tmp_path):
    async with flow(tmp_path) as f, f.running() as runtime, owner_of(runtime) as owner:
        await f.discord.say("Alice", "debate", "Tea is too dear.")
        await until(lambda: runtime.services.chats.transcripts.of(f.channel("debate")).newest)
        assert await owner.act("next", channel=str(f.channel("debate")), agent="claude") == "next_started"
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        await until(lambda: not runtime.coordinator.engine.locks.busy)
        (request,) = f.models.requests
        assert "A person wants you to continue" in request.tail
        assert "Tea is too dear." in "\n".join(request.texts)


@pytest.mark.promise(123)
async def test_a_pause_of_all_outlives_a_restart_and_stops_mentions_schedule_and_conversations(tmp_path, caplog):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, COORDINATOR_MAX_ROUNDS="5") as f:
            f.models.answer = held = Held()
            claude = f.user_id("claude")
            async with f.running() as runtime, owner_of(runtime) as owner:
                await owner.act("start", channel=str(f.channel("debate")))
                await f.discord.wait_for(lambda: f.models.requests)
                assert await owner.act("pause") == "paused_all"
                await until(lambda: not runtime.coordinator.engine.locks.busy)
            held.go(100)
            async with f.running() as runtime, owner_of(runtime) as owner:
                assert "all bots are still paused from before this start" in caplog.text
                await f.discord.say("Alice", "casual", f"<@{claude}> are you there?")
                await f.discord.wait_for(lambda: signs(f, "casual") == ["🛑"])
                assert await runtime.coordinator.start_conversation() is None, "as the schedule does"
                assert await owner.act("next", channel=str(f.channel("debate")), agent="claude") == (
                    "All bots are paused. Use “Resume all bots” first."
                )
                assert len(f.models.requests) == 1, "no model was asked"
                assert await owner.act("resume_all") == "resumed_all"
                await f.discord.say("Alice", "casual", f"<@{claude}> and now?")
                await f.discord.wait_for(lambda: f.said("casual", "claude"))
                assert not [m for m in f.discord.messages("debate") if m["content"]]


async def test_a_raise_lets_a_refused_turn_happen_in_every_process(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, BUDGET_DAILY_USD="0.003") as f:
            claude, bots = f.user_id("claude"), {"settings": f.settings.with_(budget_user_usd=9.0)}
            f.models.answer = lambda r: Answer(text=decision("hello"), output_tokens=4000)
            async with (
                f.running(**bots, agents=("claude",), coordinator=False),
                f.running(**bots, agents=("grok",)) as elsewhere,
                owner_of(elsewhere) as owner,
            ):
                ask = partial(f.discord.say, "Alice", "casual", f"<@{claude}> hello")
                await ask()
                await f.discord.wait_for(lambda: f.said("casual", "claude"))
                await ask()
                await f.discord.wait_for(lambda: signs(f, "casual") == ["💤"])
                assert await owner.act("raise_budget", dollars=1.0) == "raised"
                await ask()
                await f.discord.wait_for(lambda: len(f.said("casual", "claude")) == 2)


async def test_an_added_time_begins_one_conversation_when_it_comes(tmp_path):
    noon_here = f"Etc/GMT{datetime.now(UTC).hour - 12:+d}"  # far from midnight, whenever the test runs
    settings = {"COORDINATOR_MAX_ROUNDS": "1", "TIMEZONE": noon_here}
    async with flow(tmp_path, **settings) as f, f.running() as runtime:
        soon = time.time() + 0.3
        assert await runtime.services.bus.orders.give(Command(command="add", at=soon + 3600)) == "added"
        assert await runtime.services.bus.orders.give(Command(command="move", at=soon + 3600, to=soon)) == "moved"
        await f.discord.wait_for(lambda: len([*f.said("debate"), *f.said("casual")]) == 4)
        await until(lambda: not runtime.coordinator.engine.locks.busy)
        assert await runtime.coordinator.scheduler.next_due() is None
