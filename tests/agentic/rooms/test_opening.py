"""A room is opened once, wherever its opening was interrupted: against a Discord and a coordinator of a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from agentic.chat.outlet import CannotPost
from agentic.rooms.opening import (
    AWAY,
    GIVE_UP_SECONDS,
    JUST_OPENED,
    NOT_OPENED,
    OPENED,
    REPEATED_SECONDS,
    RoomOpener,
)
from agentic.state.leases import ALWAYS_HELD
from agentic.state.rooms import Room, RoomMember, RoomOpenings
from agentic.wire.bus import NOBODY
from agentic.wire.connection import RedisConnection, StateUnavailable
from agentic.wire.messages import Command
from tests.support.redis_server import PATIENT, empty_redis

LOUNGE, REQUEST = 10, 700
TEXT = "Is P equal to NP?"
ROOM = Room(
    thread_id=0,
    channel_id=LOUNGE,
    conversation_id="c",
    topic=TEXT,
    members=(RoomMember(name="grok", shown="Grok"), RoomMember(name="ada", shown="Ada")),
)


class Killed(BaseException):
    """The process ends here."""


class World:
    """Discord, the coordinator and the clock, which outlive the process. `kill_at`: the process ends when that step is
    done, before it hears of it."""

    redis: str

    def __init__(self) -> None:
        self.messages: dict[int, str] = {}
        self.threads: dict[int, tuple[str, int]] = {}
        self.rooms: dict[int, Room] = {}
        self.outcome, self.fails, self.kill_at, self.now = OPENED, dict[str, Exception](), "", 1000.0

    def clock(self) -> float:
        return self.now

    def _step(self, name: str) -> None:
        if self.kill_at == name:
            self.kill_at = ""
            raise Killed

    def _check(self, name: str) -> None:
        if name in self.fails:
            raise self.fails[name]

    async def post_opening(self, channel_id: int, text: str, request: int, *, again: bool) -> int:
        self._check("post")
        if again and (there := [number for number, said in self.messages.items() if said == text]):
            return there[0]
        message_id = request + 1 + len(self.messages)
        self.messages[message_id] = text
        self._step("post")
        return message_id

    async def start_thread(self, channel_id: int, message_id: int, name: str, minutes: int) -> None:
        self._check("start")
        self.threads[message_id] = (name, minutes)
        self._step("start")

    async def edit_opening(self, channel_id: int, message_id: int, text: str) -> None:
        self.messages[message_id] = text

    async def say(self, channel_id: int, thread_id: int, text: str, key: str, *, since: float | None = None) -> None:
        self._check("say")
        if since is None or text not in self.messages.values():
            self.messages[len(self.messages)] = text
        self._step("say")

    async def give(self, command: Command) -> str:
        self._check("give")
        assert command.command == "room-open"
        assert command.room is not None
        if self.outcome == OPENED:
            room = Room.model_validate_json(command.room.room or "")
            assert room.thread_id == command.channel_id
            self.rooms.setdefault(room.thread_id, room)
        self._step("give")
        return self.outcome

    def opener(self, openings: RoomOpenings, agent: str = "grok") -> RoomOpener:
        state = SimpleNamespace(coordination=SimpleNamespace(room_openings=openings))
        services: Any = SimpleNamespace(state=state, bus=SimpleNamespace(orders=self), clock=self.clock)
        return RoomOpener(agent, services, self, lease=ALWAYS_HELD)


class Openings(RoomOpenings):
    """Kills the process after it has kept the wish, or the message's id."""

    world: World

    async def keep(self, opening) -> None:
        self.world._check("keep")
        await super().keep(opening)
        self.world._step("keep message" if opening.room.thread_id else "keep")

    async def drop(self, request: int) -> None:
        await super().drop(request)
        self.world._step("drop")


@asynccontextmanager
async def a_world(url: str | None = None) -> AsyncIterator[tuple[World, Openings]]:
    world, server = World(), url or empty_redis()
    async with RedisConnection(server, command_timeout=PATIENT) as link:
        openings, world.redis = Openings(link), server
        openings.world = world
        yield world, openings


async def test_a_room_is_a_message_a_thread_from_it_and_an_order():
    async with a_world() as (world, openings):
        opening = await world.opener(openings).open(REQUEST, ROOM, "P and NP", TEXT)
        (thread_id,) = world.messages
        assert (opening.outcome, opening.thread_id) == (OPENED, thread_id)
        assert world.threads == {thread_id: ("P and NP", 1440)}
        assert world.rooms[thread_id] == ROOM.model_copy(update={"thread_id": thread_id})
        assert await openings.of("grok") == []


@pytest.mark.promise(633)
async def test_a_double_click_opens_one_room_and_a_later_request_another():
    async with a_world() as (world, openings):
        opener = world.opener(openings)
        asked = [opener.open(number, ROOM, "P and NP", TEXT) for number in (REQUEST, REQUEST + 50)]
        first, second = await asyncio.gather(*asked)
        third = await opener.open(REQUEST + 60, ROOM, "P and NP", TEXT)
        assert [each.outcome for each in (first, second, third)] == [OPENED, JUST_OPENED, JUST_OPENED]
        assert {first.thread_id, second.thread_id, third.thread_id} == set(world.rooms)
        world.now += REPEATED_SECONDS
        assert (await opener.open(REQUEST + 70, ROOM, "P and NP", TEXT)).outcome == OPENED
        assert len(world.rooms) == 2


async def test_somebody_elses_room_and_one_with_other_members_are_no_repetition():
    async with a_world() as (world, openings):
        opener, members = world.opener(openings), (ROOM.members[0], RoomMember(name="bob", shown="Bob"))
        for changes in ({}, {"opened_by": 72}, {"members": members}, {"topic": "Tea"}):
            assert (await opener.open(REQUEST, ROOM.model_copy(update=changes), "P and NP", TEXT)).outcome == OPENED
        assert len(world.rooms) == 4


async def test_a_request_is_repeated_in_earnest_if_the_first_was_given_up_or_made_nothing():
    async with a_world() as (world, openings):
        opener = world.opener(openings)
        world.fails = {"post": CannotPost("gone")}
        assert (await opener.open(REQUEST, ROOM, "P and NP", TEXT)).outcome == "gone"
        world.fails = {"keep": StateUnavailable("gone")}
        with pytest.raises(StateUnavailable):
            await opener.open(REQUEST, ROOM, "P and NP", TEXT)
        world.fails = {}
        assert (await opener.open(REQUEST, ROOM, "P and NP", TEXT)).outcome == OPENED


@pytest.mark.promise(270)
@pytest.mark.parametrize("step", ["keep", "post", "keep message", "start", "give", "drop"])
async def test_killed_at_any_step_it_is_opened_once_by_the_process_that_comes_next(step: str):
    async with a_world() as (world, openings):
        world.kill_at = step
        with pytest.raises(Killed):
            await world.opener(openings).open(REQUEST, ROOM, "P and NP", TEXT)
        await world.opener(openings).continue_all()
        assert list(world.messages.values()) == [TEXT]
        assert list(world.threads) == list(world.rooms) == list(world.messages)
        assert await openings.of("grok") == []


@pytest.mark.parametrize("step", ["keep message", "say", "give", "drop"])
@pytest.mark.promise(596)
async def test_killed_at_any_step_a_thread_becomes_a_room_once(step: str):
    async with a_world() as (world, openings):
        world.kill_at, room = step, ROOM.model_copy(update={"thread_id": 12})
        with pytest.raises(Killed):
            await world.opener(openings).open(REQUEST, room, "P and NP", TEXT)
        await world.opener(openings).continue_all()
        assert (list(world.messages.values()), world.threads, world.rooms) == ([TEXT], {}, {12: room})
        assert await openings.of("grok") == []


async def test_a_thread_that_does_not_become_a_room_says_so():
    async with a_world() as (world, openings):
        world.outcome, room = "stopped", ROOM.model_copy(update={"thread_id": 12})
        assert (await world.opener(openings).open(REQUEST, room, "P and NP", TEXT)).outcome == "stopped"
        assert list(world.messages.values()) == [TEXT, NOT_OPENED]


async def test_another_bot_leaves_it_to_the_one_that_began():
    async with a_world() as (world, openings):
        world.kill_at = "post"
        with pytest.raises(Killed):
            await world.opener(openings).open(REQUEST, ROOM, "P and NP", TEXT)
        await world.opener(openings, "claude").continue_all()
        assert world.threads == {}
        assert len(await openings.of("grok")) == 1


@pytest.mark.promise(270)
@pytest.mark.parametrize(
    ("step", "fault", "outcome"),
    [
        ("post", CannotPost("discord_failed"), "discord_failed"),
        ("start", CannotPost("unknown_channel"), "unknown_channel"),
        ("give", StateUnavailable("gone"), AWAY),
    ],
)
async def test_what_passes_is_tried_again_until_the_room_is_open(step: str, fault: Exception, outcome: str):
    async with a_world() as (world, openings):
        world.fails = {step: fault}
        opener = world.opener(openings)
        opening = await opener.open(REQUEST, ROOM, "P and NP", TEXT)
        assert opening.outcome == outcome
        world.fails = {}
        await opener.continue_all()
        assert list(world.rooms) == list(world.messages)


@pytest.mark.promise(270)
async def test_a_coordinator_that_does_not_answer_is_asked_again():
    async with a_world() as (world, openings):
        world.outcome = NOBODY
        opener = world.opener(openings)
        opening = await opener.open(REQUEST, ROOM, "P and NP", TEXT)
        assert (opening.outcome, opening.thread_id) == (NOBODY, REQUEST + 1)
        world.outcome = OPENED
        await opener.continue_all()
        assert list(world.rooms) == [REQUEST + 1]


@pytest.mark.parametrize(("step", "reason"), [("post", "not_permitted"), ("start", "gone")])
async def test_what_does_not_pass_is_given_up_at_once(step: str, reason: str):
    async with a_world() as (world, openings):
        world.fails = {step: CannotPost(reason)}
        opening = await world.opener(openings).open(REQUEST, ROOM, "P and NP", TEXT)
        assert opening.outcome == reason
        assert await openings.of("grok") == []
        assert all(NOT_OPENED in text for text in world.messages.values())


async def test_where_the_coordinator_refuses_the_message_says_that_there_is_no_room():
    async with a_world() as (world, openings):
        world.outcome = "paused"
        opening = await world.opener(openings).open(REQUEST, ROOM, "P and NP", TEXT)
        assert opening.outcome == "paused"
        assert list(world.messages.values()) == [f"{TEXT}\n{NOT_OPENED}"]
        assert await openings.of("grok") == []


@pytest.mark.promise(270)
async def test_after_a_quarter_of_an_hour_it_is_given_up_with_a_line(caplog):
    async with a_world() as (world, openings):
        world.kill_at = "start"
        with pytest.raises(Killed):
            await world.opener(openings).open(REQUEST, ROOM, "P and NP", TEXT)
        world.now += GIVE_UP_SECONDS + 1
        await world.opener(openings).continue_all()
        assert f"gave up on opening a room in channel {LOUNGE}" in caplog.text
        assert world.rooms == {}
        assert list(world.messages.values()) == [f"{TEXT}\n{NOT_OPENED}"]
        assert await openings.of("grok") == []


@pytest.mark.promise(270)
async def test_without_redis_nothing_is_made(server):
    async with a_world(server.url) as (world, openings):
        server.kill()
        with pytest.raises(StateUnavailable):
            await world.opener(openings).open(REQUEST, ROOM, "P and NP", TEXT)
        assert world.messages == {}


async def test_a_draft_is_taken_once():
    async with a_world() as (_, openings):
        await openings.keep_draft(REQUEST, "{}")
        assert await openings.draft(REQUEST) == "{}"
        assert [await openings.take_draft(REQUEST) for _ in range(2)] == [True, False]
        assert await openings.draft(REQUEST) is None
