from __future__ import annotations

import pytest

from agentic.state.context import WINDOW_SECONDS, ContextWindows
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import RedisServer

STATE = {"first": 1_200_000_000_000_000_001, "cut_at": 1.5, "marker": None}


async def test_a_window_is_kept_for_seven_days_by_agent_channel_and_kind(link: RedisConnection) -> None:
    windows = ContextWindows(link)
    await windows.keep("claude", 7, "recent", STATE)
    assert await windows.kept("claude", 7, "recent") == STATE
    assert await windows.kept("claude", 7, "conversation") is None
    assert await windows.kept("grok", 7, "recent") is None
    left = await link.call(lambda redis: redis.ttl(keys.window("claude", 7, "recent")))
    assert WINDOW_SECONDS - 5 <= left <= WINDOW_SECONDS


@pytest.mark.parametrize("text", ["nonsense", "[1]", ""])
async def test_what_cannot_be_read_counts_as_none(link: RedisConnection, text: str) -> None:
    await link.call(lambda redis: redis.set(keys.window("claude", 7, "recent"), text))
    assert await ContextWindows(link).kept("claude", 7, "recent") is None


async def test_redis_away_is_no_error(server: RedisServer) -> None:
    async with RedisConnection(server.url) as link:
        server.kill()
        windows = ContextWindows(link)
        await windows.keep("claude", 7, "recent", STATE)
        assert await windows.kept("claude", 7, "recent") is None
