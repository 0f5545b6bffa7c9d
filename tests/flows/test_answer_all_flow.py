"""A bot that answers everything in a channel: people's messages, but no bot's, and only one bot."""

from __future__ import annotations

import itertools

from agentic.state.silence import Scope
from agentic.wire.messages import Command, RoomOrder
from tests.flows.test_room_turns_flow import room
from tests.support.asking import config
from tests.support.flow import decision, flow
from tests.support.redis_server import until

NUMBERS = itertools.count(1)


def answers(request) -> str:
    return decision(f"Answer {next(NUMBERS)} by {request.provider}.")


def role_of(f, bot: str) -> int:
    """The role that Discord made for a bot, which people mention by mistake."""
    return next(role.id for guild in f.world.guilds.values() for role in guild.roles.values() if role.name == bot)


async def answered(f, bot: str, count: int, channel: str = "casual") -> None:
    await f.discord.wait_for(lambda: len(f.said(channel, bot)) == count)


async def test_every_message_of_a_person_is_answered_by_one_bot_and_calls_go_to_whom_they_name(tmp_path):
    files = config(tmp_path, bots__claude="answer_all: true\n", bots__grok="answer_all: true\n")
    async with flow(tmp_path, **files) as f, f.running(agents=("claude", "grok"), coordinator=False) as runtime:
        await until(lambda: all(runtime.services.chats.directory.id_of(bot) for bot in ("claude", "grok")))
        f.models.answer = answers
        for number in range(1, 4):  # right after the answer: nobody waits for a cooldown
            await f.discord.say("Alice", "casual", f"remark {number}")
            await answered(f, "claude", number)
        await f.discord.say("Alice", "casual", f"<@{f.user_id('grok')}> and you?")
        await answered(f, "grok", 1)
        await f.discord.say("Alice", "casual", f"<@&{role_of(f, 'Grok')}> and again?")
        await answered(f, "grok", 2)
        await f.discord.say("Bob", "casual", f"<@&{role_of(f, 'Grok')}> and for those who may not ping roles?")
        await answered(f, "grok", 3)
        await f.discord.say_as_foreign_bot("Spam", "casual", "buy this")
        for unsaid in (". an aside", "\u200b", "> "):
            await f.discord.say("Alice", "casual", unsaid)
        await f.discord.say("Bob", "casual", "the last one")
        await answered(f, "claude", 4)
        assert len(f.said("casual", "grok")) == 3
        assert len(f.models.requests) == 7
        assert "Bob: @Grok and for those" in "\n".join(f.models.requests[-1].texts)
        assert not any(m.get("reactions") for m in f.discord.messages("casual"))


async def test_who_is_ignored_gets_no_answer_and_a_stop_is_silent(tmp_path):
    files = config(tmp_path, bots__claude="answer_all: true\n")
    async with flow(tmp_path, **files) as f, f.running(agents=("claude",), coordinator=False) as runtime:
        f.models.answer = answers
        await f.discord.say("Alice", "casual", "hello")
        await answered(f, "claude", 1)
        await runtime.services.silence.stop(Scope.channel(f.channel("casual")), 600)
        await runtime.services.silence.stop(Scope.person(f.world.user("Bob").id))
        await f.discord.say("Alice", "casual", "are you there?")
        await f.discord.say("Bob", "debate", "I am ignored")
        await f.discord.say("Alice", "debate", "and I am not")
        await answered(f, "claude", 1, "debate")
        assert len(f.models.requests) == 2
        assert not any(m.get("reactions") for m in f.discord.messages("casual"))


async def test_in_a_thread_everything_is_answered_but_not_in_that_of_a_room(tmp_path):
    files = config(tmp_path, shared="answer_all: true\n")
    async with flow(tmp_path, **files) as f, f.running(agents=("claude",)) as runtime:
        f.models.answer = answers
        in_room, plain = [
            int((await f.discord.create_thread("Alice", "debate", name))["id"]) for name in ("a room", "a thread")
        ]
        opened = Command(
            command="room-open", channel_id=in_room, room=RoomOrder(room=room(f, in_room).model_dump_json())
        )
        assert await runtime.services.bus.orders.give(opened) == "opened"
        await f.discord.say("Alice", in_room, "do you hear me in the room?")
        await f.discord.say("Alice", plain, "and in the thread?")
        await answered(f, "claude", 1, plain)
        assert not any("do you hear me in the room?" in request.tail for request in f.models.requests)
