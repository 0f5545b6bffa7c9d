"""Idle tasks as an agent does them, over sockets: searched for, posted as a reply, ended by a sign or a message."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager

from agentic.services.discord.service import DiscordService
from agentic.wire import keys
from agentic.wire.messages import CancelNotice, Instruction, Reflection
from tests.support.flow import decision, flow
from tests.support.redis_server import until
from tests.support.tools.search_web import search_web

NEWS = "A tree in California is taller than any other, as was measured this week."
QUESTION = "which tree is the tallest of them all?"


@asynccontextmanager
async def idle(tmp_path, **settings):
    """A quiet server: Alice has asked a question that nobody answered. Gemini searches by our tool."""
    async with (
        search_web() as web,
        flow(
            tmp_path,
            GEMINI_MODEL="gemini-2.5-flash",
            CHEAP_MODEL="none",
            TAVILY_API_KEY="tavily-key-1",
            **settings,
        ) as f,
        f.running(agents=("gemini",), **web.setup) as runtime,
    ):
        said = await f.discord.say("Alice", "debate", QUESTION)
        await runtime.services.chats.get(DiscordService).fetcher.known(f.channel("debate"))
        yield f, runtime, web, int(said["id"])


def alice(f):
    return next(user.id for user in f.world.users.values() if user.username == "Alice" or user.global_name == "Alice")


def task(f, name, instruction_id="r1", **fields):
    given = {"person_id": alice(f), "person_name": "Alice", "material": f"Alice: {QUESTION}", **fields}
    return Instruction(
        instruction_id=instruction_id,
        action="reflect",
        channel_id=f.channel("debate"),
        channel_theme="debate",
        deadline=time.time() + 60,
        reflection=Reflection(task=name, **given),
    )


def posts(f):
    return [message for message in f.discord.messages("debate") if message["author"].get("bot")]


async def test_a_follow_up_is_searched_for_and_replies_without_a_ping_until_the_person_says_no(tmp_path):
    async with idle(tmp_path) as (f, runtime, web, asked):
        ask = runtime.services.bus.ask
        f.models.answer = lambda r: decision(NEWS)
        result = await ask("gemini", task(f, "follow_up", message_id=asked, cause="a question was left open"))
        (post,) = posts(f)
        assert (result.skipped, int(post["id"]), web.queries) == (False, result.message_id, [NEWS])
        assert post["content"].startswith(NEWS)
        assert "trees.example" in post["content"], "the page that it rests on is named"
        assert (int(post["message_reference"]["message_id"]), post["mentions"]) == (asked, [])
        assert "If nothing is new, skip." in f.models.requests[-1].tail

        await f.discord.react("Bob", "debate", result.message_id, "🔕")
        await f.discord.react("Alice", "debate", result.message_id, "🔕")
        await f.discord.wait_for(lambda: any(r["emoji"]["name"] == "✅" for r in posts(f)[0].get("reactions", ())))
        calls = len(f.models.requests)
        again = await ask("gemini", task(f, "discover", "r2", topics=("trees",)))
        assert (again.reason, len(posts(f)), len(f.models.requests)) == ("unwanted", 1, calls)


async def test_a_follow_up_to_a_message_that_nobody_knows_any_more_is_an_ordinary_post(tmp_path):
    async with idle(tmp_path) as (f, runtime, _, asked):
        f.models.answer = lambda r: decision(NEWS)
        result = await runtime.services.bus.ask("gemini", task(f, "follow_up", message_id=asked - (60_000 << 22)))
        (post,) = posts(f)
        assert (result.skipped, post.get("message_reference")) == (False, None)


async def test_a_summary_and_a_profile_are_calls_without_a_persona_that_post_nothing(tmp_path):
    async with idle(tmp_path) as (f, runtime, _, _asked):
        ask = runtime.services.bus.ask
        f.models.answer = lambda r: "Alice asked which tree is the tallest."
        summary = await ask("gemini", task(f, "summarise"))
        f.models.answer = lambda r: "- trees\n- trees\n- alice@example.com"
        profile = await ask("gemini", task(f, "profile", "r2"))
        assert (summary.text, profile.text) == ("Alice asked which tree is the tallest.", "trees")
        assert (summary.skipped, summary.message_id, posts(f)) == (False, None, [])
        assert all(not r.tools and not r.has_schema and "Gemini" not in r.system for r in f.models.requests)
        kept = await ask("gemini", task(f, "summarise"))
        assert (kept, len(f.models.requests)) == (summary, 2), "the same instruction is one call"
        records = await runtime.services.state.turns.records.last("gemini", f.channel("debate"), 2)
        assert [(record.kind, record.trigger, record.outcome) for record in records] == [
            ("reflection", "profile", "written"),
            ("reflection", "summarise", "written"),
        ]


async def test_a_cancel_ends_a_call_and_a_turn_in_whatever_process_they_run(tmp_path):
    async with idle(tmp_path) as (f, runtime, _, asked):
        bus = runtime.services.bus
        never = asyncio.Event()

        async def think(request):
            await never.wait()
            return decision(NEWS)

        f.models.answer = think
        for number, name in enumerate(("summarise", "follow_up")):
            asking = asyncio.create_task(bus.ask("gemini", task(f, name, f"r{number}", message_id=asked)))
            await f.discord.wait_for(lambda n=number: len(f.models.requests) == n + 1)
            notice = CancelNotice(agent_name="gemini", instruction_id=f"r{number}")
            await bus.publish(keys.COORDINATOR_CANCELS, notice)
            result = await asking
            assert (result.skipped, result.reason, posts(f)) == (True, "person_wrote", [])
        costs = await runtime.services.state.limits.costs.read("gemini", time.strftime("%Y-%m-%d", time.gmtime()))
        assert costs["total_cost"] > 0


async def test_what_a_person_writes_while_it_searches_is_not_talked_over(tmp_path):
    async with idle(tmp_path) as (f, runtime, web, asked):
        web.hangs = True
        f.models.answer = lambda r: decision(NEWS)
        asking = asyncio.create_task(runtime.services.bus.ask("gemini", task(f, "follow_up", message_id=asked)))
        await f.discord.wait_for(lambda: web.queries)
        said = await f.discord.say("Bob", "debate", "good morning")
        await until(lambda: int(said["id"]) in runtime.services.chats.transcripts.of(f.channel("debate")))
        web.hangs = False
        web._over.set()
        result = await asking
        assert (result.reason, posts(f)) == ("person_wrote", [])
        assert json.loads(result.to_wire())["skipped"]
