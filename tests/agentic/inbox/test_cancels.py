"""Cancels of the coordinator: every process hears of them, for the agents that run in it."""

from __future__ import annotations

from agentic.agent.notices import Cancels
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import CancelNotice
from tests.agentic.conftest import running
from tests.support.redis_server import until


async def test_an_agent_hears_of_its_own_turns_until_it_ends(link: RedisConnection):
    bus, ended = Bus(link), list[tuple[str, str]]()
    cancels = Cancels(bus)

    async def claude(turn_id: str) -> None:
        ended.append(("claude", turn_id))

    async def grok(turn_id: str) -> None:
        ended.append(("grok", turn_id))

    cancels.on_cancel("claude", claude)
    cancels.on_cancel("grok", grok)
    async with running(bus):
        await bus.ready.wait()
        for agent, turn_id in (("claude", "r1"), ("gemini", "r2"), ("grok", "r3")):
            await bus.publish(keys.COORDINATOR_CANCELS, CancelNotice(agent_name=agent, instruction_id=turn_id))
        await until(lambda: len(ended) == 2)
        cancels.off("claude", claude)
        for agent, turn_id in (("claude", "r4"), ("grok", "r5")):
            await bus.publish(keys.COORDINATOR_CANCELS, CancelNotice(agent_name=agent, instruction_id=turn_id))
        await until(lambda: len(ended) == 3)
    assert ended == [("claude", "r1"), ("grok", "r3"), ("grok", "r5")]
