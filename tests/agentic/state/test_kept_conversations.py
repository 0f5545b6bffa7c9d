"""Kept conversations: only who holds a channel keeps its conversation, and a former leader changes nothing."""

from __future__ import annotations

import pytest

from agentic.state.conversation_state import ConversationState, SpeakerQueue
from agentic.state.conversations import ConversationStore
from agentic.state.leases import Lease
from agentic.state.rooms import Room, RoomStatus
from agentic.state.schedule import ScheduleStore
from agentic.wire import keys
from agentic.wire.connection import RedisConnection

CHANNEL, OTHER = 7, 8


def text(conversation_id: str) -> str:
    return ConversationState(conversation_id, CHANNEL, "debate", started_at=0.0).to_json()


async def kept_ids(conversations: ConversationStore) -> list[str]:
    return sorted(state.id for state in await conversations.kept())


async def test_a_conversation_is_kept_by_who_holds_its_channel(link: RedisConnection):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    assert not await conversations.keep(CHANNEL, "c1", "{}"), "nobody holds the channel"
    await agenda.hold_channel(CHANNEL, "c1", 60.0)
    assert await conversations.keep(CHANNEL, "c1", text("one"))
    assert not await conversations.keep(CHANNEL, "c2", text("two"))
    assert await kept_ids(conversations) == ["one"]
    assert 0 < await link.commands.ttl(keys.conversation_state(CHANNEL)) <= 3600


@pytest.mark.parametrize(
    ("status", "asking", "runs"),
    [("active", None, True), ("paused", None, False), ("closed", None, False), ("paused", "i", True)],
)
async def test_a_room_that_rests_has_no_running_conversation(
    link: RedisConnection, status: RoomStatus, asking: str | None, runs: bool
):
    conversations = ConversationStore(link)
    room = Room(thread_id=CHANNEL, channel_id=OTHER, conversation_id="c1", topic="tea", members=(), status=status)
    queue = SpeakerQueue(pending=("claude",), asking=asking)
    state = ConversationState("c1", CHANNEL, "debate", started_at=0.0, room=room, queue=queue)
    assert await conversations.keep(CHANNEL, "c1", state.to_json(), room=room, hold=60.0)
    assert (await conversations.read(CHANNEL) is not None) == runs
    assert list(await conversations.read_all([CHANNEL])) == [CHANNEL] * runs
    assert await conversations.read(CHANNEL, at_rest=True) == state


async def leads(link: RedisConnection, holder: str) -> int:
    """Somebody takes the coordinator's lease, whose last holder is paused; its epoch."""
    await link.call(lambda redis: redis.delete(keys.COORDINATOR_OWNER))
    lease = Lease(link, keys.COORDINATOR_OWNER, holder=holder)
    assert await lease.acquire()
    return lease.epoch


@pytest.mark.promise(105)
async def test_a_leader_that_was_paused_can_neither_renew_nor_keep_nor_end_what_its_successor_goes_on_with(
    link: RedisConnection,
):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    old = await leads(link, "old")
    assert await agenda.hold_channel(CHANNEL, "c1", 60.0, old)
    assert await conversations.keep(CHANNEL, "c1", text("one"), old)
    new = await leads(link, "new")
    assert not await agenda.hold_channel(CHANNEL, "c1", 60.0, old), "it may not even renew what nobody took yet"
    assert not await conversations.keep(CHANNEL, "c1", text("old two"), old)
    await agenda.release_all_channels()
    assert not await agenda.hold_channel(CHANNEL, "c1", 60.0, old)
    assert await agenda.hold_channel(CHANNEL, "c1", 60.0, new)
    assert await conversations.keep(CHANNEL, "c1", text("two"), new)
    await agenda.release_channel(CHANNEL, "c1", old)
    await conversations.drop(CHANNEL, "c1", old)
    assert await kept_ids(conversations) == ["two"]
    assert not await agenda.hold_channel(CHANNEL, "c2", 60.0, new), "still held"
    await conversations.drop(CHANNEL, "c1", new)
    assert await kept_ids(conversations) == []


async def test_a_hold_of_another_epoch_is_anothers_also_where_redis_forgot_who_leads(link: RedisConnection):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    assert await agenda.hold_channel(CHANNEL, "c1", 60.0, 5)
    assert not await agenda.hold_channel(CHANNEL, "c1", 60.0, 4)
    assert not await conversations.keep(CHANNEL, "c1", "old", 4)


async def test_freeing_all_channels_leaves_what_was_kept(link: RedisConnection):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    for channel in (CHANNEL, OTHER):
        await agenda.hold_channel(channel, f"c{channel}", 60.0)
        await conversations.keep(channel, f"c{channel}", text(str(channel)))
    await agenda.release_all_channels()
    assert await kept_ids(conversations) == ["7", "8"]


async def test_only_its_own_conversation_is_dropped(link: RedisConnection):
    agenda, conversations = ScheduleStore(link), ConversationStore(link)
    await agenda.hold_channel(CHANNEL, "c1", 60.0)
    await conversations.keep(CHANNEL, "c1", text("one"))
    await conversations.drop(CHANNEL, "c0")
    assert await kept_ids(conversations) == ["one"]
    await conversations.drop(CHANNEL, "c1")
    assert await kept_ids(conversations) == []


async def test_keeping_may_hold_the_channel_too_if_nobody_else_does(link: RedisConnection):
    conversations = ConversationStore(link)
    assert await conversations.keep(CHANNEL, "c1", text("one"), hold=60.0), "Redis has lost the hold"
    assert 50 < await link.commands.ttl(keys.conversation(CHANNEL)) <= 60
    assert await conversations.keep(CHANNEL, "c1", text("two"), hold=90.0)
    assert 80 < await link.commands.ttl(keys.conversation(CHANNEL)) <= 90
    assert not await conversations.keep(CHANNEL, "c2", text("other"), hold=60.0), "another conversation holds it"
    assert await kept_ids(conversations) == ["two"]


async def test_what_another_version_kept_is_left_out(link: RedisConnection, caplog: pytest.LogCaptureFixture):
    conversations = ConversationStore(link)
    for channel, stored in ((CHANNEL, '{"of": "another version"}'), (OTHER, text("one"))):
        assert await conversations.keep(channel, "c1", stored, hold=60.0)
    assert await kept_ids(conversations) == ["one"]
    assert "1 stored conversations can't be resumed" in caplog.text
