from __future__ import annotations

import pytest

from agentic.state.context import MAX_MESSAGES, Summaries, Summary
from agentic.state.context import SUMMARY_SECONDS as KEEP_SECONDS
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import RedisServer, until

FIRST = Summary(text="Ada doubts it.", first=10, upto=30, messages=(10, 20, 30), people=frozenset({7}))
NEXT = FIRST.model_copy(update={"text": "Ada concedes.", "upto": 60})


async def made(summaries: Summaries, summary: Summary, former: Summary | None = None, thread: int = 1) -> bool:
    token = await summaries.claim(thread, former)
    return token is not None and await summaries.keep(thread, token, summary)


async def test_a_summary_is_kept_for_thirty_days_and_replaced_by_the_next(link: RedisConnection) -> None:
    summaries = Summaries(link)
    assert await made(summaries, FIRST)
    assert await Summaries(link).read(1) == FIRST
    assert KEEP_SECONDS - 5 <= await link.call(lambda redis: redis.ttl(keys.summary(1))) <= KEEP_SECONDS
    assert await made(summaries, NEXT, FIRST)
    assert await summaries.read(1) == NEXT


@pytest.mark.promise(172)
async def test_of_two_that_make_it_at_once_one_does(link: RedisConnection) -> None:
    one, other = Summaries(link), Summaries(link)
    token = await one.claim(1, None)
    assert token is not None
    assert await other.claim(1, None) is None
    assert await one.keep(1, token, FIRST)
    assert await other.claim(1, None) is None, "it was made meanwhile"
    assert await other.claim(1, FIRST) is not None


@pytest.mark.promise(173)
async def test_a_claim_that_was_lost_keeps_nothing(link: RedisConnection) -> None:
    summaries = Summaries(link)
    token = await summaries.claim(1, None)
    assert token is not None
    await summaries.drop(1)
    assert not await summaries.keep(1, token, FIRST)
    assert await summaries.read(1) is None


async def test_a_deletion_takes_what_it_went_into_and_no_more(link: RedisConnection) -> None:
    summaries = Summaries(link)
    await made(summaries, FIRST)
    await summaries.drop_covering(1, [15, 31])
    assert await summaries.read(1) == FIRST
    await summaries.drop_covering(1, [31, 20])
    assert await summaries.read(1) is None


async def test_of_a_long_room_the_oldest_messages_count_as_part_of_it() -> None:
    messages = tuple(range(1_000, 1_000 + MAX_MESSAGES))
    long = Summary(text="…", first=5, upto=2_000, messages=messages)
    assert [long.covers(number) for number in (4, 5, 999, 1_000, 1_900)] == [False, True, True, True, False]


@pytest.mark.promise(173)
async def test_who_is_forgotten_takes_the_summaries_of_their_words_and_those_being_made(link: RedisConnection) -> None:
    summaries = Summaries(link)
    await made(summaries, FIRST, thread=1)
    await made(summaries, FIRST.model_copy(update={"people": frozenset({8})}), thread=2)
    token = await summaries.claim(3, None)
    assert token is not None
    assert await summaries.forget_person(7) == 1
    assert await summaries.read(1) is None
    assert await summaries.read(2) is not None
    assert not await summaries.keep(3, token, FIRST)


async def test_who_asked_to_be_forgotten_is_known_with_the_time(link: RedisConnection) -> None:
    await link.call(lambda redis: redis.zadd(keys.COORDINATOR_FORGOTTEN, {"7": 1_700_000_000_500}))
    assert await Summaries(link).forgotten() == {7: 1_700_000_000.5}


@pytest.mark.parametrize("text", ["nonsense", "[1]", '{"text": "x"}'])
async def test_what_cannot_be_read_counts_as_none(link: RedisConnection, text: str) -> None:
    await link.call(lambda redis: redis.set(keys.summary(1), text))
    assert await Summaries(link).read(1) is None


async def test_while_redis_is_away_the_last_one_read_is_shown_and_none_is_made(server: RedisServer) -> None:
    async with RedisConnection(server.url) as link:
        summaries = Summaries(link)
        await made(summaries, FIRST)
        await summaries.read(1)
        server.kill()
        assert await summaries.read(1) == FIRST
        assert await summaries.claim(1, FIRST) is None
        assert not await summaries.keep(1, "token", NEXT)
        assert await summaries.forgotten() is None
        await summaries.drop(1)
        assert await summaries.read(1) is None
        server.start()
        await until(lambda: not link.has_queued)
        assert await Summaries(link).read(1) is None
