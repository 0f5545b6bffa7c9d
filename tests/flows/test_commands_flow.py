"""The bots' commands over the whole program: registered once, answered in time, seen by one person alone."""

import asyncio
import json
import logging
import re

import pytest

from agent_cogs.slash_definitions import WHY
from agentic.actions.texts import TEXTS
from agentic.chat.splitting import MAX_MESSAGE
from agentic.local.discord.dialogs import ANSWER_SECONDS, EPHEMERAL
from agentic.state.silence import ChannelRef
from agentic.wire import keys
from agentic.wire.messages import Command, CommandOutcome, read
from tests.support.flow import decision, flow
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer, until

ORDERS = keys.COORDINATOR_FORGOTTEN
NAMES = sorted(
    [
        *("agent", "agent-file", "arena", "ask", "bots", "config", "debate", "forget", "privacy"),
        *("profile", "reset", "resume", "room", "stop", "why", "why-not", WHY),
    ]
)


def registered(f):
    """Each bot's commands in the one server."""
    return {key: sorted(c["name"] for c in app.commands.get(f.world.guild.id, ())) for key, app in f.world.apps.items()}


async def ready(f, bot="chatgpt"):
    await f.discord.wait_for(lambda: registered(f)[bot] == NAMES)


def written(f):
    return [r for r in f.discord.requests if r.method in ("PUT", "POST") and r.path.endswith("/commands")]


async def use(f, command, who="Alice", channel="debate", by="chatgpt", **values):
    """What the person is told; `by` has the commands, `values` are the options."""
    return await told(f, await f.discord.interact(who, channel, by, command, values))


async def told(f, used):
    await f.discord.wait_for(lambda: used.answers)
    answer = used.answers[0]
    assert all(each["flags"] & EPHEMERAL and len(each["content"]) <= MAX_MESSAGE for each in used.answers)
    assert not [m for m in f.discord.messages(used.channel_id) if m.get("interaction_metadata")], "nobody else sees it"
    return answer["content"]


async def test_the_commands_appear_once_and_are_written_once(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            async with f.running():
                await ready(f)
                looked = lambda: f.discord.counts["GET /applications/{application_id}/guilds/{guild_id}/commands"]  # noqa: E731
                await f.discord.wait_for(lambda: looked() >= 1)
            assert registered(f) == {"chatgpt": NAMES, "claude": [], "gemini": [], "grok": []}
            assert len(written(f)) == 1
            before = looked()
            async with f.running():
                await f.discord.wait_for(lambda: looked() >= before + 4)  # each bot has looked
            assert len(written(f)) == 1, "nothing differed"
            assert f.discord.unknown_requests == []


async def test_another_choice_of_the_owner_moves_them_and_what_is_not_ours_stays(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            async with f.running():
                await ready(f)
            theirs = {"id": "1", "name": "play", "type": 1, "description": "of another program", "options": []}
            f.world.app("chatgpt").commands[f.world.guild.id].append(theirs)
            async with f.running(settings=f.settings.with_(commands_bot="grok")):
                await ready(f, "grok")
                await f.discord.wait_for(lambda: registered(f)["chatgpt"] == ["play"])
                assert "**Online**" in await use(f, "bots status", by="grok")


async def test_a_server_without_the_scope_is_told_in_one_line_and_the_bots_run_on(tmp_path, caplog):
    async with flow(tmp_path) as f:
        f.world.app("chatgpt").without_commands.add(f.world.guild.id)
        async with f.running():
            await f.discord.wait_for(lambda: "registering commands failed" in caplog.text)
            await f.discord.say("Alice", "debate", f"<@{f.user_id('chatgpt')}> hello")
            await f.discord.wait_for(lambda: f.said("debate", "chatgpt"))
    lines = [r.getMessage() for r in caplog.records if "scope" in r.getMessage()]
    assert len(lines) == 1
    link = re.search(r"https://discord.com/oauth2/authorize\?\S+", lines[0])[0]
    assert "scope=applications.commands" in link
    assert f"guild_id={f.world.guild.id}" in link


async def test_the_status_is_for_everyone_and_only_where_the_bots_are(tmp_path):
    async with flow(tmp_path) as f:
        await f.discord.create_channel("offices")
        async with f.running() as runtime:
            await ready(f)
            status = await use(f, "bots status", "Bob")
            assert status.startswith("**Online**: ChatGPT, Claude, Gemini, and Grok")
            assert "no conversation is running" in status
            assert await use(f, "bots status", channel="offices") == TEXTS["not_here"]
            await runtime.coordinator.start_conversation(f.channel("casual"))
            assert "total $0.0" in await use(f, "bots status", "Bob")


async def test_a_conversation_is_started_by_whoever_may(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running():
        await ready(f)
        assert await use(f, "bots start", "Bob") == TEXTS["managers_only"]
        casual = f.channel("casual")
        assert await use(f, "bots start", theme="roast") == f"A conversation is starting in <#{f.channel('debate')}>."
        await f.discord.wait_for(lambda: len(f.said("debate")) == 4)
        began = await told(f, await f.discord.interact("Alice", "debate", "chatgpt", "bots start", {"channel": casual}))
        assert began == f"A conversation is starting in <#{casual}>."
        await f.discord.wait_for(lambda: len(f.said("casual")) == 4)


async def test_a_muted_bot_shows_a_sign_and_is_not_called_and_comes_back(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        await ready(f)
        grok = f"<@{f.user_id('grok')}>"
        assert await use(f, "bots mute", "Bob", bot="grok") == TEXTS["managers_only"]
        assert "Grok is muted in every channel for 5 minutes" in await use(f, "bots mute", bot="grok", minutes=5)
        asked = await f.discord.say("Bob", "debate", f"{grok} hello")
        await f.discord.wait_for(lambda: f.world.channel("debate").messages[int(asked["id"])].reactions)
        assert [emoji for _, emoji in f.world.channel("debate").messages[int(asked["id"])].reactions] == ["🔇"]
        assert "Grok (muted for 5 minutes)" in await use(f, "bots status")
        report = await runtime.coordinator.start_conversation(f.channel("casual"))
        assert (report.messages, report.counts.total.absences) == (3, 1)
        assert "xai" not in {request.provider for request in f.models.requests}
        assert (await use(f, "why-not", "Bob", bot="grok")).startswith(
            "**Grok** is silent here: it's muted, which ends"
        )
        assert await use(f, "bots unmute", bot="grok") == "Grok can speak again."
        await f.discord.say("Bob", "debate", f"{grok} and now?")
        await f.discord.wait_for(lambda: f.said("debate", "grok"))


async def test_who_is_ignored_calls_no_bot_of_any_process(tmp_path):
    with RedisServer() as redis:
        async with (
            flow(tmp_path, redis_url=redis.url) as f,
            f.running(agents=("chatgpt",)),
            f.running(agents=("grok",), coordinator=False) as there,
        ):
            await ready(f)
            bob = f.world.user("Bob").id
            assert await use(f, "bots ignore", "Bob", user=bob) == TEXTS["managers_only"]
            await use(f, "bots ignore", user=bob)
            await until(lambda: there.services.silence.is_ignored(bob))
            for bot in ("chatgpt", "grok"):
                await f.discord.say("Bob", "debate", f"<@{f.user_id(bot)}> hello")
                await f.discord.say("Alice", "debate", f"<@{f.user_id(bot)}> hello")
                await f.discord.wait_for(lambda bot=bot: f.said("debate", bot))
            assert len(f.models.requests) == 2
            await use(f, "bots unignore", user=bob)
            await until(lambda: not there.services.silence.is_ignored(bob))
            await f.discord.say("Bob", "casual", f"<@{f.user_id('grok')}> hello")
            await f.discord.wait_for(lambda: f.said("casual", "grok"))


async def test_stop_and_resume_do_what_the_sign_and_the_word_do(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="3") as f, f.running() as runtime:
        await ready(f)
        thinking, go_on = asyncio.Event(), asyncio.Event()

        async def held(request):
            thinking.set()
            await go_on.wait()
            return decision("never said")

        f.models.answer = held
        talking = asyncio.create_task(runtime.coordinator.start_conversation(f.channel("debate")))
        await thinking.wait()
        assert "for 30 minutes" in await use(f, "stop", minutes=30)
        report = await asyncio.wait_for(talking, 30)
        go_on.set()
        assert (report.ended_because, f.said("debate")) == ("stopped", [])
        assert "The bots are stopped" in await use(f, "bots start")
        assert "Only moderators" in await use(f, "resume", "Bob")
        assert "again" in await use(f, "resume")
        f.models.answer = lambda _: decision("said", topic="t")
        assert (await runtime.coordinator.start_conversation(f.channel("debate"))).messages > 0


async def test_a_person_without_the_right_stops_their_own_answer_in_another_process(tmp_path):
    with RedisServer() as redis:
        async with (
            flow(tmp_path, redis_url=redis.url) as f,
            f.running(agents=("chatgpt",)),
            f.running(agents=("grok",), coordinator=False) as there,
        ):
            await ready(f)
            thinking = {"Bob": asyncio.Event(), "Alice": asyncio.Event()}
            go_on = asyncio.Event()

            async def held(request):
                who = next(name for name in thinking if f"ask{name}" in request.tail)
                thinking[who].set()
                await go_on.wait()
                return decision(f"to {who}")

            f.models.answer = held
            for who, channel in (("Bob", "debate"), ("Alice", "casual")):
                await f.discord.say(who, channel, f"<@{f.user_id('grok')}> ask{who}")
                await thinking[who].wait()
            assert "canceled the bots' answers to you" in await use(f, "stop", "Bob")
            runner = there.bots["grok"].cog.host.queue._runner
            await until(lambda: not [e for e, _ in runner._running.values() if e.channel_id == f.channel("debate")])
            go_on.set()
            await f.discord.wait_for(lambda: f.said("casual", "grok") == ["to Alice"])
            assert f.said("debate", "grok") == []
            assert not there.services.silence.check(ChannelRef(f.channel("debate")))


async def test_why_by_link_and_by_the_messages_menu_and_forgetting(tmp_path):
    async with flow(tmp_path) as f, f.running() as runtime:
        await ready(f)
        await f.discord.say("Bob", "debate", f"<@{f.user_id('claude')}> hello")
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        answer, bob = f.discord.messages("debate")[-1], f.world.user("Bob").id
        link = f"https://discord.com/channels/{f.world.guild.id}/{answer['channel_id']}/{answer['id']}"
        why = f"**Claude** answered <@{bob}>."
        assert (await use(f, "why", message=link)).startswith(why)
        assert "isn't a message link or ID" in await use(f, "why", message="9" * 20)
        assert (await told(f, await f.discord.interact_on("Bob", "debate", "chatgpt", WHY, answer))).startswith(why)
        forgetting = await f.discord.interact("Bob", "debate", "chatgpt", "forget me", {})
        await f.discord.wait_for(lambda: len(forgetting.answers) == 2)
        assert (await told(f, forgetting)).startswith("Done. I deleted 1 turn record")
        assert "Not deleted" in forgetting.answers[1]["content"]
        assert "I have no record" in await use(f, "why", message=link)
        # The recorder takes the words out of Redis, within seconds: it learns then that they are forgotten.
        while runtime.services.record.notes.waiting or await runtime._link.commands.xlen("agent:claude:words"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        kept = await everything(runtime)
        left = [key for key, value in kept.items() if str(bob) in f"{key} {value}"]
        limits = rf"coordinator:budget:[\d-]+|coordinator:(mentions|forgotten):{bob}"
        expiring = [key for key in kept if re.fullmatch(limits, key)]
        assert sorted(left) == sorted([*expiring, ORDERS]), "his limits, and that he was forgotten"


async def test_a_person_is_sent_their_data_as_a_file_that_they_alone_see(tmp_path):
    async with flow(tmp_path) as f, f.running() as runtime:
        await ready(f)
        for who, said in (("Bob", "hello"), ("Alice", "my password is swordfish")):
            before = len(f.said("debate", "claude"))
            await f.discord.say(who, "debate", f"<@{f.user_id('claude')}> {said}")
            await f.discord.wait_for(lambda before=before: len(f.said("debate", "claude")) > before)
        record = runtime.setup.settings.record_file
        await until(lambda: recorded(record.parent, "SELECT count(*) FROM turns WHERE asked_by IS NOT NULL") == [(2,)])
        used = await f.discord.interact("Bob", "debate", "chatgpt", "privacy", {"export": "file"})
        assert (await told(f, used)).startswith("Here's everything the bots have stored about you")
        (file,) = used.answers[0]["attachments"]
        text = f.discord.world.attachments[int(file["id"])].content.decode()
        turns = next(
            each for each in json.loads(text)["stored about you"] if each["what"].startswith("a record of each")
        )
        assert [row["agent"] for row in turns["rows"]] == ["claude"]
        assert "swordfish" not in text
        assert str(f.world.user("Alice").id) not in text


async def everything(runtime):
    """Every key of Redis and what it holds."""
    redis, found = runtime._link.commands, {}
    for key in await redis.keys("*"):
        kind = await redis.type(key)
        read = {
            "string": redis.get,
            "hash": redis.hgetall,
            "set": redis.smembers,
            "zset": lambda k: redis.zrange(k, 0, -1),
            "list": lambda k: redis.lrange(k, 0, -1),
            "stream": redis.xrange,
        }[kind]
        found[key] = await read(key)
    return found


async def test_with_redis_away_the_person_is_told_so_in_time(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f, f.running() as runtime:
            await ready(f)
            redis.kill()
            await until(lambda: not runtime.services.bus.ready.is_set())
            began = f.world.clock()
            for command, values in (("bots status", {}), ("why-not", {"bot": "grok"}), ("forget me", {})):
                answer = await f.discord.interact("Alice", "debate", "chatgpt", command, values)
                assert await told(f, answer) == TEXTS["redis_unavailable"]
            assert "once it's back" in await use(f, "stop")
            assert f.world.clock() - began < ANSWER_SECONDS
            assert runtime.services.silence.check(ChannelRef(f.channel("debate")))


@pytest.mark.promise(1)
async def test_what_takes_longer_is_announced_and_holds_no_secret_and_pings_nobody(tmp_path):
    async with flow(tmp_path) as f, f.running(coordinator=False) as runtime:
        await ready(f)
        services, asked = runtime.services, []
        services.bus.orders._patience = 20.0
        services.bus.subscribe(keys.COORDINATOR_COMMANDS, lambda raw: asked.append(read(Command, raw)))
        await services.bus.ready.wait()
        used = await f.discord.interact("Alice", "debate", "chatgpt", "bots start", {})
        await f.discord.wait_for(lambda: used.deferred)
        assert used.callback["data"]["flags"] == EPHEMERAL
        text = "token-chatgpt @everyone " + "x" * 3000
        outcome = CommandOutcome(command_id=asked[0].command_id, outcome=text)
        await services.bus.publish(keys.COORDINATOR_OUTCOMES, outcome)
        answer = await told(f, used)
        assert answer.startswith("The coordinator refused this: [redacted] @everyone")
        assert len(answer) == MAX_MESSAGE
        sent = next(r for r in reversed(f.discord.requests) if "/messages/@original" in r.path)
        assert sent.payload["allowed_mentions"] == {"parse": []}


async def test_a_fault_is_one_line_to_the_person_and_a_traceback_in_the_log(tmp_path, caplog):
    async with flow(tmp_path) as f, f.running() as runtime:
        await ready(f)

        async def faulty(*_):
            raise ZeroDivisionError("a fault of the program")

        runtime.services.state.coordination.presence.online = faulty
        assert await use(f, "bots status") == TEXTS["failed"]
        del runtime.services.state.coordination.presence.online
        assert "**Online**" in await use(f, "bots status"), "the next one is answered again"
    record = next(r for r in caplog.records if r.exc_info and r.exc_info[0] is ZeroDivisionError)
    assert record.levelno == logging.ERROR


async def test_who_does_not_hold_the_bots_lease_leaves_the_answer_to_who_does(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f, f.running(agents=("chatgpt",)) as runtime:
            await ready(f)
            lease = runtime.bots["chatgpt"].lease
            await runtime._link.commands.set(keys.owner("chatgpt"), "another process", ex=60)
            await until(lambda: not lease.is_held)
            used = await f.discord.interact("Alice", "debate", "chatgpt", "stop", {})
            await runtime._link.commands.delete(keys.owner("chatgpt"))
            await until(lambda: lease.is_held)
            assert "**Online**" in await use(f, "bots status")
            assert (used.callback, used.answers) == (None, [])
            assert not runtime.services.silence.check(ChannelRef(f.channel("debate")))


@pytest.mark.parametrize("bot", ["chatgpt", "claude"])
async def test_the_commands_are_on_the_first_bot_of_those_that_can_run(tmp_path, bot):
    tokens = {"BOT_TOKEN_CHATGPT": ""} if bot == "claude" else {}
    async with (
        flow(tmp_path, **tokens) as f,
        f.running(agents=("claude", "grok") if tokens else tuple(f.settings.agents)),
    ):
        await ready(f, bot)
        assert [name for name, commands in registered(f).items() if commands] == [bot]
