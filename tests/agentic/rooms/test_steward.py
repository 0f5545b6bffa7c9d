"""The steward says everything once and leaves the thread as it must be, wherever it is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from agent_config import FrontMatter
from agentic.agent.roster import RosterEntry
from agentic.chat.outlet import CannotPost
from agentic.rooms.closing import close_room
from agentic.rooms.notices import NOT_LOCKED
from agentic.rooms.polls import AFTER, BEFORE
from agentic.rooms.room_bot import Poll, RoomPost, Stands, ThreadWords
from agentic.rooms.threads import (
    MAX_RETRY_SECONDS,
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
from tests.support.doubles import lone_silence
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
SIDED = tuple(
    member.model_copy(update={"side": side}) for member, side in zip(ROOM.members, ("for", "against"), strict=True)
)


class Killed(BaseException):
    """The process ends here."""


class Folders:
    """The roster; `deleted` are personas whose folders were deleted."""

    def __init__(self) -> None:
        self.deleted, self.listeners = set[str](), list[Callable[[], None]]()
        self.entries: list[RosterEntry] = []

    def __iter__(self) -> Iterator[RosterEntry]:
        return iter(self.entries)

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
        self.managers = self.askers = {"ada", "grok"}
        self.posts_there: list[RoomPost] = []
        self.kill_at, self.steps = "", list[str]()
        self.fails: dict[str, str] = {}
        self.notes = KeptNotes()
        self.roster = Folders()
        self.orders, self.lists, self.coordinator_is_away = 0, 0, False
        self.polls: dict[int, dict[int, str]] = {}  # message → who answered what
        self.ended = set[int]()

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
        if command.command == "room-add":
            now = RoomMember.model_validate_json(command.room.member or "")
            self.becomes(members=tuple(now if each.name == now.name else each for each in self.room.members))
            return "already_member"
        if command.command == "room-ledger":
            self.becomes(ledger=command.room.ledger)
            return "kept"
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

    def may_ask(self, channel_id: int) -> bool:
        return self.agent in self.world.askers

    async def ask(
        self, channel_id: int, thread_id: int, text: str, poll: Poll, key: str, *, since: float | None
    ) -> int:
        self._check("ask")
        if key in self.world.nonces or (since is not None and self.world.said_at.get(text, 0.0) >= since):
            return self.world.thread.index(text) + 1
        self.world.nonces.add(key)
        self.world.said_at[text] = self.world.now
        self.world.thread.append(text)
        message_id = len(self.world.thread)
        self.world.polls[message_id] = {}
        self.world.done("ask")
        return message_id

    async def end_poll(self, channel_id: int, thread_id: int, message_id: int) -> None:
        self._check("end_poll")
        self.world.ended.add(message_id)
        self.world.done("end_poll")

    async def stands(self, channel_id: int, thread_id: int, message_id: int) -> Stands:
        self._check("stands")
        if message_id not in self.world.polls:
            raise CannotPost("gone")
        return self.world.polls[message_id]

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

    async def words(self, channel_id: int, thread_id: int) -> ThreadWords:
        self._check("words")
        return ThreadWords(tuple(self.world.posts_there))


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

    async def last(agent: str, thread_id: int, count: int) -> Sequence[SimpleNamespace]:
        return [SimpleNamespace(model=f"model of {agent}", posted=(1,))]

    online = [Bot(world, "grok"), Bot(world, "ada")]
    async with RedisConnection(world.redis, command_timeout=PATIENT) as link:
        marks, records = KilledMarks(link, world), SimpleNamespace(last=last)
        services: Any = SimpleNamespace(
            state=SimpleNamespace(
                coordination=SimpleNamespace(rooms=world, room_marks=marks), turns=SimpleNamespace(records=records)
            ),
            record=world.notes,
            models=SimpleNamespace(cheap=None, make_judge=None),
            settings=SimpleNamespace(records=True, console=False),
            bus=SimpleNamespace(orders=world),
            silence=lone_silence(lambda: world.now),
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
    "a debate with polls": [
        {"poll": True, "members": SIDED},
        {"closing_because": "turn_limit", "slot_until": 1060.0},
        {"status": "closed", "why": "turn_limit", "closing_because": None, "slot_until": None},
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
        assert {type(note) for note in world.notes} == {type(note) for note in whole.notes}


async def test_a_pause_is_said_in_the_thread_and_a_second_one_again():
    world = await lived("paused, resumed and paused again")
    assert (
        world.thread
        == ["🫥 This room is paused: a person stopped it. Use /resume here first, then /room resume to continue."] * 2
    )
    assert not world.archived


# polls

DEBATE: dict[str, Any] = {"poll": True, "members": SIDED}
CLOSING: dict[str, Any] = {"closing_because": "turn_limit", "slot_until": 1060.0}
OVER: dict[str, Any] = {"status": "closed", "why": "turn_limit", "closing_because": None, "slot_until": None}
ASKED = [f"🫥 {BEFORE}", f"🫥 {AFTER}"]


async def debated(world: World, **before_the_end: str) -> str:
    """Hold a debate in which five people answer both polls, one only the first, and one only the second. Return the
    card."""
    world.becomes(**DEBATE)
    await attended(world)
    sides = {71: "for", 72: "for", 73: "against", 74: "undecided", 75: "undecided", 76: "for"}
    if world.polls:
        world.polls[1] = sides
    world.becomes(**CLOSING)
    await attended(world)
    if len(world.polls) > 1:
        world.polls[max(world.polls)] = {
            71: "against",
            72: "against",
            73: "for",
            74: "against",
            75: "undecided",
            77: "for",
        }
    world.becomes(**OVER)
    world.fails |= before_the_end
    await attended(world)
    return world.thread[-1]


def moved(world: World) -> list[int | None]:
    (contest,) = [note for note in world.notes if isinstance(note, ContestNote)]
    return [one.moved for one in contest.contenders]


async def test_people_are_asked_before_and_after_and_who_moved_them_is_counted():
    world = World()
    card = await debated(world)
    assert [text for text in world.thread if text in ASKED] == ASKED
    assert world.ended == {1, world.thread.index(ASKED[1]) + 1}
    line = "against won over 3 people and lost 1, for 1 and lost 2 (of 5 people who answered both polls)."
    assert f"**Who moved the room**: {line}" in card
    assert moved(world) == [-1, 2]
    assert not [note for note in world.notes if "71" in note.model_dump_json()], "nobody's answer is kept"


async def test_the_first_poll_is_over_before_the_second_begins():
    world = World()
    world.becomes(**DEBATE)
    await attended(world)
    assert world.ended == set()
    world.becomes(**CLOSING)
    await attended(world)
    assert world.steps.index("end_poll") < len(world.steps) - 1 - world.steps[::-1].index("ask")


@pytest.mark.promise(625)
async def test_a_room_that_gets_more_turns_while_people_vote_asks_them_again_at_its_end():
    world = World()
    for changes in (DEBATE, CLOSING, {"closing_because": None, "slot_until": None}):
        world.becomes(**changes)
        await attended(world)
    world.now += 300
    world.becomes(**CLOSING | {"changed_at": world.now, "slot_until": world.now + 60})
    await attended(world)
    assert [text for text in world.thread if text in ASKED] == [*ASKED, ASKED[1]]


async def test_a_bot_that_may_not_ask_leaves_polls_out():
    world = World()
    world.askers = set()
    assert "Who moved the room" not in await debated(world)
    assert not set(world.thread) & set(ASKED)
    assert moved(world) == [None, None]


@pytest.mark.parametrize("step", ["ask", "end_poll", "stands"])
async def test_a_poll_that_fails_twice_is_left_out_and_the_room_goes_on(step):
    world = World()
    if step == "ask":
        world.fails[step] = "discord_failed"
    async with steward(world) as one:
        world.becomes(**DEBATE)
        if step == "ask":
            with pytest.raises(CannotPost):
                await one.attend(THREAD)
    card = await debated(world, **{step: "discord_failed"})
    assert "**This room is closed**" in card
    assert ("Who moved the room" in card) is (step == "end_poll")
    assert world.archived


async def test_a_room_that_is_resumed_asks_again_at_its_next_end():
    world = World()
    await debated(world)
    world.now = 5000.0
    world.becomes(status="active", why=None, changed_at=5000.0)
    await attended(world)
    world.becomes(closing_because="turn_limit", slot_until=5060.0)
    await attended(world)
    assert [text for text in world.thread if text in ASKED] == [*ASKED, ASKED[1]]


async def test_a_room_that_a_person_closes_has_no_second_poll():
    world = World()
    world.becomes(**DEBATE)
    await attended(world)
    world.becomes(status="closed", why="agreed")
    await attended(world)
    assert [text for text in world.thread if text in ASKED] == ASKED[:1]
    assert world.ended == {1}
    assert "Who moved the room" not in world.thread[-1]


async def test_a_closed_room_has_its_card_and_its_contest_and_is_archived():
    world = World()
    world.posts_there = [RoomPost(51, "ada", "No.", frozenset({71, 72})), RoomPost(52, "grok", "Yes.")]
    world.becomes(status="closed", why="turn_limit", turn_number=2)
    await attended(world)
    assert world.archived
    assert "**Most votes**: Ada, 2 votes (Grok 0)." in world.thread[0]
    (contest,) = [note for note in world.notes if isinstance(note, ContestNote)]
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


async def test_a_card_that_cannot_be_posted_for_now_is_not_made_again():
    world, made = World(), list[str]()
    world.becomes(status="closed", why="agreed")
    world.fails["say"] = "discord_failed"

    async def close(room: Room, words: ThreadWords) -> str:
        made.append("the card")
        return made[-1]

    async with steward(world) as one:
        one._close = close
        await one.sweep()
        with pytest.raises(CannotPost):
            await one.attend(THREAD)
        world.fails.clear()
        await one.attend(THREAD)
    assert (made, world.thread) == (["the card"], ["the card"])


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


async def test_a_member_whose_persona_gets_another_name_has_it_in_the_room():
    world = World()
    async with running_steward(world):
        world.roster.entries = [
            RosterEntry(key=key, shown=f"New {key}", is_bot=key == "grok", front=FrontMatter())
            for key in ("ada", "grok", "zoe")
        ]
        world.roster.change()
        world.now += SETTLE_SECONDS
        await until(lambda: world.room.members[0].shown == "New ada")
    assert world.room.members[1:] == ROOM.members[1:], "another process knows a bot's name"


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


async def test_at_the_end_of_each_phase_the_arguments_are_listed_once(monkeypatch):
    world, phases = World(), list[str]()
    world.posts_there = [RoomPost(51, "ada", "No.")]

    async def list_arguments(services, room, read_words):
        assert list((await read_words()).posts) == world.posts_there
        phases.append(room.phase)
        return (f"Ada: No (open, after {len(phases)})",)

    monkeypatch.setattr("agentic.rooms.threads.list_arguments", list_arguments)
    world.becomes(format="debate", phase="opening statements")
    await attended(world)
    assert phases == [], "nobody has said anything"
    for phase, turn in (("rebuttals", 2), ("cross-questions", 8)):
        world.becomes(phase=phase, turn_number=turn)
        await attended(world)
        await attended(world)
    assert phases == ["rebuttals", "cross-questions"]
    assert world.room.ledger == ("Ada: No (open, after 2)",)
