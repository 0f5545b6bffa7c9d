"""Pictures that are drawn and not posted yet, over real and in-process Redis."""

from __future__ import annotations

import pytest

from agentic.state.drawn_images import MAX_BYTES, PIECE_BYTES
from agentic.state.shared_state import SharedState
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from tests.support.redis_server import PATIENT, RedisServer

PICTURE = bytes(range(256)) * 2000  # three pieces
KEY = keys.turn_picture("claude", "t1")


@pytest.fixture
def state(link, clock) -> SharedState:
    return SharedState(link, clock, holder="here")


async def claimed(state: SharedState, clock) -> SharedState:
    await state.turns.claim("claude", "t1", clock() + 90)
    return state


@pytest.mark.parametrize("size", [1, PIECE_BYTES, PIECE_BYTES + 1, len(PICTURE)])
async def test_a_picture_comes_back_byte_for_byte_in_the_process_that_goes_on(state, link, clock, size):
    await claimed(state, clock)
    assert await state.turns.drawn_images.keep("claude", "t1", PICTURE[:size])
    after = SharedState(link, clock, holder="after")
    await after.turns.claim("claude", "t1", clock() + 90)
    assert await after.turns.drawn_images.read("claude", "t1", size) == PICTURE[:size]


async def test_it_lives_as_long_as_its_turn_and_is_gone_with_its_end(state, link, clock):
    await claimed(state, clock)
    await state.turns.drawn_images.keep("claude", "t1", PICTURE)
    record, picture = [await link.call(lambda r, k=k: r.pttl(k)) for k in (keys.turn("claude", "t1"), KEY)]
    assert 0 < picture <= record + 5
    await state.turns.settle("claude", "t1", "{}", clock() + 90)
    assert not await link.call(lambda redis: redis.exists(KEY))
    assert await state.turns.drawn_images.read("claude", "t1", len(PICTURE)) is None


async def test_a_picture_that_lacks_a_piece_or_is_another_size_is_none(state, link, clock):
    await claimed(state, clock)
    await state.turns.drawn_images.keep("claude", "t1", PICTURE)
    assert await state.turns.drawn_images.read("claude", "t1", len(PICTURE) - 1) is None
    await link.call(lambda redis: redis.rpop(KEY))
    assert await state.turns.drawn_images.read("claude", "t1", len(PICTURE)) is None


async def test_what_is_too_large_or_of_no_open_turn_is_not_kept(state, link, clock):
    assert not await state.turns.drawn_images.keep("claude", "t1", PICTURE)  # nobody began that turn
    await claimed(state, clock)
    assert not await state.turns.drawn_images.keep("claude", "t1", bytes(MAX_BYTES + 1))
    assert not await link.call(lambda redis: redis.exists(KEY))


async def test_who_lost_the_turn_writes_over_nothing(state, link, clock):
    await claimed(state, clock)
    after = await claimed(SharedState(link, clock, holder="after"), clock)
    assert await after.turns.drawn_images.keep("claude", "t1", PICTURE)
    assert not await state.turns.drawn_images.keep("claude", "t1", b"another")
    assert await after.turns.drawn_images.read("claude", "t1", len(PICTURE)) == PICTURE


async def test_the_same_turn_may_draw_again(state, clock):
    await claimed(state, clock)
    for picture in (PICTURE, PICTURE[::-1]):
        assert await state.turns.drawn_images.keep("claude", "t1", picture)
    assert await state.turns.drawn_images.read("claude", "t1", len(PICTURE)) == PICTURE[::-1]


async def test_while_redis_is_away_nothing_is_kept_and_nobody_waits(server: RedisServer, clock):
    async with RedisConnection(server.url, command_timeout=PATIENT) as link:
        state = await claimed(SharedState(link, clock, holder="here"), clock)
        server.kill()
        assert not await state.turns.drawn_images.keep("claude", "t1", PICTURE)
        assert await state.turns.drawn_images.read("claude", "t1", len(PICTURE)) is None
