import pytest

from agentic.state.presence import MAX_BACKOFF_SECONDS, BackoffStore
from agentic.wire import keys


@pytest.fixture
def rests(link, clock):
    return BackoffStore(link, clock)


async def test_a_rest_is_seen_by_every_process_and_its_key_goes_with_it(link, rests, clock):
    await rests.put("claude", clock() + 600)
    assert await BackoffStore(link, clock).until("claude") == clock() + 600
    assert await rests.read(["claude", "grok"]) == {"claude": clock() + 600}
    assert 590 <= await link.call(lambda redis: redis.ttl(keys.bench("claude"))) <= 600
    clock.now += 600
    assert (await rests.until("claude"), await rests.read([])) == (None, {})


async def test_a_rest_that_is_over_is_not_kept(link, rests, clock):
    await rests.put("claude", clock())
    assert await link.call(lambda redis: redis.exists(keys.bench("claude"))) == 0


async def test_no_rest_is_longer_than_an_hour(link, rests, clock):
    await rests.put("claude", clock() + 1e9)
    assert await rests.until("claude") == clock() + MAX_BACKOFF_SECONDS
    assert await link.call(lambda redis: redis.ttl(keys.bench("claude"))) <= MAX_BACKOFF_SECONDS


@pytest.mark.parametrize("text", ["nonsense", "nan", "inf", ""])
async def test_a_rest_that_cannot_be_read_is_none(link, rests, caplog, text):
    await link.call(lambda redis: redis.set(keys.bench("claude"), text))
    assert await rests.until("claude") is None
    assert "can't read" in caplog.text
