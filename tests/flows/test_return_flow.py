"""Bots that come back, and bots that stand by."""

import asyncio
import time
from collections import Counter

import pytest

from tests.support.discord.faults import RestFault
from tests.support.flow import decision, flow
from tests.support.redis_server import RedisServer, until

TAKEN_OVER_WITHIN = 15.0


@pytest.mark.promise(97)
async def test_a_stand_by_takes_over_within_15_seconds_and_ends_the_turns_that_were_open(tmp_path):
    """One waits for its model, which is asked again; the other has drawn a picture, which is not drawn again."""
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, STANDBY="true") as f:
            stuck, asked = asyncio.Event(), Counter()

            async def answer(request):
                asked[request.provider] += 1
                if request.provider == "openai":
                    return decision("Look.", generate_image=True, image_prompt="a cat")
                if asked[request.provider] == 1:
                    await stuck.wait()
                return decision("here I am")

            f.models.answer = answer
            both = {"agents": ("claude", "chatgpt"), "coordinator": False}
            lost = f.discord.faults.add(RestFault("POST", "/messages$", delay=60.0, bot="chatgpt"))
            async with f.running(**both) as first, f.running(**both) as second:
                assert (first.bots["claude"].online, second.bots["claude"].online) == (True, False)
                await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
                await f.discord.say("Alice", "casual", f"<@{f.user_id('chatgpt')}> show me a cat")
                await until(lambda: lost.hits and asked["anthropic"])
                calls = len(f.models.requests)
                gone = time.monotonic()
                await vanish(first)
                for channel, bot in (("debate", "claude"), ("casual", "chatgpt")):
                    await f.discord.wait_for(lambda c=channel, b=bot: f.said(c, b), timeout=TAKEN_OVER_WITHIN)
                    assert second.bots[bot].lease.is_held
                assert time.monotonic() - gone < TAKEN_OVER_WITHIN
                assert (calls, len(f.models.requests)) == (3, 4), "an answer, a picture, and an answer twice"
                [post] = [m for m in f.discord.messages("casual") if m["content"] == "Look."]
                assert len(post["attachments"]) == 1
                stuck.set()


async def vanish(runtime):
    """As a machine that is switched off: no goodbye, the leases run out by themselves."""
    bots, runtime.bots = list(runtime.bots.values()), {}
    for bot in bots:
        bot.lease._released = True  # it is renewed no more, and was not given back
    for task in list(runtime._tasks.values()):
        task.cancel()
    for bot in bots:
        await bot.cog.aclose()
        await bot.client.close()
        for model in bot.models:  # nobody closes what is not among the runtime's bots any more
            await model.aclose()


async def test_a_mention_that_came_while_the_bot_was_offline_is_answered_when_it_is_back(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            only = {"agents": ("claude",), "coordinator": False}
            asked = f"<@{f.user_id('claude')}> are you there?"
            await f.discord.say("Alice", "debate", asked)  # before it was ever online
            async with f.running(**only) as runtime:
                claude = runtime.bots["claude"].cog
                await f.discord.say("Bob", "debate", asked)
                await f.discord.wait_for(lambda: f.said("debate", "claude"))
                assert claude.host.ready.is_set()
            await f.discord.say("Bob", "debate", asked)
            assert len(f.models.requests) == 1
            async with f.running(**only):
                await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
            async with f.running(**only) as runtime:
                arrears = runtime.bots["claude"].cog.host.catch_up
                await until(lambda: not arrears._missed_some)
                assert len(f.models.requests) == 2


@pytest.mark.promise(527)
async def test_a_missed_mention_is_answered_though_an_earlier_one_has_its_answer(tmp_path):
    """In another channel, in the same one, in a thread, and of another person; what is answered stays answered."""
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            only = {"agents": ("chatgpt",), "coordinator": False}
            mention = f"<@{f.user_id('chatgpt')}>"
            async with f.running(**only):
                await f.discord.say("Alice", "casual", f"{mention} the first question?")
                await f.discord.say("Bob", "debate", f"{mention} Bob's question?")
                await f.discord.wait_for(lambda: f.said("casual", "chatgpt") and f.said("debate", "chatgpt"))
                thread = int((await f.discord.create_thread("Alice", "debate", "side talk"))["id"])
            await f.discord.say("Alice", thread, f"{mention} the second question?")
            async with f.running(**only):
                await f.discord.wait_for(lambda: len(f.discord.messages(thread)) == 2)
            await f.discord.say("Bob", "debate", f"{mention} Bob's other question?")
            async with f.running(**only) as runtime:
                await f.discord.wait_for(lambda: len(f.said("debate", "chatgpt")) == 2)
                await caught_up(runtime)
            assert [len(f.said(place, "chatgpt")) for place in ("casual", "debate")] == [1, 2]
            assert "Bob's other question?" in f.models.requests[-1].tail
            assert len(f.models.requests) == 4


@pytest.mark.promise(528)
async def test_mentions_that_were_answered_together_or_passed_over_are_not_answered_later(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            only = {"agents": ("chatgpt",), "coordinator": False}
            mention, thinking = f"<@{f.user_id('chatgpt')}>", asyncio.Event()

            async def answer(request):
                await thinking.wait()
                return decision("ok")

            f.models.answer = answer
            async with f.running(**only) as runtime:
                await f.discord.say("Bob", "debate", f"{mention} a question that takes long")
                await f.models.wait_for(1)
                host = runtime.bots["chatgpt"].cog.host
                for number in (1, 2):
                    await f.discord.say("Alice", "debate", f"{mention} part {number}")
                    await until(lambda: list(host.queue.inbox.waiting(f.channel("debate"))))
                thinking.set()
                await f.discord.wait_for(lambda: len(f.said("debate", "chatgpt")) == 2)
            for number in (3, 4):
                await f.discord.say("Alice", "debate", f"{mention} part {number}")
            for _ in range(2):
                async with f.running(**only) as runtime:
                    await f.discord.wait_for(lambda: len(f.said("debate", "chatgpt")) == 3)
                    await caught_up(runtime)
            assert "part 4" in f.models.requests[2].tail
            assert len(f.models.requests) == 3


async def caught_up(runtime):
    """All channels of the bot were looked through, and what was found is answered."""
    host = runtime.bots["chatgpt"].cog.host
    await until(lambda: not (host.catch_up._missed_some or host.catch_up._unread or host.queue.channels))


async def test_a_mention_that_was_missed_in_a_guild_that_comes_late_is_answered(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            only, late = {"agents": ("claude",), "coordinator": False}, {}
            async with f.running(**only):
                pass
            await f.discord.say("Bob", "debate", f"<@{f.user_id('claude')}> are you there?")

            def hold(created):
                late.update(created)
                return {"id": created["id"], "unavailable": True}

            f.discord.faults.altered["GUILD_CREATE"] = hold
            async with f.running(**only):
                await f.discord.send_event("claude", "GUILD_CREATE", late)
                await f.discord.wait_for(lambda: f.said("debate", "claude"))


async def test_a_mention_in_a_thread_that_came_while_the_bot_was_offline_is_answered_there(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            only = {"agents": ("claude",), "coordinator": False}
            async with f.running(**only):
                thread = int((await f.discord.create_thread("Alice", "debate", "side talk"))["id"])
            await f.discord.say("Alice", thread, f"<@{f.user_id('claude')}> are you there?")
            async with f.running(**only):
                await f.discord.wait_for(lambda: len(f.discord.messages(thread)) == 2)
            assert (f.said("debate", "claude"), len(f.models.requests)) == ([], 1)


@pytest.mark.promise(69)
async def test_a_mention_during_a_new_session_is_answered_once(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",), coordinator=False) as runtime:
        claude, presence = runtime.bots["claude"], runtime.services.state.coordination.presence
        async with asyncio.timeout(30):  # who was never here has missed nothing
            while await presence.first_seen("claude") is None:  # noqa: ASYNC110 - Redis has no event for it
                await asyncio.sleep(0)
        await f.discord.invalidate_session("claude")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> are you there?")
        await f.discord.wait_for(lambda: f.said("debate", "claude"), timeout=30)
        await until(lambda: not claude.cog.host.catch_up._missed_some)
        assert (len(f.said("debate", "claude")), len(f.models.requests)) == (1, 1)
