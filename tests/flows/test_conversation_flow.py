"""Conversations of all four bots, from the coordinator to the channel and back."""

import asyncio
import json
import os
import socket
from itertools import pairwise

import pytest

from agent_coordinator.events import TurnTaken
from agentic.local.discord import messages
from tests.support.flow import decision, flow
from tests.support.redis_server import RedisServer, until


def shown_texts(request):
    return "\n".join(request.texts)


async def test_all_four_hold_a_conversation_in_their_channel(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        report = await runtime.coordinator.start_conversation(f.channel("debate"))
        assert (report.messages, report.counts.round, report.talk.topic) == (4, 1, "tests")
        assert len(f.said("debate")) == 4
        assert {r.provider for r in f.models.requests} == {"openai", "anthropic", "google", "xai"}
        assert report.counts.total.calls == 4
        assert report.cost_usd > 0


async def test_each_turn_sees_what_was_said_before_it(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        await runtime.coordinator.start_conversation(f.channel("debate"))
        said = f.said("debate")
        for number, request in enumerate(f.models.requests):
            assert all(text in shown_texts(request) for text in said[:number])


async def test_a_conversation_goes_over_rounds_and_the_last_speaker_is_not_first_in_the_next(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="3") as f, f.running() as runtime:
        taken = []
        runtime.coordinator.engine.observers.append(lambda e: taken.append(e) if isinstance(e, TurnTaken) else None)
        for _ in range(5):
            await runtime.coordinator.start_conversation(f.channel("debate"))
        turns = [(e.state.id, e.state.counts.round, e.agent) for e in taken]
        later = [(a, b) for a, b in pairwise(turns) if a[0] == b[0] and b[1] == a[1] + 1]
        assert later, "five conversations and no second round"
        assert all(before[2] != after[2] for before, after in later)


async def test_a_person_who_joins_is_answered_by_one_bot_and_the_next_one_is_shown_that(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        joined = asyncio.Event()

        async def answer(request):
            if len(f.models.requests) == 2 and not joined.is_set():
                await f.discord.say("Alice", "debate", "What about spaces?")
                joined.set()
            return decision(f"turn {len(f.models.requests)}", topic="tabs")

        f.models.answer = answer
        await runtime.coordinator.start_conversation(f.channel("debate"))
        assert [("What about spaces?" in r.tail) for r in f.models.requests] == [False, False, True, False]
        assert "has answered what Alice said" in f.models.requests[3].tail


async def test_conversations_in_two_channels_run_side_by_side(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        both = asyncio.Barrier(2)

        async def answer(request):
            if len(f.models.requests) <= 2:  # the two openings must be under way at once to get past here
                await asyncio.wait_for(both.wait(), 30)
            return decision("hello", topic="t")

        f.models.answer = answer
        reports = await asyncio.gather(
            *(runtime.coordinator.start_conversation(f.channel(c)) for c in ("debate", "casual"))
        )
        assert [report.messages for report in reports] == [4, 4]


async def test_a_channel_holds_one_conversation_at_a_time(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        reports = await asyncio.gather(*(runtime.coordinator.start_conversation(f.channel("debate")) for _ in range(2)))
        assert sorted(report is None for report in reports) == [False, True]


async def test_a_bot_that_skips_says_and_shows_nothing(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        f.models.answer = lambda r: decision(
            "x", skip=r.provider == "xai", react_emoji="🔥", topic="t", end_conversation=False
        )
        report = await runtime.coordinator.start_conversation(f.channel("debate"))
        assert (report.messages, report.skips) == (3, 1)
        grok = f.user_id("grok")
        assert not f.said("debate", "grok")
        assert not [r for r in f.discord.requests if r.bot == "grok" and ("reactions" in r.path or "typing" in r.path)]
        assert grok


async def test_a_picture_and_its_text_are_one_message_and_go_into_the_history(tmp_path):
    async with flow(tmp_path, channels={"memes": "memes"}, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        f.models.answer = lambda r: decision(
            "look", generate_image=True, image_prompt=f"a cat by {r.provider}", topic="t"
        )
        report = await runtime.coordinator.start_conversation(f.channel("memes"))
        with_picture = [m for m in f.discord.messages("memes") if m["attachments"]]
        # Anthropic draws nothing: it posts text alone
        assert (report.messages, report.counts.total.pictures, len(with_picture)) == (4, 3, 3)
        assert all(m["content"] == "look" for m in f.discord.messages("memes"))


async def test_a_picture_that_is_too_large_for_the_channel_leaves_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(messages, "MAX_FILE_BYTES", 10)
    async with flow(tmp_path, channels={"memes": "memes"}, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        f.models.answer = lambda r: decision("look", generate_image=True, image_prompt="a cat", topic="t")
        report = await runtime.coordinator.start_conversation(f.channel("memes"))
        said = f.said("memes")
        assert (report.messages, len(said)) == (4, 4)
        assert all(text.startswith("look") for text in said)
        assert sum("too large" in text for text in said) == 3  # Anthropic draws nothing


async def test_the_bots_found_elsewhere_converse_with_those_here(tmp_path):
    """run_bot.py in one process and the others in a second one: two runtimes on one Redis."""
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, COORDINATOR_MAX_ROUNDS="1") as f:
            others = ("chatgpt", "claude", "grok")
            async with f.running(agents=("gemini",), coordinator=False), f.running(agents=others) as here:
                report = await here.coordinator.start_conversation(f.channel("debate"))
                assert report.messages == 4
                assert len(f.said("debate", "gemini")) == 1


@pytest.mark.promise(97)
async def test_a_bot_that_already_runs_is_named_and_not_run_twice(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("agentic.runtime.process.DEAD_HOLDER_SECONDS", 0.1)  # its holder lives
    with RedisServer() as redis:
        async with (
            flow(tmp_path, redis_url=redis.url) as f,
            f.running(agents=("claude",)),
            f.running(agents=("claude", "grok"), coordinator=False) as second,
        ):
            assert set(second.bots) == {"grok"}
            told = f"claude already runs on this Redis (process {os.getpid()} on {socket.gethostname()}); waiting"
            assert told in caplog.text, "said before the wait"
            assert "claude: not started here" in caplog.text


async def test_an_absent_bot_is_passed_over_without_waiting(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running(agents=("claude", "grok")) as runtime:
        runtime.services.bus.connected_since -= 60  # the bus has been up for long: nobody is just starting
        async with asyncio.timeout(30):
            report = await runtime.coordinator.start_conversation(f.channel("debate"))
        assert (report.messages, report.counts.total.timeouts) == (2, 0)


@pytest.mark.promise(59)
async def test_a_bot_whose_token_is_revoked_is_passed_over_from_then_on(tmp_path, caplog):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running(agents=("claude", "grok")) as runtime:
        await f.discord.drop_gateway("grok", 4004)
        await until(lambda: "grok is offline: Discord rejects its token: check BOT_TOKEN_GROK" in caplog.text)
        runtime.services.bus.connected_since -= 60
        async with asyncio.timeout(30):
            while (await runtime._link.commands.pubsub_numsub("agent:grok:instructions"))[0][1]:  # noqa: ASYNC110  (Redis has no event for it)
                await asyncio.sleep(0)
            report = await runtime.coordinator.start_conversation(f.channel("debate"))
        assert (report.messages, report.counts.total.timeouts, report.counts.agents["grok"].absences) == (1, 0, 1)


@pytest.mark.promise(89)
async def test_a_conversation_outlives_redis_being_killed_and_brought_back(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
            thinking, go_on = asyncio.Event(), asyncio.Event()

            async def answer(request):
                if len(f.models.requests) == 2:
                    thinking.set()
                    await go_on.wait()
                return decision(f"turn {len(f.models.requests)}", topic="t")

            f.models.answer = answer
            talking = asyncio.create_task(runtime.coordinator.start_conversation(f.channel("debate")))
            await thinking.wait()
            redis.kill()
            await until(lambda: not runtime.services.bus.ready.is_set())
            go_on.set()
            await until(lambda: len(f.said("debate")) == 2)  # the running turn ends without Redis
            redis.start()
            report = await asyncio.wait_for(talking, 30)
            assert (report.messages, report.counts.total.timeouts) == (4, 0)
            assert len(f.said("debate")) == 4
            assert len(f.models.requests) == 4, "no turn was thought twice"


@pytest.mark.promise(99)
async def test_the_same_instruction_twice_gives_one_post_and_the_same_result(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",), coordinator=False) as runtime:
        bus, results = runtime.services.bus, []
        bus.subscribe("agent:claude:results", lambda raw: results.append(json.loads(raw)))
        await until(bus.ready.is_set)
        wire = {"protocol_version": 1, "instruction_id": "i-1", "action": "decide", "channel_id": f.channel("debate")}
        link = runtime._link
        for count in (1, 2):
            await link.commands.publish("agent:claude:instructions", json.dumps({**wire, "from_the_future": True}))
            await until(lambda count=count: len(results) == count)
        assert results[0] == results[1]
        assert len(f.said("debate", "claude")) == 1


@pytest.mark.promise(31)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"action": "dance"}, "unknown_action"),
        ({"channel_id": 42}, "unknown_channel"),
        ({"channel_id": "x"}, "invalid"),
        ({"deadline": 1.0}, "deadline"),
    ],
)
async def test_every_readable_instruction_gets_one_result_with_its_reason(tmp_path, change, reason):
    async with flow(tmp_path) as f, f.running(agents=("claude",), coordinator=False) as runtime:
        results = []
        runtime.services.bus.subscribe("agent:claude:results", lambda raw: results.append(json.loads(raw)))
        await until(runtime.services.bus.ready.is_set)
        wire = {"protocol_version": 1, "instruction_id": "i-1", "action": "decide", "channel_id": f.channel("debate")}
        await runtime._link.commands.publish("agent:claude:instructions", json.dumps({**wire, **change}))
        await until(lambda: results)
        assert (results[0]["skipped"], results[0]["reason"], results[0]["instruction_id"]) == (True, reason, "i-1")
        assert not f.said("debate")
