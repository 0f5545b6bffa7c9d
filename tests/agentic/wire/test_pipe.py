"""All commands share one connection: each gets its own reply, in order, whatever happens to the others."""

from __future__ import annotations

import asyncio
import zlib

import pytest
from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import ResponseError

from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.pipe import pack
from tests.support.redis_server import RedisServer


def test_a_command_is_packed_as_redis_reads_it() -> None:
    assert pack("SET", b"k", 1, 1.5) == b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n$3\r\n1.5\r\n"
    assert pack("ECHO", "so \ud83d") == b"*2\r\n$4\r\nECHO\r\n$4\r\nso ?\r\n"
    with pytest.raises(TypeError):
        pack("SET", "k", None)


async def test_commands_run_in_the_order_in_which_they_were_sent(link: RedisConnection) -> None:
    counts = [link.call(lambda redis: redis.incr("count")) for _ in range(50)]
    assert await asyncio.gather(*counts) == list(range(1, 51))


async def test_a_canceled_caller_leaves_the_others_their_own_replies(link: RedisConnection) -> None:
    await link.call(lambda redis: redis.mset({"a": "1", "b": "2"}))
    first = asyncio.create_task(link.call(lambda redis: redis.get("a")))
    second = asyncio.create_task(link.call(lambda redis: redis.get("b")))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "2"
    assert await link.call(lambda redis: redis.get("a")) == "1"


@pytest.mark.promise(91)
async def test_all_that_wait_for_a_server_that_hangs_fail_together(server: RedisServer) -> None:
    async with RedisConnection(server.url, command_timeout=0.1) as link:
        await link.call(lambda redis: redis.ping())
        server.pause()
        waiting = [link.call(lambda redis: redis.incr("count")) for _ in range(20)]
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        assert all(isinstance(outcome, StateUnavailable) for outcome in outcomes)
        server.resume()
        await asyncio.wait_for(link.present.wait(), 10)


async def test_a_large_command_that_takes_its_time_delays_no_small_one(server: RedisServer) -> None:
    async with RedisConnection(server.url, command_timeout=5) as link:
        large = asyncio.create_task(link.call_slowly(lambda redis: redis.blpop(["list"], timeout=60), 60))
        assert await link.call(lambda redis: redis.set("key", "value"))
        await link.call(lambda redis: redis.rpush("list", "end"))
        assert await large == ("list", "end")


async def test_an_error_in_a_batch_is_raised_after_the_rest_was_done(link: RedisConnection) -> None:
    with pytest.raises(ResponseError):
        await link.batch(lambda pipe: (pipe.set("a", "1"), pipe.lpop("a"), pipe.set("b", "2")))
    assert await link.call(lambda redis: redis.mget(["a", "b"])) == ["1", "2"]


async def test_a_transaction_returns_the_replies_of_its_commands(link: RedisConnection) -> None:
    assert await link.batch(lambda pipe: (pipe.incr("a"), pipe.hgetall("h")), transaction=True) == [1, {}]
    with pytest.raises(ResponseError):
        await link.batch(lambda pipe: (pipe.incr("a"), pipe.lpop("a")), transaction=True)
    assert await link.call(lambda redis: redis.get("a")) == "2"


async def test_a_transaction_with_a_command_that_redis_refuses_does_nothing(link: RedisConnection) -> None:
    with pytest.raises(ResponseError):
        await link.batch(lambda pipe: (pipe.incr("a"), pipe.execute_command("NO-COMMAND")), transaction=True)
    assert await link.call(lambda redis: redis.get("a")) is None


async def test_replies_come_as_bytes_for_those_who_ask_so_and_as_text_for_the_others(link: RedisConnection) -> None:
    raw = zlib.compress(b"no text")

    async def read_raw(redis: Redis) -> list[bytes]:
        pipe = redis.pipeline(transaction=False)
        pipe.execute_command("GET", "raw", **{NEVER_DECODE: True})
        return await pipe.execute()

    await link.call(lambda redis: redis.set("raw", raw))
    await link.call(lambda redis: redis.set("text", "é"))
    reads = [
        link.call(lambda redis: redis.get("text")),
        link.call(read_raw),
        link.call(lambda redis: redis.get("text")),
    ]
    assert await asyncio.gather(*reads) == ["é", [raw], "é"]
