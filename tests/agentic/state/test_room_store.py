"""Rooms in Redis: written with their conversation by its holder alone, read by everybody, bounded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from agentic.state import rooms as room_store
from agentic.state.conversation_state import ConversationState
from agentic.state.conversations import ConversationStore
from agentic.state.rooms import DEFAULT_POLICY, ROOM_SECONDS, Room, RoomMarks, RoomMember, RoomStore
from agentic.state.schedule import ScheduleStore
from agentic.wire import keys
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import RoomNotice
from tests.support.redis_server import until

MEMBERS = (RoomMember(name="claude", shown="Claude"), RoomMember(name="historian", shown="The Historian"))
ROOM = Room(thread_id=5, channel_id=1, conversation_id="c", topic="tea", members=MEMBERS, changed_at=1_800_000_000.0)


def room(thread_id: int, **changes: object) -> Room:
    fields = {"thread_id": thread_id, "changed_at": 1_800_000_000.0 + thread_id, **changes}
    return ROOM.model_copy(update=fields)


async def keep(link: RedisConnection, kept: Room, state: str | None = "{}", epoch: int = 0) -> bool:
    await ScheduleStore(link).hold_channel(kept.thread_id, kept.conversation_id, 60.0, epoch)
    return await ConversationStore(link).keep(kept.thread_id, kept.conversation_id, state, epoch, kept)


async def test_a_room_is_written_with_its_conversations_state_and_lasts_as_long(link: RedisConnection) -> None:
    state = ConversationState("c", 5, "casual", started_at=0.0, room=ROOM)
    assert await keep(link, ROOM, state.to_json())
    assert await RoomStore(link).read(5) == ROOM
    assert await ConversationStore(link).kept() == [replace(state, theme=ROOM.theme)]
    for key in (keys.room(5), keys.conversation_state(5), keys.COORDINATOR_ROOMS):
        assert ROOM_SECONDS - 60 < await link.call(lambda redis, key=key: redis.ttl(key)) <= ROOM_SECONDS, key


async def test_a_room_in_which_nothing_runs_has_no_state(link: RedisConnection) -> None:
    await keep(link, ROOM)
    assert await keep(link, ROOM.ended("paused"), None)
    assert await ConversationStore(link).kept() == []
    kept = await RoomStore(link).read(5)
    assert kept is not None
    assert (kept.status, kept.why) == ("paused", "paused")


async def test_a_holder_of_an_earlier_epoch_writes_no_room(link: RedisConnection) -> None:
    assert await keep(link, ROOM, epoch=1)
    await link.call(lambda redis: redis.set(keys.epoch(keys.COORDINATOR_OWNER), "2"))
    late = ROOM.model_copy(update={"turn_number": 9})
    assert not await ConversationStore(link).keep(5, "c", "{}", 1, late)
    assert await RoomStore(link).read(5) == ROOM


async def test_each_change_is_published_once(address, link: RedisConnection, open_bus) -> None:
    bus, heard = await open_bus(address), list[str]()
    bus.subscribe(keys.ROOM_NOTICES, heard.append)
    await until(bus.ready.is_set)
    for turn_number in (0, 0, 1):
        await keep(link, room(5, turn_number=turn_number))
    await keep(link, room(6))
    await until(lambda: len(heard) == 3)
    assert [RoomNotice.model_validate_json(raw).thread_id for raw in heard] == [5, 5, 6]


async def test_rooms_are_listed_by_status_the_last_changed_first(link: RedisConnection, monkeypatch) -> None:
    monkeypatch.setattr(room_store, "PAGE", 2)
    for number in range(1, 8):
        await keep(link, room(number, status="paused" if number % 3 == 0 else "active"))
    store = RoomStore(link)
    assert [each.thread_id for each in await store.list()] == [7, 6, 5, 4, 3, 2, 1]
    assert [each.thread_id for each in await store.list("paused")] == [6, 3]
    assert [each.thread_id for each in await store.list("active", 3)] == [7, 5, 4]
    await keep(link, room(1, changed_at=1_800_000_100.0))
    assert [each.thread_id for each in await store.list(limit=2)] == [1, 7]


async def test_the_index_forgets_rooms_that_have_expired_and_the_oldest_beyond_its_bound(link, monkeypatch) -> None:
    monkeypatch.setattr(room_store, "MAX_ROOMS", 3)
    await keep(link, room(1, changed_at=ROOM.changed_at - ROOM_SECONDS - 10))
    for number in (2, 3):
        await keep(link, room(number))
    assert [each.thread_id for each in await RoomStore(link).list()] == [3, 2]
    for number in (4, 5):
        await keep(link, room(number))
    assert [each.thread_id for each in await RoomStore(link).list()] == [5, 4, 3]


async def put(link: RedisConnection, text: str) -> Room | None:
    await link.call(lambda redis: redis.set(keys.room(5), text))
    return await RoomStore(link).read(5)


async def test_a_room_of_another_version_is_read_as_far_as_this_one_knows_it(link: RedisConnection) -> None:
    newer = json.loads(ROOM.model_dump_json()) | {"policy": "by-lot", "mood": "calm", "left": [{"name": 5}]}
    read = await put(link, json.dumps(newer))
    assert read is not None
    assert (read.policy, read.left, read.topic) == (DEFAULT_POLICY, (), "tea")
    older = {name: newer[name] for name in ("thread_id", "channel_id", "conversation_id", "topic", "members")}
    assert await put(link, json.dumps(older)) == Room(**{**older, "members": MEMBERS})


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"thread_id": 5}', '{"topic": NaN}'])
async def test_what_is_no_room_is_none_and_is_logged(link: RedisConnection, caplog, text: str) -> None:
    assert await put(link, text) is None
    assert "thread 5 can't be read" in caplog.text


async def test_a_room_whose_status_is_unknown_is_not_taken_for_an_active_one(link: RedisConnection) -> None:
    assert await put(link, ROOM.model_dump_json().replace('"active"', '"asleep"')) is None


async def test_a_deleted_room_leaves_nothing_and_another_one_stays(link: RedisConnection) -> None:
    state = ConversationState("c", 5, "casual", started_at=0.0, room=ROOM).to_json()
    for each in (ROOM, room(6)):
        await keep(link, each, state)
        await RoomMarks(link).set(each.thread_id, standing="paused")
        for key in (keys.summary, keys.pulls, keys.past_pulls):
            await link.commands.set(key(each.thread_id), "x")
        await link.commands.set(keys.window("ada", each.thread_id, "room"), "x")
        await link.commands.set(keys.session("ada", each.thread_id), "x")
    await RoomStore(link).delete(5, ["ada"])
    left = {key async for page in link.scan("coordinator:*") for key in page}
    assert not {key for key in left if key.endswith(":5") and key != keys.conversation(5)}
    assert [each.thread_id for each in await RoomStore(link).list()] == [6]
    everywhere = {key async for page in link.scan("*") for key in page}
    assert not {keys.window("ada", 5, "room"), keys.session("ada", 5)} & everywhere
    kept = {key(6) for key in (keys.room, keys.room_marks, keys.conversation_state, keys.summary, keys.pulls)}
    assert kept | {keys.window("ada", 6, "room"), keys.session("ada", 6)} <= everywhere
