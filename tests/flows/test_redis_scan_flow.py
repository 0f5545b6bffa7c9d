"""A whole run, then everything that is in Redis: whose it is, and that it ends."""

import re
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from agent_config import AGENTS
from agentic.state.silence import ChannelRef
from agentic.wire import keys
from agentic.wire.messages import Instruction
from tests.support.discord.faults import RestFault
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.redis_server import RedisServer, until

OURS = re.compile(rf"agent:({'|'.join(AGENTS)}):|coordinator:")
DAY = 86_400
LONGEST = 31 * DAY


@asynccontextmanager
async def kept_redis():
    """A real Redis of the test's own: its address, and a client that looks into it."""
    with RedisServer() as server:
        async with redis.asyncio.Redis.from_url(server.url, decode_responses=True) as kept:
            yield server.url, kept


async def endings(kept):
    """Each key with its time to live in seconds, -1 where it has none."""
    found = {key: await kept.ttl(key) async for key in kept.scan_iter()}
    return {key: ttl for key, ttl in found.items() if ttl != -2}  # gone meanwhile


async def a_bit_of_everything(f, runtime, kept):
    """A conversation, mentions that are answered, refused and failed, instructions of every kind, a stop."""
    claude, grok = f.user_id("claude"), f.user_id("grok")
    f.models.answer = lambda r: decision(f"turn {len(f.models.requests)}", topic="t", react_emoji="🔥")
    await runtime.coordinator.start_conversation(f.channel("debate"))
    await f.discord.say("Alice", "casual", f"<@{claude}> hello")
    await f.discord.wait_for(lambda: f.said("casual", "claude"))
    f.models.answer = lambda r: Answer(status=500)
    await f.discord.say("Bob", "casual", f"<@{grok}> hello")
    await f.discord.wait_for(lambda: f.said("casual", "grok"))
    f.models.answer = lambda r: decision("hello")
    refused = f.discord.faults.add(RestFault("POST", "/messages$", status=403, body={"message": "no", "code": 50013}))
    await f.discord.say("Alice", "casual", f"<@{claude}> again")
    await until(lambda: refused.hits)
    odd = [
        Instruction(instruction_id="odd:1 {x}\n*", channel_id=f.channel("casual"), deadline=1e300),
        Instruction(instruction_id="late", channel_id=f.channel("casual"), deadline=1.0),
        Instruction(instruction_id="nowhere", channel_id=5),
        Instruction(instruction_id="reactive", channel_id=f.channel("casual"), trigger_message_id=5),
    ]
    async with kept.pubsub() as results:
        await results.subscribe(keys.results("claude"))
        for instruction in odd:
            await kept.publish(keys.instructions("claude"), instruction.to_wire())
        await kept.publish(keys.instructions("claude"), '{"instruction_id": "bad", "channel_id": "NaN"}')
        answered = 0
        while answered < len(odd) + 1:
            answered += (await results.get_message(ignore_subscribe_messages=True, timeout=10)) is not None
    await f.discord.say("Alice", "debate", f"<@{claude}> stop 30")
    await until(lambda: runtime.services.silence.check(ChannelRef(f.channel("debate"))))
    await kept.publish(keys.COORDINATOR_COMMANDS, '{"command": "start", "channel_id": 5}')


@pytest.mark.promise(92)
async def test_every_key_after_a_whole_run_is_ours_and_ends(tmp_path):
    told = {"BUDGET_CHANNEL_DAILY_USD": "1", "MENTIONS_PER_MINUTE": "6"}
    async with kept_redis() as (url, kept), flow(tmp_path, redis_url=url, **told) as f, f.running() as runtime:
        await a_bit_of_everything(f, runtime, kept)
        found = await endings(kept)
        for written in ("coordinator:budget:", "coordinator:mentions:", "coordinator:silence", "agent:claude:turn:"):
            assert any(key.startswith(written) for key in found), written
        assert [key for key in found if not OURS.match(key)] == []
        assert {key: ttl for key, ttl in found.items() if not 0 <= ttl <= LONGEST} == {}
        turns = {key: ttl for key, ttl in found.items() if ":turn:" in key}
        assert len(turns) >= 10
        assert max(turns.values()) <= 600 + 15 * 60


@pytest.mark.promise(92)
async def test_at_the_end_of_a_run_no_turn_is_open_and_no_channel_held(tmp_path):
    async with kept_redis() as (url, kept):
        async with flow(tmp_path, redis_url=url) as f, f.running() as runtime:
            await a_bit_of_everything(f, runtime, kept)
        found = await endings(kept)
    left = [
        key
        for key in found
        if key.endswith((":open", ":owner", ":ready", ":holds")) or key.startswith("coordinator:conversation")
    ]
    assert left == []
