"""Commands that are answered, and whose the slash commands are."""

from __future__ import annotations

import asyncio

from agentic.state.presence import TTL_SECONDS, CommandOwner
from agentic.wire import keys
from agentic.wire.bus import NOBODY, Bus, CoordinatorCommands
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import Command, CommandOutcome, WireMessage, read
from tests.agentic.conftest import running
from tests.support.redis_server import until

START = Command(command="start", channel_id=7)


async def test_a_command_is_told_its_own_outcome(link: RedisConnection):
    bus = Bus(link)
    orders = CoordinatorCommands(bus)
    orders.start()

    async def obey(raw: str) -> None:
        command = read(Command, raw)
        assert command is not None
        for command_id, outcome in (("another", "busy"), (command.command_id, "started"), (command.command_id, "late")):
            assert command_id is not None
            await bus.publish(keys.COORDINATOR_OUTCOMES, CommandOutcome(command_id=command_id, outcome=outcome))

    bus.subscribe(keys.COORDINATOR_COMMANDS, obey)
    async with running(bus):
        assert await orders.give(START) == "started"
        assert await orders.give(START) == "started", "what came late for the first one is nothing to the second"


async def test_where_nobody_listens_or_answers_that_is_the_outcome(link: RedisConnection):
    bus = Bus(link)
    orders = CoordinatorCommands(bus, patience=0.01)
    orders.start()
    async with running(bus):
        assert await orders.give(START) == NOBODY
        bus.subscribe(keys.COORDINATOR_COMMANDS, lambda _: None)
        await bus.ready.wait()
        assert await orders.give(START) == NOBODY


async def test_a_command_waits_for_a_coordinator_that_is_about_to_listen(link: RedisConnection):
    bus = Bus(link)
    orders = CoordinatorCommands(bus, patience=10.0)
    orders.start()

    async def obey(raw: str) -> None:
        command = read(Command, raw)
        assert command is not None
        assert command.command_id is not None
        await bus.publish(keys.COORDINATOR_OUTCOMES, CommandOutcome(command_id=command.command_id, outcome="started"))

    heard = []

    async def publish(channel: str, message: WireMessage) -> int:
        heard.append(await Bus.publish(bus, channel, message))
        return heard[-1]

    bus.publish = publish
    async with running(bus):
        given = asyncio.create_task(orders.give(START))
        await until(lambda: heard == [0])
        bus.subscribe(keys.COORDINATOR_COMMANDS, obey)
        assert await given == "started"


async def test_the_commands_are_of_one_agent_until_its_time_is_over(link: RedisConnection):
    here, there = CommandOwner(link), CommandOwner(link)
    assert await here.claim("chatgpt")
    assert not await there.claim("claude")
    assert await there.holder() == "chatgpt"
    assert await there.claim("chatgpt"), "a restart finds its own name"
    assert TTL_SECONDS - 5 < await link.commands.ttl(keys.COORDINATOR_COMMANDS_BOT) <= TTL_SECONDS
    await link.commands.delete(keys.COORDINATOR_COMMANDS_BOT)
    assert await there.claim("claude")


async def test_who_insists_takes_the_commands_over(link: RedisConnection):
    bots = CommandOwner(link)
    await bots.claim("chatgpt")
    assert await bots.claim("claude", insist=True)
    assert not await bots.claim("chatgpt")
