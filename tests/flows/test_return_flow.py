"""Bots that come back, and bots that stand by."""

import asyncio
import time

from agent_local.discord.faults import RestFault
from tests.support.flow import decision, flow
from tests.support.redis_server import RedisServer, until

TAKEN_OVER_WITHIN = 15.0


async def test_a_stand_by_takes_over_within_15_seconds_and_ends_the_turn_that_was_open(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, STANDBY="true") as f:
            stuck = asyncio.Event()

            async def first_hangs(_):
                if len(f.models.requests) == 1:
                    await stuck.wait()
                return decision("here I am")

            f.models.answer = first_hangs
            only = {"agents": ("claude",), "coordinator": False}
            async with f.running(**only) as first, f.running(**only) as second:
                assert (first.bots["claude"].online, second.bots["claude"].online) == (True, False)
                await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
                await f.models.wait_for(1)
                gone = time.monotonic()
                await vanish(first)
                await f.discord.wait_for(lambda: f.said("debate", "claude"), timeout=TAKEN_OVER_WITHIN)
                assert time.monotonic() - gone < TAKEN_OVER_WITHIN
                assert second.bots["claude"].lease.held
                assert len(f.models.requests) == 2
                stuck.set()


async def vanish(runtime, name="claude"):
    """As a machine that is switched off: no goodbye, the lease runs out by itself."""
    bot = runtime.bots[name]
    lease, runtime.bots = bot.lease, {}
    tasks = list(runtime._tasks.values())
    lease._released = True  # it is renewed no more, and was not given back
    for task in tasks:
        task.cancel()
    await bot.cog.aclose()
    await bot.client.close()
    for model in bot.models:  # nobody closes what is not among the runtime's bots any more
        await model.aclose()


async def test_a_picture_that_was_drawn_is_posted_by_the_stand_by_and_not_drawn_again(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, STANDBY="true") as f:
            f.models.answer = lambda _: decision("Look.", generate_image=True, image_prompt="a cat")
            only = {"agents": ("chatgpt",), "coordinator": False}
            lost = f.discord.faults.add(RestFault("POST", "/messages$", delay=60.0, bot="chatgpt"))
            async with f.running(**only) as first, f.running(**only) as second:
                await f.discord.say("Alice", "debate", f"<@{f.user_id('chatgpt')}> show me a cat")
                await until(lambda: lost.hits)
                drawn = len(f.models.requests)
                await vanish(first, "chatgpt")
                await f.discord.wait_for(lambda: f.said("debate", "chatgpt"), timeout=TAKEN_OVER_WITHIN)
                assert second.bots["chatgpt"].lease.held
                assert len(f.models.requests) == drawn == 2, "one answer and one picture"
                [post] = [m for m in f.discord.messages("debate") if m["content"] == "Look."]
                assert len(post["attachments"]) == 1


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


async def test_a_mention_during_a_new_session_is_answered_once(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",), coordinator=False) as runtime:
        claude, presence = runtime.bots["claude"], runtime.services.ledger.presence
        async with asyncio.timeout(20):  # who was never here has missed nothing
            while await presence.first_seen("claude") is None:  # noqa: ASYNC110 - Redis has no event for it
                await asyncio.sleep(0)
        await f.discord.invalidate_session("claude")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> are you there?")
        await f.discord.wait_for(lambda: f.said("debate", "claude"), timeout=20)
        await until(lambda: not claude.cog.host.catch_up._missed_some)
        assert (len(f.said("debate", "claude")), len(f.models.requests)) == (1, 1)
