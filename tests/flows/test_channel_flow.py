"""What happens to a channel or thread, or to the question, while a bot thinks about its answer there."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from agentic.local.discord import world as permissions
from agentic.local.discord.world import Overwrite
from agentic.wire import keys
from agentic.wire.messages import Instruction, read_result
from tests.support.flow import decision, flow
from tests.support.redis_server import until


@asynccontextmanager
async def thinking(f, say):
    """Inside of it the bot thinks about what `say` brought about; after it, it answers."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def answer(request):
        begun.set()
        await go_on.wait()
        return decision("my answer")

    f.models.answer = answer
    await say()
    await asyncio.wait_for(begun.wait(), 30)
    yield
    go_on.set()


async def still_answers(f, name="claude", channel="casual"):
    f.models.answer = lambda r: decision("still here")
    await f.discord.say("Bob", channel, f"<@{f.user_id(name)}> and you?")
    await f.discord.wait_for(lambda: "still here" in f.said(channel, name))


def noticed(channel):
    return channel is None or not channel.permissions_for(channel.guild.me).send_messages


async def forbidden(f, place):
    await f.discord.change_channel(
        place, overwrites={f.user_id("claude"): Overwrite(f.user_id("claude"), 1, deny=permissions.SEND_MESSAGES)}
    )


async def gone(f, place):
    await f.discord.delete_channel(place)


@pytest.mark.promise(72)
@pytest.mark.parametrize(("happens", "reason"), [(gone, "unknown_channel"), (forbidden, "not_permitted")])
async def test_a_channel_that_goes_or_is_closed_while_a_bot_thinks_is_a_result_and_the_bot_goes_on(
    tmp_path, happens, reason
):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        debate, results = f.channel("debate"), []
        runtime.services.bus.subscribe(keys.results("claude"), lambda raw: results.append(read_result(raw)))
        await runtime.services.bus.ready.wait()
        turn = Instruction(instruction_id="i1", channel_id=debate, channel_theme="debate")
        async with thinking(f, lambda: runtime.services.bus.publish(keys.instructions("claude"), turn)):
            await happens(f, debate)
            await until(lambda: noticed(runtime.bots["claude"].client.get_channel(debate)))
        await until(lambda: [result for result in results if result.instruction_id == "i1"])
        assert [(result.skipped, result.reason) for result in results] == [(True, reason)]
        assert len(f.models.requests) == 1
        await still_answers(f)


@pytest.mark.promise(73)
async def test_a_thread_that_is_locked_while_a_bot_thinks_gets_nothing_and_the_bot_goes_on(tmp_path, caplog):
    caplog.set_level("INFO")  # bots may manage threads here: Discord itself would take the post
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        thread = int((await f.discord.create_thread("Alice", "debate", "side talk"))["id"])
        async with thinking(f, lambda: f.discord.say("Alice", thread, f"<@{f.user_id('claude')}> hello")):
            known = runtime.bots["claude"].client.get_channel(thread)
            await f.discord.change_channel(thread, locked=True, archived=True)
            await until(lambda: known.locked)
        await until(lambda: "not_permitted" in caplog.text)
        assert len(f.discord.messages(thread)) == 1
        await still_answers(f)
        await f.discord.change_channel(thread, archived=False)
        posts = f.discord.counts["POST /channels/{channel_id}/messages"]
        await f.discord.say("Alice", thread, f"<@{f.user_id('claude')}> hello?")
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> hello?")
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        assert f.discord.counts["POST /channels/{channel_id}/messages"] == posts + 1, (
            "into a locked one nothing is sent"
        )


@pytest.mark.promise(73)
async def test_a_thread_that_is_archived_while_a_bot_thinks_gets_its_answer(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        thread = int((await f.discord.create_thread("Alice", "debate", "side talk"))["id"])
        async with thinking(f, lambda: f.discord.say("Alice", thread, f"<@{f.user_id('claude')}> hello")):
            await f.discord.change_channel(thread, archived=True)
        await f.discord.wait_for(lambda: len(f.discord.messages(thread)) == 2)
        await still_answers(f)


@pytest.mark.promise(72)
async def test_a_thread_that_is_deleted_while_a_bot_thinks_costs_one_failed_post(tmp_path, caplog):
    async with flow(tmp_path) as f, f.running(agents=("claude",)):
        thread = int((await f.discord.create_thread("Alice", "debate", "side talk"))["id"])
        async with thinking(f, lambda: f.discord.say("Alice", thread, f"<@{f.user_id('claude')}> hello")):
            await f.discord.delete_channel(thread)
        await until(lambda: f"posting to channel {thread} failed" in caplog.text)
        await still_answers(f)
        assert caplog.text.count(f"posting to channel {thread} failed") == 1


@pytest.mark.promise(71)
async def test_a_question_that_is_deleted_while_a_bot_thinks_gets_no_answer(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("claude",)) as runtime:
        claude, debate = f.user_id("claude"), f.channel("debate")
        async with thinking(f, lambda: f.discord.say("Alice", "debate", f"<@{claude}> hello")):
            (asked,) = f.discord.messages("debate")
            await f.discord.delete("debate", int(asked["id"]))
            await until(lambda: int(asked["id"]) in runtime.services.chats.transcripts.of(debate).deleted)
        await still_answers(f, channel="debate")
        assert "my answer" not in f.said("debate")


@pytest.mark.promise(72)
async def test_a_conversation_ends_in_order_in_a_channel_that_is_deleted_under_it(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="3") as f, f.running() as runtime:
        talking = None

        async def begin():
            nonlocal talking
            talking = asyncio.create_task(runtime.coordinator.start_conversation(f.channel("debate")))

        async with thinking(f, begin):
            await f.discord.delete_channel("debate")
        report = await asyncio.wait_for(talking, 30)
        assert report.messages == 0
        assert len(f.models.requests) <= 4, "nobody is asked on and on"
        await still_answers(f)
