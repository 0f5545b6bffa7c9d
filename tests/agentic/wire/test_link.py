from __future__ import annotations

import asyncio
import socket

import pytest
from redis.exceptions import ResponseError

from agentic.wire.connection import RedisAddressError, RedisConnection, StateUnavailable
from tests.support.redis_server import PATIENT, RedisServer, until


async def test_nobody_there_is_redis_away(tmp_path):
    async with RedisConnection(f"unix://{tmp_path / 'none'}") as link:
        with pytest.raises(StateUnavailable):
            await link.call(lambda redis: redis.get("key"))


@pytest.mark.parametrize("options", ["db=abc", "s3cret=s3cret", "protocol=9", "max_connections=x"])
def test_an_address_with_unknown_options_is_refused_without_being_shown(options):
    with pytest.raises(RedisAddressError) as caught:
        RedisConnection(f"redis://:s3cret@127.0.0.1:1?{options}")
    assert "s3cret" not in str(caught.value)


async def test_after_a_failure_commands_fail_without_being_tried_until_a_probe_succeeds(server: RedisServer):
    async with RedisConnection(server.url) as link:
        server.kill()
        with pytest.raises(StateUnavailable):
            await link.call(lambda redis: redis.get("key"))
        tried: list[int] = []

        async def command(redis):
            tried.append(1)

        with pytest.raises(StateUnavailable):
            await link.call(command)
        assert link.away
        assert tried == []
        server.start()
        await asyncio.wait_for(link.present.wait(), 10)
        await link.call(command)
        assert tried == [1]


async def test_a_restart_between_two_commands_goes_unnoticed(server: RedisServer):
    async with RedisConnection(server.url) as link:
        await link.call(lambda redis: redis.set("key", "value"))
        server.restart()
        for _ in range(5):  # the loop has to see the end of the old connection
            await asyncio.sleep(0)
        assert await link.call(lambda redis: redis.get("key")) == "value"


@pytest.mark.promise(91)
async def test_a_server_that_hangs_costs_one_short_timeout_and_then_nothing(server: RedisServer):
    async with RedisConnection(server.url, command_timeout=0.1) as link:
        await link.call(lambda redis: redis.get("key"))
        server.pause()
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(StateUnavailable):
            await link.call(lambda redis: redis.incr("count"))
        assert loop.time() - began < 1
        waiting = [link.call(lambda redis: redis.get("key")) for _ in range(200)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(outcome, StateUnavailable) for outcome in outcomes)
        assert loop.time() - began < 1
        server.resume()
        await asyncio.wait_for(link.present.wait(), 10)


@pytest.mark.promise(91)
async def test_a_full_server_takes_no_writes_and_still_answers_reads(server: RedisServer, caplog):
    async with RedisConnection(server.url) as link:
        await link.call(lambda redis: redis.set("key", "value"))
        await link.call(lambda redis: redis.config_set("maxmemory", "1"))
        for _ in range(2):
            with pytest.raises(StateUnavailable):
                await link.call(lambda redis: redis.set("key", "other"))
            with pytest.raises(StateUnavailable, match=r"when used memory > 'maxmemory'$"):
                await link.script("return redis.call('SET', KEYS[1], 'other')", ["key"])
        assert not link.away
        assert await link.call(lambda redis: redis.get("key")) == "value"
        assert sum("accepts no writes" in r.getMessage() and r.levelname == "ERROR" for r in caplog.records) == 1


async def test_a_read_only_replica_is_redis_away_for_writes(server: RedisServer):
    async with RedisConnection(server.url) as link:
        await link.call(lambda redis: redis.execute_command("REPLICAOF", "127.0.0.1", "1"))
        with pytest.raises(StateUnavailable):
            await link.call(lambda redis: redis.set("key", "value"))
        with pytest.raises(StateUnavailable):
            await link.script("return redis.call('SET', KEYS[1], 'other')", ["key"])


async def test_a_mistake_of_ours_is_not_taken_for_redis_away(link: RedisConnection):
    await link.call(lambda redis: redis.set("key", "value"))
    with pytest.raises(ResponseError):
        await link.call(lambda redis: redis.lpop("key"))
    assert not link.away


async def test_a_script_gets_numbers_as_text_and_half_an_emoji_as_a_question_mark(link: RedisConnection):
    assert await link.script("return {KEYS[1], ARGV[1], ARGV[2]}", ["kéy"], [1.5, "so \ud83d"]) == [
        "kéy",
        "1.5",
        "so ?",
    ]


@pytest.mark.parametrize("seconds", [None, 5.0])
async def test_the_text_of_a_script_is_sent_once_and_again_to_a_server_that_lacks_it(server: RedisServer, seconds):
    text = "return redis.call('INCRBY', KEYS[1], ARGV[1])"

    async def counts() -> tuple[int, int]:
        stats = await link.call(lambda redis: redis.info("commandstats"))
        return tuple(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))

    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        assert [await link.script(text, ["sum"], [2], seconds=seconds) for _ in range(3)] == [2, 4, 6]
        assert await counts() == (1, 2)
        server.flush()
        sums = await asyncio.gather(*(link.script(text, ["sum"], [2], seconds=seconds) for _ in range(5)))
        assert sorted(sums) == [2, 4, 6, 8, 10], "each of them ran once"
        server.restart()
        await until(lambda: not link.commands.is_open)
        assert await link.script(text, ["sum"], [2], seconds=seconds) == 12
        assert await counts() == (1, 1), "of this server: it did not know the script"


async def test_a_thousand_commands_at_once_share_a_connection(server: RedisServer):
    async with RedisConnection(server.url) as link:
        await asyncio.gather(*(link.call(lambda redis: redis.incr("count")) for _ in range(1000)))
        assert await link.call(lambda redis: redis.get("count")) == "1000"
        assert len(await link.call(lambda redis: redis.client_list())) == 1


async def test_closing_while_away_leaves_no_probe_behind():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with RedisConnection(f"redis://127.0.0.1:{unused.getsockname()[1]}") as link:
            with pytest.raises(StateUnavailable):
                await link.call(lambda redis: redis.ping())
    await until(lambda: all(task.get_name() != "redis-probe" for task in asyncio.all_tasks()))


async def test_what_is_queued_is_written_when_a_full_server_has_room_again(server: RedisServer):
    called = asyncio.Event()

    async def write():
        called.set()

    async with RedisConnection(server.url) as link:
        await link.script("return redis.call('SET', 'key', '1')", [])
        await link.call(lambda redis: redis.config_set("maxmemory", 1))
        with pytest.raises(StateUnavailable):
            await link.script("return redis.call('SET', 'key', '1')", [])
        link.queue("a write", write, 1)
        await link.call(lambda redis: redis.config_set("maxmemory", 0))
        assert (link.is_read_only, called.is_set()) == (True, False)
        await link.script("return redis.call('SET', 'key', '1')", [])
        await asyncio.wait_for(called.wait(), 10)
        assert not link.is_read_only
