"""A person's STOP: at once, for every process on the same Redis, and beyond a restart."""

import asyncio

import pytest

from agentic.state.silence import ChannelRef, Scope
from tests.support.flow import decision, flow
from tests.support.redis_server import RedisServer, until


def marks(f, channel, emoji):
    """Who put the emoji where: (message's id, how many)."""
    given = [(int(m["id"]), r) for m in f.discord.messages(channel) for r in m.get("reactions", ())]
    return [(message_id, r["count"]) for message_id, r in given if r["emoji"]["name"] == emoji]


class Held:
    """The model server's answers from the nth request on are held back."""

    def __init__(self, f, after):
        self.f, self.after, self.thinking, self.go_on = f, after, asyncio.Event(), asyncio.Event()

    async def __call__(self, request):
        number = len(self.f.models.requests)
        if number > self.after:
            self.thinking.set()
            await self.go_on.wait()
        return decision(f"turn {number}", topic="t")


async def first_message(f, channel):
    await f.discord.wait_for(lambda: f.said(channel))
    return f.discord.messages(channel)[0]


@pytest.mark.promise(106)
async def test_the_stop_sign_ends_a_conversation_in_the_middle_of_a_model_call_and_is_shown_once(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="5") as f, f.running() as runtime:
        f.models.answer = held = Held(f, 2)
        talking = asyncio.create_task(runtime.coordinator.start_conversation(f.channel("debate")))
        said = await first_message(f, "debate")
        await held.thinking.wait()
        await f.discord.react("Alice", "debate", int(said["id"]), "🛑")
        report = await asyncio.wait_for(talking, 30)
        held.go_on.set()
        assert (report.ended_because, report.messages) == ("stopped", 2)
        await f.discord.wait_for(lambda: marks(f, "debate", "✅"))
        asked = await f.discord.say("Bob", "debate", f"<@{f.user_id('claude')}> still there?")
        assert await runtime.coordinator.start_conversation(f.channel("debate")) is None
        report = await runtime.coordinator.start_conversation(
            f.channel("casual")
        )  # the others go on; by its end all else is settled
        assert report.messages > 0
        assert len([text for text in f.said("debate") if text.startswith("turn")]) == 2
        assert marks(f, "debate", "✅") == [(int(said["id"]), 1)]
        given = [(int(said["id"]), 1), (int(asked["id"]), 1)]
        assert marks(f, "debate", "🛑") == given, "Alice's, and the bot's to who asked into the silence"


async def test_without_the_right_the_conversation_goes_on(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        f.models.answer = held = Held(f, 2)
        talking = asyncio.create_task(runtime.coordinator.start_conversation(f.channel("debate")))
        said = await first_message(f, "debate")
        await held.thinking.wait()
        await f.discord.react("Bob", "debate", int(said["id"]), "🛑")
        await f.discord.wait_for(lambda: marks(f, "debate", "✅"))  # his own answers, of which there are none
        held.go_on.set()
        report = await asyncio.wait_for(talking, 30)
        assert (report.ended_because, report.messages) == ("round_limit", 4)


async def test_a_role_of_the_owners_choice_may_stop_too(tmp_path):
    async with flow(tmp_path) as f:
        role = next(r.id for guild in f.world.guilds.values() for r in guild.roles.values() if r.name == "bots")
        guild = next(iter(f.world.guilds.values()))
        bob = next(member for member in guild.members.values() if member.user.global_name == "Bob")
        bob.roles.append(role)
        async with f.running(settings=f.settings.with_(moderator_ids=(role,))) as runtime:
            await f.discord.say("Bob", "debate", f"<@{f.user_id('claude')}> stop")
            await f.discord.wait_for(lambda: marks(f, "debate", "✅"))
            assert await runtime.coordinator.start_conversation(f.channel("debate")) is None


@pytest.mark.promise(107)
async def test_a_stop_outlives_the_program_and_is_lifted_by_resume(tmp_path):
    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url, COORDINATOR_MAX_ROUNDS="1") as f:
            claude = f"<@{f.user_id('claude')}>"
            async with f.running():
                await f.discord.say("Alice", "debate", f"{claude} stop")
                await f.discord.wait_for(lambda: len(marks(f, "debate", "✅")) == 1)
            redis.restart()
            async with f.running() as runtime:
                assert await runtime.coordinator.start_conversation(f.channel("debate")) is None
                await f.discord.say("Bob", "debate", f"{claude} resume")
                await f.discord.say("Alice", "debate", f"{claude} are you there?")
                await f.discord.say("Alice", "casual", f"{claude} and here?")
                await f.discord.wait_for(lambda: f.said("casual", "claude"))  # so it has heard all that was said before
                assert len(f.models.requests) == 1
                await f.discord.say("Alice", "debate", f"{claude} resume")
                await f.discord.wait_for(lambda: len(marks(f, "debate", "✅")) == 2)
                await f.discord.say("Alice", "debate", f"{claude} and now?")
                await f.discord.wait_for(lambda: f.said("debate", "claude"))
                assert (await runtime.coordinator.start_conversation(f.channel("debate"))).messages == 4
                assert len(f.said("debate", "claude")) == 2, "what was asked in between is not answered later"


@pytest.mark.promise(107)
async def test_a_stop_that_one_process_hears_holds_in_the_other(tmp_path):
    with RedisServer() as redis:
        async with (
            flow(tmp_path, redis_url=redis.url) as f,
            f.running(agents=("gemini",), coordinator=False) as there,
            f.running(agents=("grok",)) as here,
        ):
            channel = f.channel("debate")
            await there.services.silence.stop(Scope.channel(channel), source="console")
            await until(lambda: here.services.silence.check(ChannelRef(channel)))
            assert await here.coordinator.start_conversation(channel) is None
            await f.discord.say("Alice", "debate", f"<@{f.user_id('grok')}> resume")
            await until(lambda: not there.services.silence.check(ChannelRef(channel)))
            await f.discord.wait_for(lambda: marks(f, "debate", "✅"))


async def test_a_person_who_barges_in_is_heard_before_another_word_is_said(tmp_path):
    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="1") as f, f.running() as runtime:
        f.models.answer = held = Held(f, 1)
        talking = asyncio.create_task(runtime.coordinator.start_conversation(f.channel("debate")))
        await held.thinking.wait()
        await f.discord.say("Bob", "debate", "What about spaces?")
        await f.discord.wait_for(lambda: all("What about spaces?" in _texts(bot) for bot in runtime.bots.values()))
        held.go_on.set()
        report = await asyncio.wait_for(talking, 30)
        assert [text.partition(" ")[0] for text in f.said("debate")] == ["turn", "What", "turn", "turn"]
        assert f.said("debate")[2] == "turn 3", "the second was dropped, the third came at once"
        assert (report.messages, report.ended_because) == (3, "round_limit")
        assert ["What about spaces?" in r.tail for r in f.models.requests] == [False, False, True, False]
        assert "has answered what Bob said" in f.models.requests[3].tail, "one answers, the others go on"


def _texts(bot):
    transcripts = bot.cog.services.chats.transcripts
    return "\n".join(
        e.text for channel in bot.cog.services.chats.scope.channels for e in transcripts.of(channel).entries()
    )
