"""An arena: two answers without names, a vote, and the names after it; also where the process was killed meanwhile."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from agentic.agent.agent import Agent
from agentic.agent.options import OptionBook
from agentic.chat.outlet import CannotPost
from agentic.llm.errors import ServerFailed
from agentic.llm.types import Reply
from agentic.rooms.arena import (
    ANSWER_TOKENS,
    BOXES,
    FAILED,
    GIVE_UP_SECONDS,
    INTERRUPTED,
    TOO_FEW,
    ArenaKeeper,
    NoAnswer,
    ask_contender,
    draw_pair,
    words_of,
)
from agentic.state.budgets import Caps
from agentic.state.leases import ALWAYS_HELD
from agentic.state.rooms import Arena, ArenaAnswer, Arenas
from agentic.state.silence import EVERYTHING, Scope
from agentic.wire.connection import RedisConnection
from agentic.wire.entries import ContestNote
from tests.support.agent_scene import CALL, KeptNotes, Scene
from tests.support.doubles import lone_silence
from tests.support.redis_server import PATIENT, empty_redis

LOUNGE, ALICE, BOB, CAROL = 100, 71, 72, 73
ASKED = Arena(id=700, channel_id=LOUNGE, question="Why is the sky blue?", asked_by=ALICE, minutes=5, at=1000.0)


class Killed(BaseException):
    """The process ends here."""


class World:
    """Discord and the clock, which outlive the process. `kill_at`: the process ends behind so many steps."""

    def __init__(self) -> None:
        self.redis, self.now = empty_redis(), 1000.0
        self.messages: dict[int, str] = {}
        self.made_at: dict[int, float] = {}
        self.offered: dict[int, Sequence[str]] = {}
        self.votes: Mapping[str, frozenset[int]] = {}
        self.notes, self.asked = KeptNotes(), list[str]()
        self.steps, self.kill_at = 0, -1
        self.silence = lone_silence(lambda: self.now)
        self.fails, self.unseen = "", set[int]()

    def done(self) -> None:
        self.steps += 1
        if self.steps == self.kill_at:
            raise Killed

    @property
    def texts(self) -> list[str]:
        return list(self.messages.values())


class Bot:
    agent = "claude"

    def __init__(self, world: World) -> None:
        self.world = world

    def may_write(self, channel_id: int) -> bool:
        return channel_id not in self.world.unseen

    async def post(self, channel_id: int, text: str, key: str, *, since: float) -> int:
        if self.world.fails:
            raise CannotPost(self.world.fails)
        for message_id, said in self.world.messages.items():
            if said == text and self.world.made_at[message_id] >= since:
                return message_id
        message_id = 800 + len(self.world.messages)
        self.world.messages[message_id], self.world.made_at[message_id] = text, self.world.now
        self.world.done()
        return message_id

    async def offer(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> None:
        self.world.offered[message_id] = emojis
        self.world.done()

    async def voters(self, channel_id: int, message_id: int, emojis: Sequence[str]) -> Sequence[frozenset[int]]:
        return [self.world.votes.get(emoji, frozenset()) for emoji in emojis]


class KilledArenas(Arenas):
    def __init__(self, link: RedisConnection, world: World) -> None:
        super().__init__(link)
        self._world = world

    async def keep(self, arena: Arena) -> None:
        await super().keep(arena)
        self._world.done()

    async def drop(self, channel_id: int) -> None:
        await super().drop(channel_id)
        self._world.done()


def named(agent: Agent, model: str) -> Agent:
    return replace(agent, models=replace(agent.models, main=replace(agent.models.main, name=model)))


def agents() -> list[Agent]:
    scene = Scene("claude", "grok")
    made = [cog.host.agent for cog in scene.cogs.values()]
    return [named(agent, f"scripted/{agent.key}") for agent in made]


@asynccontextmanager
async def keeper(world: World, **more: object) -> AsyncIterator[tuple[ArenaKeeper, Arenas]]:
    """That of a process that has just begun."""

    async def answer(agent: Agent, arena: Arena) -> ArenaAnswer:
        world.asked.append(agent.key)
        return ArenaAnswer(
            agent=agent.key, shown=agent.key.title(), model=agent.models.main.name, text=f"Says {agent.key}."
        )

    options = {"agents": agents, "answer": answer, **more}
    async with RedisConnection(world.redis, command_timeout=PATIENT) as link:
        arenas = KilledArenas(link, world)
        services: Any = SimpleNamespace(
            state=SimpleNamespace(coordination=SimpleNamespace(arenas=arenas)),
            record=world.notes,
            silence=world.silence,
            clock=lambda: world.now,
            rng=random.Random(3),
        )
        bots = [Bot(world)]
        yield (
            ArenaKeeper(services, lambda: bots, options["agents"], options["answer"], lease=ALWAYS_HELD),
            arenas,
        )


async def carried_on(world: World, **more: object) -> None:
    """Let a new process do what is due, as its loop would."""
    async with keeper(world, **more) as (one, _):
        while due := await one._due():
            for arena in due:
                await one.advance(arena)


async def opened(world: World, arena: Arena = ASKED) -> bool:
    async with keeper(world) as (_, arenas):
        return await arenas.open(arena)


async def test_answers_have_no_names_until_the_time_is_over():
    world = World()
    await opened(world)
    await carried_on(world)
    assert sorted(world.asked) == ["claude", "grok"]
    assert [text.split("\n")[0] for text in world.texts[:2]] == ["🫥 🅰️", "🫥 🅱️"]
    assert not any("scripted" in text or "Claude" in text or "Grok" in text for text in world.texts)
    assert world.offered == {802: BOXES}
    world.votes = {BOXES[0]: frozenset({ALICE, BOB, CAROL}), BOXES[1]: frozenset({CAROL})}
    world.now += 299
    await carried_on(world)
    assert len(world.messages) == 3
    world.now += 1
    await carried_on(world)
    first = world.texts[0].partition("\n")[2].removeprefix("Says ").rstrip(".")
    assert f"The arena is over: {first.title()} wins" in world.texts[3]
    assert f"🅰️ **{first.title()}** (scripted/{first}): 2 votes" in world.texts[3]
    assert ": 0 votes" in world.texts[3], "a person who gave both voted for neither"
    (note,) = world.notes
    assert isinstance(note, ContestNote)
    assert (note.id, note.kind, note.asked_by, note.question) == ("802", "arena", ALICE, ASKED.question)
    assert [(one.agent == first, one.votes) for one in note.contenders] == [(True, 2), (False, 0)]


@pytest.mark.parametrize(
    ("votes", "said"),
    [({}, "nobody voted"), ({BOXES[0]: frozenset({ALICE}), BOXES[1]: frozenset({BOB})}, "a tie")],
)
async def test_a_tie_is_a_tie_and_no_votes_are_said(votes, said):
    world = World()
    world.votes = votes
    await opened(world)
    await carried_on(world)
    world.now += 300
    await carried_on(world)
    assert f"The arena is over: {said}" in world.texts[-1]


async def test_a_channel_has_one_arena_at_a_time():
    world = World()
    assert await opened(world)
    assert not await opened(world, ASKED.model_copy(update={"id": 701}))
    assert await opened(world, ASKED.model_copy(update={"id": 702, "channel_id": LOUNGE + 1}))
    await carried_on(world)
    world.now += 300
    await carried_on(world)
    assert await opened(world, ASKED.model_copy(update={"id": 703, "at": world.now}))


async def _whole() -> World:
    world = World()
    await opened(world)
    await carried_on(world)
    world.now += 300
    await carried_on(world)
    return world


@pytest.mark.promise(232)
async def test_killed_behind_any_step_each_message_is_posted_once_and_nobody_is_asked_twice():
    whole = await _whole()
    for place in range(1, whole.steps + 1):
        world = World()
        await opened(world)
        world.kill_at = place
        for _ in range(3):
            with suppress(Killed):
                await carried_on(world)
            world.now += 300
        assert len(world.asked) in (0, 2), place
        assert len(world.texts) == len(set(world.texts)), place
        assert world.texts == [INTERRUPTED] or (len(world.texts) == 4 and "nobody voted" in world.texts[3]), place
        assert {note.id for note in world.notes} <= {"802"}, place
        async with keeper(world) as (_, arenas):
            assert await arenas.all() == [], place


async def test_a_process_that_died_while_both_answered_ends_the_arena_with_a_line():
    world = World()
    await opened(world, ASKED.model_copy(update={"begun": True}))
    await carried_on(world)
    assert world.texts == [INTERRUPTED]
    assert world.asked == []


async def test_one_agent_is_too_few():
    world = World()
    await opened(world)
    await carried_on(world, agents=lambda: agents()[:1])
    assert world.texts == [TOO_FEW]


@pytest.mark.promise(232)
async def test_an_answer_that_fails_ends_the_arena_with_a_line():
    async def answer(agent: Agent, arena: Arena) -> ArenaAnswer:
        raise NoAnswer("budget")

    world = World()
    await opened(world)
    await carried_on(world, answer=answer)
    assert world.texts == [FAILED]
    assert await opened(world)


@pytest.mark.promise(232)
async def test_where_people_stopped_the_bots_nothing_is_asked_or_shown_until_that_is_lifted():
    world, channel = World(), Scope.channel(ASKED.channel_id)
    await world.silence.stop(channel)
    await opened(world)
    await carried_on(world)
    assert (world.asked, world.texts) == ([], [])
    await world.silence.resume(channel)
    await carried_on(world)
    world.now += 300
    await world.silence.stop(EVERYTHING)
    await carried_on(world)
    assert len(world.texts) == 3
    await world.silence.resume(EVERYTHING)
    await carried_on(world)
    assert len(world.texts) == 4


async def test_a_channel_in_which_no_bot_may_write_any_more_has_no_arena():
    world = World()
    await opened(world)
    world.fails = "not_permitted"
    await carried_on(world)
    assert await opened(world)


@pytest.mark.promise(275)
async def test_an_arena_is_given_up_when_for_an_hour_no_bot_has_seen_its_channel():
    world = World()
    await opened(world)
    await carried_on(world)
    world.unseen.add(LOUNGE)
    world.now += 300 + GIVE_UP_SECONDS
    with pytest.raises(CannotPost):
        await carried_on(world)
    world.now += 1
    await carried_on(world)
    assert len(world.texts) == 3
    assert await opened(world)


async def test_nobody_is_asked_where_no_bot_could_post_the_answers():
    world = World()
    await opened(world)
    world.unseen.add(LOUNGE)
    with pytest.raises(CannotPost):
        await carried_on(world)
    world.unseen.clear()
    await carried_on(world)
    assert len(world.asked) == 2


# -- contenders -------------------------------------------------------------------------------------------------------


def test_the_two_have_different_models_where_there_are_any():
    first, second = agents()
    third = replace(second, me=replace(second.me, key="third"), models=first.models)
    for seed in range(20):
        pair = draw_pair([first, third, second], None, random.Random(seed))
        assert pair is not None
        assert pair[0].models.main.name != pair[1].models.main.name
    assert {agent.key for agent in draw_pair([first, third], None, random.Random(1))} == {"claude", "third"}
    assert draw_pair([first], None, random.Random(1)) is None


async def test_an_answer_is_on_the_books_of_its_agent_and_on_the_account_of_the_person():
    scene = Scene("claude", caps=Caps(person=1.0))
    agent, state = scene.cogs["claude"].host.agent, scene.state
    scene.answers(Reply(text="Rayleigh scattering.", usage=CALL))
    answer = await ask_contender(agent, ASKED.model_copy(update={"at": scene.clock()}))
    assert answer == ArenaAnswer(agent="claude", shown="Claude", model="scripted/one", text="Rayleigh scattering.")
    prompt, _ = scene.cog.asked[0]
    assert prompt.text == ASKED.question
    assert "who made you" in prompt.system
    (record,) = state.recorded
    assert (record.kind, record.asked_by, record.cost_usd) == ("arena", ALICE, CALL.cost_usd)


async def test_an_owners_arena_from_the_console_is_charged_to_no_person():
    scene = Scene("claude", caps=Caps(person=0.0))
    agent, state = scene.cogs["claude"].host.agent, scene.state
    scene.answers(Reply(text="Rayleigh scattering.", usage=CALL))
    await ask_contender(agent, ASKED.model_copy(update={"at": scene.clock(), "asked_by": 0}))
    (record,) = state.recorded
    assert (record.asked_by, record.asked_message_id, record.cost_usd) == (None, None, CALL.cost_usd)


@pytest.mark.parametrize(
    ("persona", "asked_with"),
    [
        ({"temperature": 1.5, "max_output_tokens": 300}, (1.5, None, 300)),
        ({"max_output_tokens": 9000}, (None, None, ANSWER_TOKENS)),
        ({"max_output_tokens": 9000, "thinking": "none"}, (None, "none", ANSWER_TOKENS)),
        ({"max_output_tokens": 9000, "thinking": "high"}, (None, "high", 9000)),
    ],
)
async def test_a_contender_answers_with_its_own_temperature_thinking_and_length(persona, asked_with):
    scene = Scene("claude")
    agent = scene.cogs["claude"].host.agent
    agent = replace(agent, options=OptionBook({"claude": "Claude"}, {}, extra_layer=lambda _: persona))
    scene.answers(Reply(text="Rayleigh scattering.", usage=CALL))
    await ask_contender(agent, ASKED.model_copy(update={"at": scene.clock()}))
    prompt, _ = scene.cog.asked[0]
    assert (prompt.temperature, prompt.thinking, prompt.max_output_tokens) == asked_with


@pytest.mark.parametrize("answer", [ServerFailed("down"), Reply(text="", usage=CALL)])
async def test_no_answer_is_settled_too(answer):
    scene = Scene("claude")
    scene.answers(answer)
    with pytest.raises(NoAnswer):
        await ask_contender(scene.cogs["claude"].host.agent, ASKED)
    (record,) = scene.state.recorded
    assert record.reason == ("model_failed" if isinstance(answer, Exception) else None)


@pytest.mark.promise(232)
async def test_over_the_person_s_budget_no_model_is_called():
    scene = Scene("claude", caps=Caps(person=0.0))
    with pytest.raises(NoAnswer, match="person_budget"):
        await ask_contender(scene.cogs["claude"].host.agent, ASKED)
    assert scene.cog.asked == []


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("Claude: It scatters.", "It scatters."),
        ('{"skip": false, "text": "It scatters."}', "It scatters."),
        ("<think>hm</think>It scatters.", "It scatters."),
        ("{broken", ""),
        ("x" * 5000, "x" * 1499 + "…"),
    ],
)
def test_only_the_words_of_an_answer_are_shown(raw, words):
    assert words_of(raw, agents()[0]) == words
