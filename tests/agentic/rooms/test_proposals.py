"""Debates that members propose: who begins one, when it ends, and that a crash begins none twice."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from agent_config import FrontMatter
from agentic.agent.roster import RosterEntry
from agentic.chat.outlet import CannotPost
from agentic.chat.service import Person
from agentic.inbox.proposed_debates import question_in
from agentic.rooms.opening import OPENED, RoomOpener
from agentic.rooms.proposals import EXPIRED, LOOK_SECONDS, NO_MONEY, TOO_FEW, ProposalKeeper
from agentic.state import proposals as stored
from agentic.state.budgets import MORE, Caps, Reservation
from agentic.state.leases import ALWAYS_HELD
from agentic.state.proposals import PROPOSAL_SECONDS, Proposal
from agentic.state.rooms import Room
from agentic.state.shared_state import SharedState
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import Command
from tests.support.redis_server import PATIENT, empty_redis

LOUNGE, GUILD, QUESTION, ANN, BOB, EVE, MOD = 10, 1, 600, 100, 101, 102, 103
NAMES = {"claude": "Claude", "grok": "Grok"}
PROPOSAL = Proposal(
    id=700, channel_id=LOUNGE, guild_id=GUILD, topic="Is tea better?", proposed_by=ANN, name="Ann", at=1000.0
)


class Killed(BaseException):
    """The process ends here."""


class World:
    """Discord, the coordinator, and the clock, which outlive the process. `kill_at`: the process ends after that
    step."""

    def __init__(self, link: RedisConnection, caps: Caps) -> None:
        self.messages, self.threads, self.rooms = dict[int, str](), list[int](), dict[int, Room]()
        self.given: dict[int, list[Person]] = {}
        self.now, self.kill_at, self.online = 1000.0, "", {*NAMES}
        self.state = SharedState(link, lambda: self.now, caps=caps)
        self.is_silent = False

    def step(self, name: str) -> None:
        if self.kill_at == name:
            self.kill_at = ""
            raise Killed

    def room_problem(self, _: int, *, webhooks: bool) -> str | None:
        return "no webhooks" if webhooks else None

    async def post(self, _: int, text: str, key: str, *, since: float) -> int:
        first = text.partition("\n")[0]
        there = [number for number, said in self.messages.items() if said.partition("\n")[0] == first]
        message_id = there[0] if there else 800 + len(self.messages)
        self.messages[message_id] = text
        self.step("post")
        return message_id

    async def offer(self, *_: object) -> None:
        self.step("offer")

    async def has_message(self, _: int, message_id: int) -> bool:
        return message_id in self.messages

    async def edit_opening(self, _: int, message_id: int, text: str) -> None:
        if message_id not in self.messages:
            raise CannotPost("gone")
        self.messages[message_id] = text
        self.step("edit")

    async def start_thread(self, _: int, message_id: int, name: str, minutes: int) -> None:
        if message_id not in self.threads:
            self.threads.append(message_id)
        self.step("start")

    async def give(self, command: Command) -> str:
        assert command.room is not None
        room = Room.model_validate_json(command.room.room or "")
        self.rooms.setdefault(room.thread_id, room)
        self.step("give")
        return OPENED

    async def givers(self, message_id: int, emoji: str) -> list[Person]:
        assert emoji == "🎤"
        return self.given.get(message_id, [])

    def process(self) -> tuple[ProposalKeeper, RoomOpener]:
        """A process that has just started."""
        entries = [RosterEntry(key=key, shown=shown, is_bot=True, front=FrontMatter()) for key, shown in NAMES.items()]

        async def online(_: object) -> set[str]:
            return self.online

        coordination: Any = self.state.coordination
        coordination.presence = SimpleNamespace(online=online)
        roster: Any = SimpleNamespace(of={entry.key: entry for entry in entries}.get, names=NAMES)
        roster_class = type("Roster", (), {"__iter__": lambda _: iter(entries), "of": roster.of, "names": NAMES})
        services: Any = SimpleNamespace(
            state=self.state,
            bus=SimpleNamespace(orders=self),
            clock=lambda: self.now,
            rng=random.Random(1),
            settings=SimpleNamespace(debate_supporters=3, timezone=None),
            silence=SimpleNamespace(check=lambda _: "stopped" if self.is_silent else None),
            chats=SimpleNamespace(channels_for=lambda _: SimpleNamespace(view_of=lambda _: self)),
            agents=SimpleNamespace(
                names=NAMES,
                roster=roster_class(),
                ignored=SimpleNamespace(has=lambda user_id, *_: user_id == EVE),
                moderators=SimpleNamespace(has=lambda who, _: who.user_id == MOD),
            ),
        )
        bot: Any = self
        opener = RoomOpener("grok", services, bot, lease=ALWAYS_HELD)
        return ProposalKeeper(services, lambda: [opener], lease=ALWAYS_HELD), opener

    async def pass_time(self, seconds: float = 0.0) -> None:
        self.now += seconds
        keeper, opener = self.process()
        await opener.continue_all()
        await keeper.advance_all()


@asynccontextmanager
async def a_world(caps: Caps | None = None) -> AsyncIterator[World]:
    async with RedisConnection(empty_redis(), command_timeout=PATIENT) as link:
        world = World(link, caps or Caps())
        assert await world.state.coordination.proposals.add(PROPOSAL) == "proposed"
        yield world


def people(*ids: int) -> list[Person]:
    return [Person(user_id) for user_id in ids]


@pytest.mark.parametrize(
    ("at_message", "at_question", "opens"),
    [
        ((ANN, BOB), (), False),
        ((ANN, BOB, EVE), (), False),  # the bots ignore Eve
        ((ANN, BOB, 104), (), True),
        ((MOD,), (), True),
        ((ANN, BOB), (ANN, 104), True),
        ((ANN,), (ANN,), False),
        ((), (MOD,), True),
    ],
)
async def test_it_begins_when_enough_people_or_a_moderator_want_it(at_message, at_question, opens: bool):
    async with a_world() as world:
        await world.state.coordination.proposals.keep(PROPOSAL.model_copy(update={"question_in": 11}))
        await world.pass_time()
        (message_id,) = world.messages
        world.given = {message_id: people(*at_message), PROPOSAL.id: people(*at_question)}
        await world.pass_time()
        assert list(world.rooms) == world.threads == ([message_id] if opens else [])
        if opens:
            assert world.rooms[message_id].proposed
            assert world.messages[message_id].startswith("**Is tea better?**: ")
        else:
            assert "react with 🎤. It begins when 3 people have, or a moderator." in world.messages[message_id]


@pytest.mark.parametrize("step", ["post", "offer", "edit", "start", "give"])
@pytest.mark.promise(595)
async def test_killed_at_any_step_it_is_posted_once_and_begins_once(step: str):
    async with a_world() as world:
        world.kill_at = step
        for _ in range(4):
            for message_id in world.messages:
                world.given[message_id] = people(MOD)
            try:
                await world.pass_time()
            except Killed:
                continue
        assert len(world.messages) == 1
        assert list(world.rooms) == world.threads == list(world.messages)
        assert await world.state.coordination.proposals.all() == []
        assert await world.state.coordination.room_openings.of("grok") == []


async def test_two_processes_that_see_the_last_reaction_begin_one_room():
    async with a_world() as world:
        await world.pass_time()
        (message_id,) = world.messages
        world.given[message_id] = people(MOD)
        (proposal,) = await world.state.coordination.proposals.all()
        for keeper, _ in (world.process(), world.process()):
            await keeper.advance(proposal)
        assert list(world.rooms) == world.threads == [message_id]


@pytest.mark.promise(627)
async def test_a_proposal_whose_message_was_deleted_ends_and_its_author_may_propose_again_in_an_hour():
    async with a_world() as world:
        await world.pass_time()
        (message_id,) = world.messages
        world.messages.clear()
        world.given[message_id] = people(MOD)
        await world.pass_time(LOOK_SECONDS)
        assert await world.state.coordination.proposals.all() == []
        assert world.rooms == {}
        again = PROPOSAL.model_copy(update={"id": 701})
        assert await world.state.coordination.proposals.add(again) == "too_soon"


async def test_after_a_day_the_message_says_that_too_few_wanted_it():
    async with a_world() as world:
        await world.pass_time()
        (message_id,) = world.messages
        await world.pass_time(PROPOSAL_SECONDS - 1)
        assert await world.state.coordination.proposals.all() != []
        world.given[message_id] = people(MOD)
        await world.pass_time(2)
        assert await world.state.coordination.proposals.all() == []
        assert world.rooms == {}
        assert [text.partition("\n")[2] for text in world.messages.values()] == [EXPIRED]


async def test_it_waits_while_the_bots_are_stopped():
    async with a_world() as world:
        world.is_silent = True
        await world.pass_time()
        assert world.messages == {}
        world.is_silent = False
        await world.pass_time()
        (message_id,) = world.messages
        world.given[message_id], world.is_silent = people(MOD), True
        await world.pass_time()
        assert world.rooms == {}
        world.is_silent = False
        await world.pass_time()
        assert list(world.rooms) == [message_id]


async def test_it_ends_without_debaters_or_money_and_says_so():
    async with a_world() as world:
        await world.pass_time()
        (message_id,) = world.messages
        world.given[message_id], world.online = people(MOD), {"claude"}
        await world.pass_time()
        assert (world.messages[message_id].partition("\n")[2], world.rooms) == (TOO_FEW, {})
    async with a_world(Caps(members=1.0)) as world:
        await world.pass_time()
        (message_id,) = world.messages
        budgets, date = world.state.limits.budgets, "1970-01-01"
        hold = Reservation(date, world.now + 60, 990_000, ("all", "agent:grok", "person:0"))
        await world.state.link.script(MORE, *budgets.reserve_args("grok:t", hold, now=world.now))
        world.given[message_id] = people(MOD)
        await world.pass_time()
        assert (world.messages[message_id].partition("\n")[2], world.rooms) == (NO_MONEY, {})


async def test_a_person_has_one_open_proposal_and_then_a_pause(monkeypatch: pytest.MonkeyPatch):
    async with a_world() as world:
        proposals = world.state.coordination.proposals
        another = PROPOSAL.model_copy(update={"id": 701})
        assert await proposals.add(PROPOSAL) == "known"
        assert await proposals.add(another) == "has_one"
        assert await proposals.add(another.model_copy(update={"proposed_by": BOB})) == "proposed"
        assert await proposals.end(PROPOSAL)
        assert not await proposals.end(PROPOSAL)
        another = PROPOSAL.model_copy(update={"id": 702})
        assert await proposals.add(another) == "too_soon"
        left = await world.state.link.call(lambda redis: redis.ttl(f"coordinator:proposer:{ANN}"))
        assert 0 < left <= stored.COOLDOWN_SECONDS
        await world.state.link.call(lambda redis: redis.delete(f"coordinator:proposer:{ANN}"))
        monkeypatch.setattr(stored, "MAX_PROPOSALS", 1)
        assert await proposals.add(another) == "too_many"
        monkeypatch.undo()
        assert await proposals.add(another) == "proposed"


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("I drink tea. Is tea better than coffee?", "Is tea better than coffee?"),
        ("Is 3.5 too low? I don't know.", "Is 3.5 too low?"),
        ("Why? **And is it right?** Anyway.", "And is it right?"),
        ("紅茶ですか？", "紅茶ですか？"),
        ("Tea is better.", ""),
        ("???", ""),
        (f"Is {'very ' * 60}good?", ""),
    ],
)
def test_the_last_question_of_a_message_is_the_topic(text: str, topic: str):
    assert question_in(text) == topic
