"""Options set while the program runs: known to every process, bounded, and read again after a loss of Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentic.state import live_options as module
from agentic.state.live_options import ALL, EVERYWHERE, LiveOptions, in_channel, in_guild
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.agentic.conftest import running
from tests.support.redis_server import PATIENT, RedisServer, until


@asynccontextmanager
async def a_process(link: RedisConnection) -> AsyncIterator[LiveOptions]:
    bus = Bus(link)
    live = LiveOptions(link, bus, check_every=0.01)
    await live.read()
    live.start()
    async with running(bus):
        following = asyncio.create_task(live.run())
        try:
            yield live
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


@pytest.mark.promise(410)
async def test_every_process_follows_at_once(link: RedisConnection):
    async with a_process(link) as here, a_process(link) as there:
        version = there.version
        assert await here.set(in_channel(7), "claude", "stop", ["a: b", "ä"]) == "set"
        assert here.layer("c7", "claude") == {"stop": ["a: b", "ä"]}
        await until(lambda: there.layer("c7", "claude") == {"stop": ["a: b", "ä"]})
        assert there.version > version
        assert await there.unset(in_channel(7), "claude", "stop")
        await until(lambda: here.layers("claude", None, [7]) == [])
        assert not await here.unset(in_channel(7), "claude", "stop")


async def test_a_narrower_place_stands_over_a_wider_one_and_an_agent_over_all(link: RedisConnection):
    async with a_process(link) as live:
        for place in (in_channel(2), in_channel(1), in_guild(9), EVERYWHERE):
            for agent in ("claude", ALL, "grok"):
                await live.set(place, agent, "stream", True)
        assert live.layers("claude", 9, [1, 2]) == [
            *((place, who) for place in ("*", "s9", "c1", "c2") for who in ("*", "claude"))
        ]
        assert live.layers("claude", 8, [3]) == [("*", "*"), ("*", "claude")]


async def test_the_hash_and_its_values_are_bounded(link: RedisConnection, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 1)
    async with a_process(link) as live:
        assert await live.set(EVERYWHERE, ALL, "stream", True) == "set"
        assert await live.set(EVERYWHERE, ALL, "mode", "chat") == "full"
        assert live.layer(EVERYWHERE, ALL) == {"stream": True}
        assert await live.set(EVERYWHERE, ALL, "stream", False) == "set"
        with pytest.raises(ValueError, match="at most"):
            await live.set(EVERYWHERE, ALL, "stream", "x" * 5_000)


@pytest.mark.promise(494)
async def test_a_guild_that_is_full_takes_no_space_from_others_or_from_everywhere(
    link: RedisConnection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_ENTRIES", 2)
    live = LiveOptions(link, Bus(link))
    assert await live.set(in_guild(9), ALL, "stream", True) == "set"
    assert await live.set(in_channel(7, 9), "claude", "stream", True) == "set"
    for place in (in_guild(9), in_channel(7, 9), in_channel(8, 9)):
        assert await live.set(place, "claude", "mode", "chat") == "full"
    for place in (in_guild(90), in_channel(70, 90), in_channel(9), in_channel(99), EVERYWHERE):
        assert await live.set(place, "claude", "mode", "chat") == "set"
    assert await live.set(in_channel(7, 9), "claude", "stream", False) == "set"
    assert await live.unset(in_guild(9), ALL, "stream")
    assert await live.set(in_channel(8, 9), "claude", "mode", "chat") == "set"


@pytest.mark.promise(494)
async def test_what_an_older_version_set_in_a_channel_holds_and_can_be_changed_and_taken_back(link: RedisConnection):
    stored = {"c7:claude:stream": "true", "c7:claude:mode": '"chat"', "c7:*:stream": "false"}
    await link.commands.hset(keys.LIVE_OPTIONS, mapping=stored)
    live, later = LiveOptions(link, Bus(link)), LiveOptions(link, Bus(link))
    await live.read()
    assert live.layer("c7", "claude") == {"stream": True, "mode": "chat"}
    assert await live.set(in_channel(7, 9), "claude", "stream", False) == "set"
    assert await live.unset(in_channel(7, 9), "claude", "mode")
    left = set(await link.call(lambda redis: redis.hkeys(keys.LIVE_OPTIONS)))
    assert left == {module.EVER, "c7@9:claude:stream", "c7:*:stream"}
    await later.read()
    for process in (live, later):
        assert process.layer("c7", "claude") == {"stream": False}
        assert process.layer("c7", ALL) == {"stream": False}
    assert await live.unset(in_channel(7, 9), "claude", "stream")
    await later.read()
    assert later.layer("c7", "claude") == {}


async def test_it_is_read_at_the_start_and_what_cannot_be_read_is_skipped(link: RedisConnection):
    stored = {"c7:claude:stream": "true", "c7:claude:mode": "{", "nonsense": "1"}
    await link.commands.hset(keys.LIVE_OPTIONS, mapping=stored)
    live = LiveOptions(link, Bus(link))
    await live.read()
    assert live.layer("c7", "claude") == {"stream": True}


@pytest.mark.promise(410)
async def test_what_a_living_process_knows_outlives_a_redis_that_was_emptied(link: RedisConnection):
    async with a_process(link) as live:
        await live.set(EVERYWHERE, ALL, "stream", True)
        await link.call(lambda redis: redis.flushall())
        async with asyncio.timeout(10):
            while not await link.call(lambda redis: redis.hexists(keys.LIVE_OPTIONS, "*:*:stream")):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert live.layer(EVERYWHERE, ALL) == {"stream": True}
    async with a_process(link) as later:
        assert later.layer(EVERYWHERE, ALL) == {"stream": True}


@pytest.mark.promise(410)
async def test_a_change_right_after_redis_was_emptied_takes_nothing_else_along(link: RedisConnection):
    live = LiveOptions(link, Bus(link))
    for option in ("stream", "chain"):
        await live.set(EVERYWHERE, ALL, option, 1)
    for change in (live.set(EVERYWHERE, ALL, "replies", 2), live.unset(EVERYWHERE, ALL, "chain")):
        await link.call(lambda redis: redis.flushall())
        await change
    after = LiveOptions(link, Bus(link))
    await after.read()
    assert after.layer(EVERYWHERE, ALL) == {"stream": 1, "replies": 2}


@pytest.mark.promise(410)
async def test_while_redis_is_away_nothing_is_set_and_what_was_holds(server: RedisServer):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link, a_process(link) as live:
        await live.set(EVERYWHERE, ALL, "stream", True)
        server.kill()
        with pytest.raises(StateUnavailable):
            await live.set(EVERYWHERE, ALL, "stream", False)
        assert live.layer(EVERYWHERE, ALL) == {"stream": True}
        server.start()
        await asyncio.wait_for(link.present.wait(), 10)
        await until(lambda: live.layer(EVERYWHERE, ALL) == {"stream": True})
