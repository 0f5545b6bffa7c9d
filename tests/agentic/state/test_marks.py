"""Marks of a room's thread: they outlive the process, and what cannot be read counts as not done."""

from agentic.state.rooms import MARK_SECONDS, Marks, RoomMarks
from agentic.wire import keys

THREAD = 50


async def test_marks_are_kept_one_by_one_and_expire(link):
    await RoomMarks(link).set(THREAD, standing="paused stopped", locked=True)
    await RoomMarks(link).set(THREAD, locked=False, slot=1_790_000_000.25)
    assert await RoomMarks(link).read(THREAD) == Marks(standing="paused stopped", slot=1_790_000_000.25)
    left = await link.call(lambda redis: redis.ttl(keys.room_marks(THREAD)))
    assert 0 < left <= MARK_SECONDS


async def test_our_lock_is_known_to_every_process(link):
    await RoomMarks(link).set(THREAD, locked=True)
    assert (await RoomMarks(link).read(THREAD)).locked
    assert not (await RoomMarks(link).read(THREAD + 1)).locked


async def test_marks_of_another_version_count_as_not_made(link, caplog):
    await link.call(lambda redis: redis.hset(keys.room_marks(THREAD), mapping={"slot": "soon"}))
    assert await RoomMarks(link).read(THREAD) == Marks()
    assert f"the marks of room {THREAD} can't be read" in caplog.text
