from __future__ import annotations

from collections.abc import Iterable

import pytest

from agentic.state.posts import INSTRUCTED_SECONDS, MAX_POSTS, InstructedPosts
from agentic.state.shared_state import SharedState
from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import RedisServer


async def ended(
    state: SharedState, channel_id: int, posted: Iterable[int], *, kind: str = "instruction", trigger: str = "round"
) -> None:
    posts = tuple(posted)
    turn = f"{kind}-{channel_id}-{posts}"
    record = TurnRecord(id=turn, agent="claude", kind=kind, trigger=trigger, channel_id=channel_id, posted=posts)
    await state.turns.settle("claude", turn, "{}", 1e10, record=record)


async def test_every_process_knows_which_posts_came_by_instruction_and_which_joined_in(link: RedisConnection) -> None:
    await ended(SharedState(link), 7, (1_200_000_000_000_000_001, 5))
    await ended(SharedState(link), 7, (6,), trigger="reactive")
    await ended(SharedState(link), 7, (9,), kind="mention", trigger="mention")
    assert await InstructedPosts(link).read(7) == {1_200_000_000_000_000_001: False, 5: False, 6: True}
    assert await InstructedPosts(link).read(8) == {}
    left = await link.call(lambda redis: redis.ttl(keys.instructed(7)))
    assert INSTRUCTED_SECONDS - 5 <= left <= INSTRUCTED_SECONDS


async def test_the_newest_of_a_channel_are_kept(link: RedisConnection) -> None:
    now = [0.0]
    state = SharedState(link, lambda: now[0])
    for number in range(MAX_POSTS // 100 + 1):
        now[0] += 1
        await ended(state, 7, range(number * 100, number * 100 + 100))
    assert min(await InstructedPosts(link).read(7)) == 100


@pytest.mark.parametrize(
    "of_another_maker", [lambda redis, key: redis.set(key, "x"), lambda redis, key: redis.lpush(key, 1)]
)
async def test_a_foreign_value_under_the_name_stops_no_turn_from_ending(
    link: RedisConnection, of_another_maker
) -> None:
    await link.call(lambda redis: of_another_maker(redis, keys.instructed(7)))
    await ended(SharedState(link), 7, (5,))
    assert await InstructedPosts(link).read(7) == {5: False}


async def test_without_redis_a_process_knows_its_own(server: RedisServer) -> None:
    server.kill()
    async with RedisConnection(server.url) as away:
        state = SharedState(away)
        await ended(state, 7, (5,))
        assert await state.posts.instructed.read(7) == {5: False}
