from __future__ import annotations

from fakeredis import FakeServer

from agent_protocol import keys
from agent_protocol.connection import RedisLink
from agent_protocol.instructed import KEEP_SECONDS, MOST_POSTS, Instructed


async def test_every_process_knows_which_posts_came_by_instruction_and_which_joined_in(link: RedisLink) -> None:
    await Instructed(link).add(7, (1_200_000_000_000_000_001, 5))
    await Instructed(link).add(7, (6,), joining=True)
    assert await Instructed(link).read(7) == {1_200_000_000_000_000_001: False, 5: False, 6: True}
    assert await Instructed(link).read(8) == {}
    left = await link.call(lambda redis: redis.ttl(keys.instructed(7)))
    assert KEEP_SECONDS - 5 <= left <= KEEP_SECONDS


async def test_the_newest_of_a_channel_are_kept(link: RedisLink) -> None:
    now = [0.0]
    posts = Instructed(link, lambda: now[0])
    for number in range(MOST_POSTS // 100 + 1):
        now[0] += 1
        await posts.add(7, range(number * 100, number * 100 + 100))
    assert min(await Instructed(link).read(7)) == 100


async def test_without_redis_a_process_knows_its_own(link: RedisLink) -> None:
    server = FakeServer()
    server.connected = False
    async with RedisLink(server) as away:
        posts = Instructed(away)
        await posts.add(7, (5,))
        assert await posts.read(7) == {5: False}
