"""How often a memory may be changed in a day."""

from agentic.state.limits import COUNT_SECONDS, MemoryQuota
from agentic.wire.connection import StateUnavailable

DAY, NEXT = "2026-11-20", "2026-11-21"


async def taken(writes, *, day=DAY, person=5, most=2, times=3):
    return [await writes.take("claude", day, person, most) for _ in range(times)]


async def test_each_person_has_so_many_a_day_over_processes(link):
    assert await taken(MemoryQuota(link)) == [True, True, False]
    other = MemoryQuota(link)
    assert await taken(other, times=1) == [False], "another process, or the same after a restart"
    assert await taken(other, person=6, times=1) == [True]
    assert await taken(other, person=None, times=1) == [True]
    assert await taken(other, day=NEXT, times=1) == [True]
    left = await link.call(lambda redis: redis.ttl(f"agent:claude:memory_writes:{DAY}"))
    assert 0 < left <= COUNT_SECONDS


async def test_none_is_none(link):
    assert await taken(MemoryQuota(link), most=0, times=1) == [False]


class Away:
    async def batch(self, fill, *, transaction=False):
        raise StateUnavailable("gone")


async def test_while_redis_is_away_this_process_counts():
    assert await taken(MemoryQuota(Away())) == [True, True, False]
