"""Messages that nobody asked for, and who wants no more of them, on both kinds of Redis."""

from __future__ import annotations

import pytest

from agentic.state.idle import KEEP_SECONDS, ProactiveMessage, ProactiveMessages
from agentic.wire import keys
from agentic.wire.connection import RedisConnection

ALICE, BIG = 11, 2**63 - 1
SENT = ProactiveMessage(ALICE, "claude", "discover")


async def test_every_process_knows_for_whom_a_message_was(link: RedisConnection):
    await ProactiveMessages(link).note([5, BIG], SENT)
    there = ProactiveMessages(link)
    assert [await there.read(message) for message in (5, BIG, 6)] == [SENT, SENT, None]
    assert 0 < await link.commands.ttl(keys.unasked(BIG)) <= KEEP_SECONDS


async def test_what_cannot_be_read_was_asked_for(link: RedisConnection):
    await link.commands.set(keys.unasked(5), "nonsense")
    assert await ProactiveMessages(link).read(5) is None


@pytest.mark.promise(452)
async def test_a_no_counts_in_every_process_at_once_and_the_first_to_hear_it_knows_that(link: RedisConnection):
    here, there = ProactiveMessages(link), ProactiveMessages(link)
    assert [await here.refuse(ALICE), await there.refuse(ALICE)] == [True, False]
    assert [await there.is_unwanted(ALICE), await there.is_unwanted(12)] == [True, False]
    assert 0 < await link.commands.ttl(keys.unwanted(ALICE)) <= KEEP_SECONDS
    await there.allow(ALICE)
    assert not await here.is_unwanted(ALICE)
    assert await here.refuse(ALICE)


@pytest.mark.promise(452)
async def test_while_redis_is_away_a_no_counts_here_and_is_written_later(link: RedisConnection):
    here = ProactiveMessages(link)
    link.present.clear()
    await here.note([5], SENT)
    assert await here.read(5) == SENT
    assert [await here.refuse(ALICE), await here.refuse(ALICE), await here.is_unwanted(ALICE)] == [True, False, True]
    assert await here.is_unwanted(12)  # nobody knows
    link.present.set()
    await link.write_queued()
    assert await ProactiveMessages(link).is_unwanted(ALICE)


async def test_the_last_word_while_redis_is_away_is_written(link: RedisConnection):
    here = ProactiveMessages(link)
    await here.refuse(ALICE)
    link.present.clear()
    await here.allow(ALICE)
    assert not await here.is_unwanted(ALICE)
    link.present.set()
    await link.write_queued()
    assert not await ProactiveMessages(link).is_unwanted(ALICE)
