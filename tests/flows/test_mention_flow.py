"""People speak to the bots."""

import asyncio
import time

import pytest

from agentic.agent.events import CronEvent
from tests.support.discord.faults import RestFault
from tests.support.discord.rate_limits import RateLimits
from tests.support.flow import decision, flow
from tests.support.models.wire.values import SMALL_PNG
from tests.support.redis_server import RedisServer, until


async def test_a_mention_a_reply_a_thread_and_the_bots_role_call_who_is_meant(tmp_path):
    async with flow(tmp_path) as f:
        role = next(r.id for guild in f.world.guilds.values() for r in guild.roles.values() if r.name == "bots")
        async with f.running(settings=f.settings.with_(bots_role_id=role)):
            gemini = f"<@{f.user_id('gemini')}>"
            await f.discord.say("Alice", "debate", f"{gemini} why is the sky blue?")
            await f.discord.wait_for(lambda: f.said("debate", "gemini"))
            request = f.models.requests[0]
            assert "Alice: why is the sky blue?" in request.tail
            assert any("Alice: @Gemini why is the sky blue?" in text for text in request.texts)
            answer = next(m for m in f.discord.messages("debate") if m["author"]["bot"])
            await f.discord.say("Bob", "debate", "and now?", reply_to=int(answer["id"]))
            await f.discord.wait_for(lambda: len(f.said("debate", "gemini")) == 2)
            thread = int((await f.discord.create_thread("Alice", "debate", "side talk"))["id"])
            await f.discord.say("Alice", thread, f"{gemini} here?")
            await f.discord.wait_for(lambda: len(f.discord.messages(thread)) == 2)
            assert [request.provider for request in f.models.requests] == ["google"] * 3
            await f.discord.say("Alice", "casual", f"<@&{role}> good morning")
            await f.discord.wait_for(lambda: len(f.said("casual")) == 5)
            assert len(f.said("debate", "gemini")) == 2


@pytest.mark.promise(95)
async def test_a_picture_is_shown_to_the_model_and_an_answer_that_cannot_be_read_is_asked_for_once_more(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        typed = asyncio.Event()

        async def answer(request):
            await typed.wait()
            return '{"skip": fal' if len(f.models.requests) == 1 else decision("sorry, here")

        f.models.answer = answer
        text = f"<@{f.user_id('claude')}> what is this?"
        await f.discord.say("Alice", "debate", text, attachments=[("cat.png", SMALL_PNG, "image/png")])
        await f.discord.wait_for(lambda: f.discord.typing_events)
        typed.set()
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        assert f.said("debate", "claude") == ["sorry, here"]
        assert [request.pictures for request in f.models.requests] == [1, 1]
        assert len(f.discord.typing_events) == 1


@pytest.mark.promise(619)
async def test_a_picture_whose_address_has_expired_is_shown_after_one_request_for_a_new_one(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        claude = f.user_id("claude")
        f.discord.world.addresses_expire = time.time() - 1
        picture = await f.discord.say("Alice", "debate", "look", attachments=[("cat.png", SMALL_PNG, "image/png")])
        f.discord.world.addresses_expire = time.time() + 3600
        for question in ("what is that?", "and its color?"):
            answered = len(f.said("debate", "claude"))
            await f.discord.say("Alice", "debate", f"<@{claude}> {question}")
            await f.discord.wait_for(lambda answered=answered: len(f.said("debate", "claude")) > answered)
        assert [request.pictures for request in f.models.requests] == [1, 1]
        path = f"/messages/{picture['id']}"
        assert len([one for one in f.discord.requests if one.method == "GET" and one.path.endswith(path)]) == 1


@pytest.mark.promise(53)
async def test_foreign_bots_call_nobody_and_other_channels_are_silent(tmp_path):
    async with flow(tmp_path) as f:
        quiet = f.channel("casual")
        settings = f.settings.with_(channel_theme_map={f.channel("debate"): "debate"})
        async with f.running(settings=settings):
            claude = f.user_id("claude")
            await f.discord.say("Alice", quiet, f"<@{claude}> are you here?")
            await f.discord.say_as_foreign_bot("Grok", "debate", f"<@{claude}> beep")
            await f.discord.say_as_webhook("Grok", "debate", f"<@{claude}> boop")
            await f.discord.say("Alice", "debate", f"<@{claude}> hello")
            await f.discord.wait_for(lambda: f.said("debate", "claude"))
            await f.discord.say("Alice", "debate", f"<@{claude}> again")
            await f.discord.wait_for(lambda: len(f.said("debate", "claude")) == 2)
            assert len(f.models.requests) == 2
            assert f.said("casual", "claude") == []


@pytest.mark.promise(2)
async def test_no_post_can_ping_anybody_but_the_person_who_is_answered(tmp_path):
    async with flow(tmp_path) as f, f.running():
        f.models.answer = lambda r: decision("@everyone @here <@&1> hello @Alice and @Bob")
        await f.discord.say("Bob", "debate", "hi")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        post = f.discord.messages("debate")[-1]
        assert [user["username"] for user in post["mentions"]] == ["alice"]
        assert not post["mention_everyone"]
        assert not post["mention_roles"]
        assert "message_reference" not in post


async def test_what_was_said_before_the_start_is_known(tmp_path):
    async with flow(tmp_path) as f:
        for number in range(120):
            await f.discord.say("Bob", "debate", f"old message {number}")
        async with f.running(agents=("claude",)):
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> what did Bob say?")
            await f.models.wait_for(1)
            shown = "\n".join(f.models.requests[0].texts)
            assert "old message 119" in shown
            assert "old message 81" in shown  # the last forty, the question among them
            assert "old message 80" not in shown


@pytest.mark.promise(83)
@pytest.mark.parametrize("answer", [{"components": 7}, {"author": None, "embeds": None}])
async def test_a_post_whose_answer_cannot_be_read_is_made_once_and_nothing_is_said_to_have_gone_wrong(tmp_path, answer):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        f.models.answer = lambda _: decision("Here I am.")
        me = {"id": str(f.user_id("claude")), "username": "Claude", "discriminator": "0", "avatar": None}
        body = {"id": "5", "channel_id": str(f.channel("debate")), "author": me, "content": "Here I am.", **answer}
        odd = f.discord.faults.add(RestFault("POST", "/messages$", 200, body=body, late=True))
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> are you there?")
        await f.discord.wait_for(lambda: odd.hits and f.said("debate", "claude"))
        await runtime.bots["claude"].cog.host.queue.inbox._empty.wait()
        assert f.said("debate", "claude") == ["Here I am."]
        assert not [m for m in f.discord.messages("debate") if m.get("reactions")]


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_connection_that_breaks_while_it_posts_costs_no_answer_and_makes_no_second_one(tmp_path, cut):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        f.models.answer = lambda r: decision("here")
        f.discord.faults.add(RestFault("POST", "/messages$", cut=cut))
        for number in (1, 2):
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
            await f.discord.wait_for(lambda number=number: len(f.said("debate", "claude")) == number)
        assert f.said("debate", "claude") == ["here", "here"]


async def test_a_crowd_that_fills_the_inbox_is_told_so_and_does_not_hold_the_answers_back(tmp_path):
    async with flow(tmp_path, MAX_QUEUE_DEPTH="5") as f, f.running(agents=("claude",)) as runtime:
        f.discord.limiter.limits = RateLimits(messages_per_channel=(10, 60.0))
        is_full = asyncio.Event()

        async def answer(_):
            await is_full.wait()
            return decision("here")

        f.models.answer = answer
        for number in range(6):  # one turn runs and five wait; mentions of one person would be joined into one turn
            await f.discord.add_person(f"Person {number}")
            await f.discord.say(f"Person {number}", "debate", f"<@{f.user_id('claude')}> hello")
        for number in range(60):
            last = await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> {number}")
        await until(lambda: int(last["id"]) in runtime.services.chats.transcripts.of(f.channel("debate")))
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        is_full.set()
        await f.discord.wait_for(lambda: f.said("debate", "claude").count("here") == 6)
        assert len(f.said("debate", "claude")) == 7, "Alice is told once"


async def test_others_may_join_in_after_a_mention(tmp_path):
    async with flow(tmp_path, COORDINATOR_REACTIVE_PROBABILITY="1") as f, f.running():
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello")
        await f.discord.wait_for(lambda: len({m["author"]["id"] for m in f.discord.messages("debate")}) >= 3)
        joined = [r for r in f.models.requests if "join in" in r.tail]
        assert joined
        assert all(r.provider != "anthropic" for r in joined)


async def test_a_message_edited_or_deleted_is_what_later_turns_see(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        first = await f.discord.say("Bob", "debate", "I like cats")
        second = await f.discord.say("Bob", "debate", "secret")
        transcript = runtime.services.chats.transcripts.of(f.channel("debate"))
        await until(lambda: int(second["id"]) in transcript)
        await f.discord.edit("debate", int(first["id"]), "I like dogs")
        await f.discord.delete("debate", int(second["id"]))
        await until(lambda: int(second["id"]) not in transcript)
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> what does Bob like?")
        await f.models.wait_for(1)
        shown = "\n".join(f.models.requests[0].texts)
        assert "I like dogs" in shown
        assert "cats" not in shown
        assert "secret" not in shown


@pytest.mark.promise(89, 574)
async def test_while_redis_is_gone_a_person_is_answered_and_a_job_in_the_same_channel_waits(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f, f.running(agents=("claude",)) as runtime:
            f.models.answer = lambda request: decision(f"turn {len(f.models.requests)}")
            queue = runtime.bots["claude"].cog.host.queue
            redis.kill()
            await until(lambda: runtime.services.state.is_unavailable)
            event = CronEvent(
                id="cron:plan:1",
                channel_id=f.channel("debate"),
                theme="debate",
                deadline=runtime.services.clock() + 60,
                seconds=60.0,
                job="plan",
                instruction="Plan the day.",
            )
            assert queue.enqueue(event)
            await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> are you there?")
            await until(lambda: f.said("debate", "claude"))
            assert [waiting.id for waiting in queue.inbox.waiting(event.channel_id)] == [event.id]
            redis.start()
            await until(lambda: len(f.said("debate", "claude")) == 2)
            assert "Plan the day." in f.models.requests[1].tail
            state, agent = runtime.services.state, runtime.bots["claude"].cog.host.agent
            await until(lambda: not state.turns.unwritten)
            assert await state.limits.count("claude", agent.today()) == 2
