"""What our webhooks posted, and what was told once, on both kinds of Redis."""

from __future__ import annotations

import pytest

from agentic.state.posts import MAX_POSTS, WEBHOOK_SECONDS, Notices, PostClaims, WebhookPosts
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.agentic.conftest import Clock

CHANNEL, OTHER = 7, 8
BIG = 2**63 - 1  # ids are no floats


async def test_every_process_knows_the_posts_of_a_channel(link: RedisConnection, clock: Clock):
    here, there = WebhookPosts(link, clock), WebhookPosts(link, clock)
    await here.add(CHANNEL, BIG, "claude")
    await there.add(CHANNEL, BIG - 1, "grok")
    await there.add(OTHER, 3, "grok")
    assert await here.read(CHANNEL) == {BIG: "claude", BIG - 1: "grok"}
    assert 0 < await link.commands.ttl(keys.webhook_posts(CHANNEL)) <= WEBHOOK_SECONDS


async def test_a_post_is_announced_to_all_processes(link: RedisConnection, clock: Clock):
    async with link.commands.pubsub() as heard:
        await heard.subscribe(keys.WEBHOOK_POSTED)
        await heard.get_message(timeout=5)
        await WebhookPosts(link, clock).add(CHANNEL, BIG, "historian")
        message = await heard.get_message(ignore_subscribe_messages=True, timeout=5)
    assert message is not None
    assert message["data"] == f"{BIG} historian"


async def test_only_the_newest_posts_are_kept(link: RedisConnection, clock: Clock):
    posts = WebhookPosts(link, clock)
    async with link.commands.pipeline() as pipe:
        for number in range(MAX_POSTS):
            pipe.zadd(keys.webhook_posts(CHANNEL), {f"{number} claude": number})
        await pipe.execute()
    await posts.add(CHANNEL, BIG, "claude")
    kept = await posts.read(CHANNEL)
    assert (len(kept), 0 in kept, BIG in kept) == (MAX_POSTS, False, True)


async def test_what_cannot_be_read_is_left_out(link: RedisConnection, clock: Clock):
    await link.commands.zadd(keys.webhook_posts(CHANNEL), {"nonsense": 1, "5 claude": 2, "6 ": 3})
    assert await WebhookPosts(link, clock).read(CHANNEL) == {5: "claude"}


async def test_while_redis_is_away_a_process_knows_its_own_and_writes_them_later(link: RedisConnection, clock: Clock):
    posts = WebhookPosts(link, clock)
    link.present.clear()
    await posts.add(CHANNEL, 1, "claude")
    assert await posts.read(CHANNEL) == {1: "claude"}
    link.present.set()
    await posts.add(CHANNEL, 2, "claude")
    assert await WebhookPosts(link, clock).read(CHANNEL) == {1: "claude", 2: "claude"}


async def test_of_all_processes_one_tells_what_is_wrong_and_once(link: RedisConnection):
    here, there = Notices(link), Notices(link)
    assert [await here.first(5, "no such mode"), await there.first(5, "no such mode")] == [True, False]
    assert not await here.first(5, "no such mode")
    assert await there.first(5, "another fault")
    assert await there.first(6, "no such mode")


async def test_while_redis_is_away_a_process_tells_it_once(link: RedisConnection):
    notices = Notices(link)
    link.present.clear()
    assert [await notices.first(5, "x"), await notices.first(5, "x")] == [True, False]
    link.present.set()


@pytest.mark.promise(484)
async def test_a_part_that_was_not_sent_may_be_claimed_by_the_process_that_takes_over(link: RedisConnection):
    here, there = PostClaims(link), PostClaims(link)
    assert [await here.first("penny", "m1/0"), await there.first("penny", "m1/0")] == [True, False]
    await here.give_up("penny", "m1/0")
    takes_over = PostClaims(link)
    assert [await takes_over.first("penny", "m1/0"), await here.first("penny", "m1/0")] == [True, False]


@pytest.mark.promise(484)
async def test_a_claim_of_another_process_is_not_given_up_nor_one_without_redis(link: RedisConnection):
    here, there = PostClaims(link), PostClaims(link)
    assert await there.first("penny", "m1/0")
    await here.give_up("penny", "m1/0")
    assert not await here.first("penny", "m1/0")
    assert await here.first("penny", "m2/0")
    link.present.clear()
    await here.give_up("penny", "m2/0")
    assert not await here.first("penny", "m2/0")
    link.present.set()
    assert not await there.first("penny", "m2/0")
