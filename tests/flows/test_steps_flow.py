"""What a turn waits for besides its model and Discord: each step in Redis is felt in each answer."""

import asyncio

import pytest

from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import Instruction
from tests.support.flow import flow
from tests.support.redis_server import until

STEPS = 3  # it begins, its model has answered, it ends


@pytest.fixture
def waited(monkeypatch):
    """How often each task waited for Redis."""
    waited, call = {}, RedisConnection.call

    async def counted(link, command):
        name = asyncio.current_task().get_name()
        waited[name] = waited.get(name, 0) + 1
        return await call(link, command)

    monkeypatch.setattr(RedisConnection, "call", counted)
    return waited


@pytest.mark.parametrize("how", ["a mention", "an instruction"])
async def test_a_turn_waits_three_times_for_redis(tmp_path, waited, how):
    async with flow(tmp_path) as f, f.running() as runtime:
        channel, inbox = f.channel("casual"), runtime.bots["claude"].cog.host.queue.inbox

        async def mention(number):
            await f.discord.say("Alice", "casual", f"<@{f.user_id('claude')}> hello {number}")

        async def instruction(number):
            given = Instruction(instruction_id=f"i{number}", channel_id=channel, channel_theme="casual")
            await runtime.services.bus.publish(keys.instructions("claude"), given)

        for number in range(1, 4):
            await (mention if how == "a mention" else instruction)(number)
            await f.discord.wait_for(lambda number=number: len(f.said("casual", "claude")) == number)
            await until(lambda: not inbox.channels)
            if number == 2:  # what is read once in a channel was read
                waited.clear()
        assert waited[f"lane {channel}"] == STEPS
