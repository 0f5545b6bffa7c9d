"""Which changes of threads and channels pause a room, and why."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from agentic.chat.outlet import CannotPost
from agentic.rooms.room_bot import ThreadNow
from agentic.rooms.thread_watch import ThreadWatch
from agentic.state.conversation_state import ConversationState
from agentic.state.conversations import ConversationStore
from agentic.state.leases import ConditionalLease
from agentic.state.rooms import Room, RoomMarks, RoomStore
from agentic.state.talk import PersonMessage
from agentic.wire import keys
from agentic.wire.bus import NOBODY
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.messages import Command
from tests.support.redis_server import PATIENT, empty_redis
from tests.support.slash_scene import GUILD, LOUNGE, THREAD, a_room, write_room

OTHER = THREAD + 1


class Scene:
    """A watch of Grok's over rooms in Redis; `paused` are the threads and reasons that it ordered."""

    def __init__(self, link: RedisConnection) -> None:
        self.link, self.marks, self.acts, self.writes = link, RoomMarks(link), True, True
        self.paused, self.outcome = list[tuple[int, str]](), "room_paused"
        stores = SimpleNamespace(rooms=RoomStore(link), room_marks=self.marks, conversations=ConversationStore(link))
        state = SimpleNamespace(coordination=stores)
        services: Any = SimpleNamespace(state=state, bus=SimpleNamespace(orders=self))
        bot: Any = SimpleNamespace(
            agent="grok",
            may_write_in_threads=lambda _: self.writes,
            read_thread=self.read_thread,
            find_deleted=self.find_deleted,
        )
        self.watch = ThreadWatch(services, bot, lease=ConditionalLease(lambda: self.acts))
        self.now = dict[int, ThreadNow]()
        self.deleted: CannotPost | list[int] = []
        self.withdrawn = list[tuple[int, ...]]()

    async def read_thread(self, channel_id: int, thread_id: int) -> ThreadNow | None:
        return self.now.get(thread_id)

    async def find_deleted(self, channel_id: int, thread_id: int, message_ids: list[int]) -> list[int]:
        if isinstance(self.deleted, CannotPost):
            raise self.deleted
        return [each for each in message_ids if each in self.deleted]

    async def hears(self, *texts: str) -> None:
        """Store a running conversation in which people wrote these messages, from 900 on."""
        room = a_room()
        state = ConversationState(room.conversation_id, THREAD, "debate", 0.0, room=room)
        for number, text in enumerate(texts, 900):
            state = state.hear(PersonMessage(number, text, asks=text.endswith("?")))
        key = keys.conversation_state(THREAD)
        await self.link.call(lambda redis: redis.hset(key, "state", state.to_json()))

    async def give(self, command: Command) -> str:
        assert command.channel_id is not None
        assert command.room is not None
        if command.command == "room-withdraw":
            self.withdrawn.append(command.room.deleted)
            return "withdrawn"
        assert command.command == "room-pause"
        self.paused.append((command.channel_id, command.room.reason or ""))
        return self.outcome


@asynccontextmanager
async def a_watch(*rooms: Room) -> AsyncIterator[Scene]:
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as link:
        for room in rooms or (a_room(),):
            await write_room(link, room)
        yield Scene(link)


@pytest.mark.promise(272)
@pytest.mark.parametrize(
    ("archived", "locked", "paused"),
    [(True, False, ["archived"]), (False, True, ["locked"]), (True, True, ["locked"]), (False, False, [])],
)
async def test_an_archived_or_locked_thread_pauses_its_room(archived: bool, locked: bool, paused: list[str]):
    async with a_watch() as scene:
        await scene.watch.changed(THREAD, archived=archived, locked=locked)
        assert [reason for _, reason in scene.paused] == paused


@pytest.mark.promise(272)
@pytest.mark.parametrize(("mark", "now"), [("locked", {"locked": True}), ("archived", {"archived": True})])
async def test_a_lock_and_an_archive_of_our_own_pause_nothing(mark: str, now: dict[str, bool]):
    async with a_watch() as scene:
        await scene.marks.set(THREAD, **{mark: True})
        await scene.watch.changed(THREAD, **{"archived": False, "locked": False, **now})
        assert scene.paused == []


async def test_a_thread_that_is_no_room_or_does_not_run_is_left_alone():
    async with a_watch(a_room(status="paused"), a_room(OTHER, status="closed")) as scene:
        for thread_id in (THREAD, OTHER, 999):
            await scene.watch.changed(thread_id, archived=True, locked=True)
        assert scene.paused == []


async def test_a_deleted_thread_ends_its_room_whatever_its_standing():
    async with a_watch(a_room(status="closed")) as scene:
        await scene.watch.deleted(THREAD)
        await scene.watch.deleted(999)
        assert scene.paused == [(THREAD, "deleted")]


@pytest.mark.promise(272)
async def test_a_deleted_channel_ends_the_rooms_below_it_whatever_their_standing():
    elsewhere, gone = a_room(OTHER + 1, channel_id=LOUNGE + 1), a_room(OTHER + 2, status="paused", why="deleted")
    async with a_watch(a_room(), a_room(OTHER, status="closed"), elsewhere, gone) as scene:
        await scene.watch.channel_deleted(LOUNGE)
        assert sorted(scene.paused) == [(THREAD, "deleted"), (OTHER, "deleted")]


@pytest.mark.promise(272)
async def test_lost_permissions_pause_the_rooms_in_which_the_bot_takes_part():
    elsewhere = a_room(OTHER + 1, guild_id=GUILD + 1)
    async with a_watch(a_room(), a_room(OTHER, members=a_room().members[:1]), elsewhere) as scene:
        await scene.watch.permissions_changed(GUILD)
        assert scene.paused == []
        scene.writes = False
        await scene.watch.permissions_changed(GUILD)
        assert scene.paused == [(THREAD, "no_access")]


@pytest.mark.promise(276)
@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (ThreadNow(), []),
        (ThreadNow(archived=True), []),
        (ThreadNow(archived=True, locked=True), ["locked"]),
        (ThreadNow(deleted=True), ["deleted"]),
        (None, []),
    ],
)
async def test_what_happened_to_a_thread_while_the_bot_was_away_pauses_its_room(now: ThreadNow | None, reason):
    async with a_watch(a_room(), a_room(thread_id=OTHER, status="paused", why="stopped")) as scene:
        scene.now = {THREAD: now, OTHER: ThreadNow(deleted=True)} if now is not None else {}
        await scene.watch.came_back()
        assert [each for each in scene.paused if each[0] == THREAD] == [(THREAD, each) for each in reason]
        gone = [each for each in scene.paused if each[0] == OTHER]
        assert gone == ([] if now is None else [(OTHER, "deleted")]), "a paused room hears of its end too"


@pytest.mark.parametrize(
    ("deleted", "withdrawn"), [([900, 901], [(900,)]), ([], []), (CannotPost("not_permitted"), [])]
)
async def test_questions_deleted_while_the_bot_was_away_are_withdrawn(deleted: Any, withdrawn: list[tuple[int, ...]]):
    async with a_watch() as scene:
        await scene.hears("Who pays?", "lol", "Since when?")
        scene.now, scene.deleted = {THREAD: ThreadNow()}, deleted
        await scene.watch.came_back()
        assert scene.withdrawn == withdrawn


async def test_a_process_that_does_not_act_for_the_bot_keeps_still():
    async with a_watch() as scene:
        scene.acts, scene.writes = False, False
        await scene.watch.changed(THREAD, archived=True, locked=False)
        await scene.watch.deleted(THREAD)
        await scene.watch.channel_deleted(LOUNGE)
        await scene.watch.permissions_changed(GUILD)
        assert scene.paused == []


async def test_a_coordinator_that_does_not_answer_and_a_redis_that_is_away_are_a_line_in_the_log(caplog, monkeypatch):
    async with a_watch() as scene:
        scene.outcome = NOBODY
        await scene.watch.deleted(THREAD)
        assert f"room {THREAD} is deleted, but no coordinator answered" in caplog.text
        monkeypatch.setattr(scene.link, "call", away)
        caplog.set_level(logging.INFO)
        await scene.watch.deleted(THREAD)
        assert "changes of threads and channels are not followed: Redis is unavailable" in caplog.text


async def away(*_: object) -> None:
    raise StateUnavailable("gone")
