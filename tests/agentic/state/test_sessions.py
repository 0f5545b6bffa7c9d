"""Sessions and resets on a Redis inside the process."""

import asyncio
from contextlib import asynccontextmanager

from agentic.state.context import RESET_SECONDS, SESSION_SECONDS, Resets, Sessions
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.support.doubles import until
from tests.support.redis_server import empty_redis

LOUNGE, DEBATE = 10, 11


@asynccontextmanager
async def a_process(server):
    """A link, and the resets as one process hears of them."""
    async with RedisConnection(server) as link:
        bus = Bus(link)
        resets = Resets(link)
        resets.start(bus)
        running = asyncio.create_task(bus.run())
        try:
            await asyncio.wait_for(bus.ready.wait(), 10)
            yield link, resets
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def gone(link, monkeypatch):
    async def away(*_, **__):
        raise StateUnavailable("gone")

    monkeypatch.setattr(link, "call", away)


async def test_a_session_is_kept_for_a_month_over_restarts_and_dropped():
    server = empty_redis()
    async with RedisConnection(server) as link:
        await Sessions(link).keep("claude", LOUNGE, {"id": "a", "read": 3})
        assert 0 < await link.commands.ttl(keys.session("claude", LOUNGE)) <= SESSION_SECONDS
        later = Sessions(link)
        assert await later.read("claude", LOUNGE) == {"id": "a", "read": 3}
        assert await later.read("claude", DEBATE) is None
        assert await later.read("grok", LOUNGE) is None
        await later.drop("claude", LOUNGE)
        assert await Sessions(link).read("claude", LOUNGE) is None


async def test_what_cannot_be_read_is_no_session():
    async with RedisConnection(empty_redis()) as link:
        for text in ("{", "[1]", "7"):
            await link.commands.set(keys.session("claude", LOUNGE), text)
            assert await Sessions(link).read("claude", LOUNGE) is None


async def test_while_redis_is_away_a_process_knows_its_own_sessions(monkeypatch):
    async with RedisConnection(empty_redis()) as link:
        sessions = Sessions(link)
        await sessions.keep("claude", DEBATE, {"id": "old"})
        gone(link, monkeypatch)
        await sessions.keep("claude", LOUNGE, {"id": "a"})
        await sessions.drop("claude", DEBATE)
        assert await sessions.read("claude", LOUNGE) == {"id": "a"}
        assert await sessions.read("claude", DEBATE) is None
        assert await sessions.read("grok", LOUNGE) is None
        monkeypatch.undo()
        await link.write_queued()
        later = Sessions(link)
        assert await later.read("claude", LOUNGE) == {"id": "a"}
        assert await later.read("claude", DEBATE) is None


async def test_every_process_hears_of_a_reset_and_one_that_comes_later_reads_it():
    server = empty_redis()
    async with a_process(server) as (link, here), a_process(server) as (_, there):
        assert await there.since("claude", LOUNGE) == 0
        await Sessions(link).keep("claude", LOUNGE, {"id": "a"})
        await here.reset(("claude",), LOUNGE, 77)
        assert await here.since("claude", LOUNGE) == 77
        await until(lambda: there._known.get(keys.reset("claude", LOUNGE)) == 77)
        assert [await there.since("claude", DEBATE), await there.since("grok", LOUNGE)] == [0, 0]
        assert await Sessions(link).read("claude", LOUNGE) is None
        assert 0 < await link.commands.ttl(keys.reset("claude", LOUNGE)) <= RESET_SECONDS
        async with a_process(server) as (_, later):
            assert await later.since("claude", LOUNGE) == 77


async def test_redis_is_asked_once_for_a_channel(monkeypatch):
    async with a_process(empty_redis()) as (link, resets):
        assert await resets.since("claude", LOUNGE) == 0
        gone(link, monkeypatch)
        assert await resets.since("claude", LOUNGE) == 0
        assert await resets.since("claude", DEBATE) == 0  # not known, so nothing is cut


async def test_an_old_notice_does_not_bring_back_what_was_cut():
    async with a_process(empty_redis()) as (_, resets):
        await resets.reset(("claude",), LOUNGE, 77)
        resets._on_notice('{"protocol_version": 1, "channel_id": 10, "message_id": 5, "agents": ["claude"]}')
        resets._on_notice('{"protocol_version": 1, "channel_id": "x"}')
        assert await resets.since("claude", LOUNGE) == 77
