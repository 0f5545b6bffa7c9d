"""The steward says everything once and leaves the thread as it must be, wherever it is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from agentic.chat.outlet import CannotPost
from agentic.rooms.closing import close_room
from agentic.rooms.room_bot import RoomPost
from agentic.rooms.threads import (
    MAX_RETRY_SECONDS,
    NOT_LOCKED,
    RETRY_SECONDS,
    SETTLE_SECONDS,
    RoomThreadManager,
    ThreadBots,
)
from agentic.state.leases import ALWAYS_HELD, ConditionalLease
from agentic.state.rooms import Room, RoomLine, RoomMarks, RoomMember
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import ContestNote
from agentic.wire.messages import Command, RoomNotice
from tests.support.agent_scene import KeptNotes
from tests.support.redis_server import PATIENT, empty_redis, until

LOUNGE, THREAD = 5, 50
ROOM = Room(
    thread_id=THREAD,
    channel_id=LOUNGE,
    guild_id=7,
    conversation_id="c",
    topic="Is P equal to NP?",
    members=(RoomMember(name="ada", shown="Ada"), RoomMember(name="grok", shown="Grok")),
    opened_at=900.0,
    changed_at=990.0,
)


class Killed(BaseException):
    """The process ends here."""


class Folders:
    """The roster; `deleted` are personas whose folders were deleted."""

    def __init__(self) -> None:
        self.deleted, self.listeners = set[str](), list[Callable[[], None]]()

    def gone(self, agents: Iterable[str]) -> tuple[str, ...]:
        return tuple(agent for agent in agents if agent in self.deleted)

    def on_change(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def change(self, *deleted: str) -> None:
        self.deleted.update(deleted)
        for listener in self.listeners:
            listener()


class World:
    """Discord, the room and the clock, which outlive the process. `kill_at`: the process ends when that step is done,
    before it hears of it."""

    def __init__(self) -> None:
        self.redis, self.room, self.now = empty_redis(), ROOM, 1000.0
        self.thread: list[str] = []
        self.channel: list[str] = []
        self.said_at: dict[str, float] = {}  # the newest of each first line
        self.nonces: set[str] = set()
        self.locked = self.archived = self.gone = False
        self.sees, self.looks = {LOUNGE}, 0
        self.managers = {"ada", "grok"}
        self.posts_there: list[RoomPost] = []
        self.kill_at, self.steps = "", list[str]()
        self.fails: dict[str, str] = {}
        self.notes = KeptNotes()
        self.roster = Folders()
        self.orders, self.lists, self.coordinator_is_away = 0, 0, False

    def done(self, step: str) -> None:
        self.steps.append(step)
        if self.kill_at == step:
            self.kill_at = ""
            raise Killed

    def becomes(self, **changes: object) -> None:
        self.room = self.room.model_copy(update=changes)

    async def give(self, command: Command) -> str:
        """The coordinator."""
        assert command.room is not None
        if command.command == "room-remove":
            self.orders += 1
            if self.coordinator_is_away:
                return "nobody"
            gone = command.room.gone
            self.becomes(members=tuple(member for member in self.room.members if member.name not in gone))
            return "removed_member"
        self.becomes(status="paused", why=command.room.reason, changed_at=self.now)
        return "room_paused"

    async def read(self, thread_id: int) -> Room | None:
        self.looks += 1
        return self.room if thread_id == THREAD else None

    async def list(self, status: str | None = None, limit: int | None = None) -> Sequence[Room]:
        self.lists += 1
        return [self.room]


class Bot:
    def __init__(self, world: World, agent: str) -> None:
        self.world, self.agent = world, agent

    def _check(self, step: str) -> None:
        if self.world.gone:
            raise CannotPost("gone")
        if step in self.world.fails:
            raise CannotPost(self.world.fails[step])

    def sees(self, channel_id: int) -> bool:
        return channel_id in self.world.sees

    def may_lock(self, channel_id: int) -> bool:
        return self.agent in self.world.managers

    async def say(
        self, channel_id: int, thread_id: int | None, text: str, key: str, *, since: float | None = None
    ) -> None:
        place = self.world.channel
        if thread_id is not None:
            self._check("say")
            place = self.world.thread
        if key in self.world.nonces or (since is not None and self.world.said_at.get(_first(text), 0.0) >= since):
            return
        self.world.nonces.add(key)
        self.world.said_at[_first(text)] = self.world.now
        place.append(text)
        self.world.done("say")

    async def is_gone(self, channel_id: int, thread_id: int) -> bool:
        return self.world.gone

    async def lock(self, channel_id: int, thread_id: int, *, locked: bool) -> None:
        self._check("lock")
        if self.agent not in self.world.managers:
            raise CannotPost("not_permitted")
        self.world.locked = locked
        self.world.done("lock" if locked else "unlock")

    async def archive(self, channel_id: int, thread_id: int, *, archived: bool) -> None:
        self._check("archive")
        self.world.archived = archived
        self.world.done("archive")

    async def posts(self, channel_id: int, thread_id: int) -> Sequence[RoomPost]:
        self._check("posts")
        return self.world.posts_there


def _first(text: str) -> str:
    return text.partition("\n")[0]


class KilledMarks(RoomMarks):
    """Marks whose writing may be the last that the process does."""

    def __init__(self, link: RedisConnection, world: World) -> None:
        super().__init__(link)
        self._world = world

    async def set(self, thread_id: int, **marks: str | float | bool) -> None:
        await super().set(thread_id, **marks)
        self._world.done(f"mark {next(iter(marks))}")


@asynccontextmanager
async def steward(world: World, **more: object) -> AsyncIterator[RoomThreadManager]:
    """A steward of a process that has just begun."""
    world.nonces.clear()  # as Discord forgets them

    async def last(agent: str, thread_id: int) -> Sequence[SimpleNamespace]:
        return [SimpleNamespace(model=f"model of {agent}")]

    online = [Bot(world, "grok"), Bot(world, "ada")]
    async with RedisConnection(world.redis, command_timeout=PATIENT) as link:
        marks, records = KilledMarks(link, world), SimpleNamespace(last=last)
        services: Any = SimpleNamespace(
            state=SimpleNamespace(
                coordination=SimpleNamespace(rooms=world, room_marks=marks), turns=SimpleNamespace(records=records)
            ),
            record=world.notes,
            models=SimpleNamespace(cheap=None),
            bus=SimpleNamespace(orders=world),
            agents=SimpleNamespace(roster=world.roster),
            clock=lambda: world.now,
        )
        bots = ThreadBots(lambda: online, lambda name: True)
        options = {"lease": ALWAYS_HELD, "poll_seconds": 0.01, **more}
        yield RoomThreadManager(services, bots, partial(close_room, services), **options)


async def attended(world: World) -> None:
    """Let a new process do all that there is to do."""
    async with steward(world) as one:
        await one.sweep()
        await one.attend(THREAD)


LIVES = {
    "paused": [{"status": "paused", "why": "stopped"}],
    "paused, resumed and paused again": [
        {"status": "paused", "why": "stopped"},
        {"status": "active", "why": None},
        {"status": "paused", "why": "stopped", "changed_at": 3000.0},
    ],
    "closed": [{"status": "closed", "why": "agreed", "turn_number": 2}],
    "a slot and its end": [
        {"audience_seconds": 60.0},
        {"slot_until": 1060.0},
        {"slot_until": None},
        {"status": "closed", "why": "agreed", "turn_number": 2},
    ],
    "closed and resumed": [
        {"status": "closed", "why": "agreed"},
        {"status": "active", "why": None},
    ],
}


async def lived(life: str, kill_at: int | None = None) -> World:
    """A room goes through its states, each of which a new process sees; one is killed behind its n-th step."""
    world = World()
    count = 0
    for change in LIVES[life]:
        world.becomes(**change)
        world.now = max(world.now, world.room.changed_at)
        if kill_at is not None and count <= kill_at:
            count = await _killed(world, kill_at, count)
        await attended(world)
        if kill_at is None:
            count = len(world.steps)
    return world


async def _killed(world: World, kill_at: int, count: int) -> int:
    done = world.done

    def counting(step: str) -> None:
        nonlocal count
        count += 1
        done(step)
        if count == kill_at + 1:
            raise Killed

    world.done = counting  # type: ignore[method-assign]
    with suppress(Killed):
        await attended(world)
    world.done = done  # type: ignore[method-assign]
    return count


@pytest.mark.promise(230)
@pytest.mark.parametrize("life", LIVES)
async def test_killed_behind_any_step_everything_is_said_once_and_the_thread_is_as_it_must_be(life):
    whole = await lived(life)
    assert whole.steps
    for place in range(len(whole.steps)):
        world = await lived(life, kill_at=place)
        assert [_first(text) for text in world.thread] == [_first(text) for text in whole.thread], place
        assert (world.locked, world.archived) == (whole.locked, whole.archived), place
        assert {note.id for note in world.notes} == {note.id for note in whole.notes}


async def test_a_pause_is_said_in_the_thread_and_a_second_one_again():
    world = await lived("paused, resumed and paused again")
    assert (
        world.thread
        == ["🫥 This room is paused: a person stopped it. Use /resume here first, then /room resume to continue."] * 2
    )
    assert not world.archived


async def test_a_closed_room_has_its_card_and_its_contest_and_is_archived():
    world = World()
    world.posts_there = [RoomPost(51, "ada", "No.", frozenset({71, 72})), RoomPost(52, "grok", "Yes.")]
    world.becomes(status="closed", why="turn_limit", turn_number=2)
    await attended(world)
    assert world.archived
    assert "**Most convincing**: Ada, 2 votes (Grok 0)." in world.thread[0]
    (contest,) = world.notes
    assert isinstance(contest, ContestNote)
    assert (contest.id, contest.kind, contest.question) == (f"room-{THREAD}", "room", ROOM.topic)
    assert [(one.agent, one.model, one.votes) for one in contest.contenders] == [
        ("ada", "model of ada", 2),
        ("grok", "model of grok", 0),
    ]


@pytest.mark.promise(230)
async def test_a_thread_that_people_bring_back_is_not_archived_again():
    world = await lived("closed")
    world.archived = False
    await attended(world)
    assert not world.archived


@pytest.mark.promise(274)
async def test_a_running_room_whose_thread_was_archived_while_nobody_looked_is_brought_back_once():
    world = World()
    world.archived = True
    async with steward(world) as one:
        await one.sweep()
        await one.attend(THREAD)
        assert not world.archived
        world.archived = True  # by a moderator, which pauses the room
        await one.attend(THREAD)
        assert world.archived


@pytest.mark.promise(274)
async def test_a_room_that_a_moderator_archived_is_brought_back_when_it_is_resumed():
    world = World()
    world.archived = True
    world.becomes(status="paused", why="archived")
    async with steward(world) as one:
        await one.attend(THREAD)
        assert world.channel[0].endswith("Use /room resume to bring the thread back and continue.")
        world.becomes(status="active", why=None)
        await one.attend(THREAD)
    assert not world.archived
    assert world.thread == []


@pytest.mark.promise(230)
@pytest.mark.parametrize("why", ["deleted", "archived"])
async def test_where_the_thread_is_gone_it_is_said_in_the_channel_above(why):
    world = World()
    world.gone = True
    world.becomes(status="paused", why=why)
    await attended(world)
    await attended(world)
    assert world.thread == []
    assert len(world.channel) == 1
    assert world.channel[0].startswith("🫥 The room “Is P equal to NP?” is paused: its thread was")


async def test_where_nobody_may_write_in_the_thread_it_is_said_above():
    world = World()
    world.fails["say"] = "not_permitted"
    world.becomes(status="paused", why="no_access")
    await attended(world)
    assert len(world.channel) == 1


@pytest.mark.promise(231)
async def test_without_the_right_to_lock_the_room_goes_on_and_that_is_said_once():
    world = World()
    world.managers = {"ada"}  # a lock would shut Grok out
    world.becomes(audience_seconds=60.0)
    await attended(world)
    world.becomes(slot_until=1060.0)
    await attended(world)
    world.becomes(slot_until=None)
    await attended(world)
    assert not world.locked
    assert world.thread[0] == NOT_LOCKED
    assert [text for text in world.thread if "floor is yours" in text] == world.thread[1:]
    assert len(world.thread) == 2


@pytest.mark.promise(231)
async def test_the_mark_of_our_lock_is_there_before_the_lock():
    world = World()
    world.becomes(audience_seconds=60.0)
    await attended(world)
    assert world.steps.index("mark locked") < world.steps.index("lock")


async def test_what_fails_for_now_is_tried_again_and_not_marked():
    world = World()
    world.fails["say"] = "discord_failed"
    world.becomes(status="paused", why="stopped")
    with pytest.raises(CannotPost):
        await attended(world)
    world.fails.clear()
    await attended(world)
    assert len(world.thread) == 1


@pytest.mark.promise(275)
async def test_a_room_in_which_all_is_done_needs_no_bot_that_sees_its_channel():
    world = await lived("closed")
    world.sees.clear()
    await attended(world)


@asynccontextmanager
async def at_work(one: RoomThreadManager) -> AsyncIterator[None]:
    task = asyncio.create_task(one.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def test_it_looks_at_all_rooms_at_its_start_follows_notices_and_ends_slots_by_itself():
    world = World()
    world.becomes(audience_seconds=60.0, slot_until=1060.0)
    async with steward(world) as one, at_work(one):
        await until(lambda: any("floor is yours" in text for text in world.thread))
        assert not world.locked
        world.now = 1061.0  # the coordinator is away, and has not ended the slot
        await until(lambda: world.locked)
        world.becomes(status="paused", why="paused", slot_until=None)
        one._on_notice(RoomNotice(thread_id=THREAD).to_wire())
        await until(lambda: any("a person paused it" in text for text in world.thread))
        assert not world.locked


@pytest.mark.promise(275)
async def test_a_room_whose_channel_no_bot_sees_is_looked_at_ever_less_until_one_does():
    world, waits = World(), list[float]()
    world.sees.clear()
    world.becomes(status="paused", why="deleted")
    async with steward(world) as one, at_work(one):
        for looks in range(1, 9):
            await until(lambda looks=looks: world.looks == looks and THREAD in one._due)
            waits.append(one._due[THREAD] - world.now)
            world.now = one._due[THREAD]
        assert waits[:3] == [RETRY_SECONDS, 2 * RETRY_SECONDS, 4 * RETRY_SECONDS]
        assert waits[-1] == MAX_RETRY_SECONDS
        world.sees.add(LOUNGE)
        world.now += MAX_RETRY_SECONDS
        await until(lambda: world.channel)


async def test_a_process_that_does_not_act_for_the_personas_does_nothing():
    world = World()
    world.becomes(status="paused", why="stopped")
    acts = []
    async with steward(world, lease=ConditionalLease(lambda: bool(acts))) as one, at_work(one):
        one._on_notice(RoomNotice(thread_id=THREAD).to_wire())
        await one.attend(THREAD)
        assert world.thread == []
        acts.append(True)  # it takes over
        await until(lambda: world.thread)


FAILED = RoomLine(number=1, kind="failed", members=("Grok",), why="model_failed")
LEFT = RoomLine(number=2, kind="left", members=("Grok",), why="model_failed")


@pytest.mark.promise(545)
async def test_a_line_about_a_member_is_posted_once_also_after_a_restart() -> None:
    world = World()
    world.becomes(lines=(FAILED,))
    await attended(world)
    await attended(world)
    world.becomes(lines=(FAILED, LEFT))
    await attended(world)
    await attended(world)
    assert len(world.thread) == 2
    assert all("Grok" in text for text in world.thread)


async def test_a_process_that_dies_behind_a_line_leaves_no_second_one() -> None:
    world = World()
    world.becomes(lines=(FAILED,))
    world.kill_at = "say"
    with suppress(Killed):
        await attended(world)
    await attended(world)
    assert len(world.thread) == 1


async def test_a_room_that_closes_says_why_and_has_no_line_besides() -> None:
    world = World()
    world.becomes(lines=(LEFT,), status="closed", why="too_few_left", members=world.room.members[:1])
    await attended(world)
    assert len(world.thread) == 1
    assert "Grok" in world.thread[0]
    world.becomes(status="active", why=None)
    await attended(world)
    assert len(world.thread) == 1, "nor later"


async def test_a_line_waits_while_nobody_may_write_in_the_thread() -> None:
    world = World()
    world.becomes(lines=(LEFT,), status="paused", why="archived")
    await attended(world)
    assert world.thread == []
    world.becomes(status="active", why=None)
    await attended(world)
    assert len(world.thread) == 1


async def test_a_thread_that_the_bots_no_longer_see_since_it_was_deleted_is_said_to_be_deleted() -> None:
    world = World()
    world.gone = True
    world.becomes(status="paused", why="no_access")
    await attended(world)
    assert world.room.why == "deleted"
    assert len(world.channel) == 1
    assert "deleted" in world.channel[0]


class Silent:
    """A bus without notices."""

    def subscribe(self, channel: str, handler: Callable[[str], object]) -> None:
        del channel, handler


@asynccontextmanager
async def running_steward(world: World) -> AsyncIterator[None]:
    async with steward(world) as one:
        one.start(Silent())
        running = asyncio.create_task(one.run())
        try:
            await until(lambda: world.looks)
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.promise(565)
async def test_a_member_whose_persona_is_deleted_leaves_and_is_asked_for_until_the_coordinator_answers():
    world = World()
    world.becomes(members=(*ROOM.members, RoomMember(name="ben", shown="Ben")))
    async with running_steward(world):
        world.coordinator_is_away = True
        world.roster.change("ben")
        world.now += SETTLE_SECONDS
        await until(lambda: world.orders == 1)
        world.coordinator_is_away = False
        world.now += RETRY_SECONDS
        await until(lambda: world.room.names == ("ada", "grok"))


@pytest.mark.promise(565)
async def test_a_member_whose_persona_was_deleted_while_the_program_was_down_leaves():
    world = World()
    world.roster.change("ada")
    async with running_steward(world):
        await until(lambda: world.room.names == ("grok",))


@pytest.mark.promise(566)
async def test_a_folder_that_was_only_moved_for_a_moment_removes_nobody():
    world = World()
    async with running_steward(world):
        looks = world.lists
        world.roster.change("ada")
        world.now += SETTLE_SECONDS / 2
        world.roster.deleted.clear()
        world.now += SETTLE_SECONDS
        await until(lambda: world.lists > looks)
    assert (world.orders, world.room.names) == (0, ("ada", "grok"))
