"""An owner asks for an agent to speak next, names who begins and about what, and ends a conversation."""

from __future__ import annotations

import asyncio

import pytest

from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agent_coordinator.events import ConversationEnded, ConversationStarted, TurnTaken
from agentic.state.conversation_state import ConversationState
from agentic.state.silence import EVERYTHING, Scope
from agentic.wire.messages import Command, CommandOutcome, Instruction, Result
from tests.support.coordinator_doubles import (
    AGENTS,
    CHANNEL,
    NOON,
    OTHER_CHANNEL,
    Luck,
    MemoryBus,
    MemoryLease,
    MemoryState,
    Time,
    changed,
    config,
    conversation,
    room,
    until,
)
from tests.support.doubles import lone_silence

STATE = conversation(CHANNEL, round=2)


@pytest.mark.parametrize(
    ("before", "pending", "spoke"),
    [
        ({"pending": ("grok", "claude")}, ("claude", "grok"), ()),
        ({"pending": ("grok",), "spoke": ("claude",)}, ("claude", "grok"), ()),
        ({"pending": (), "spoke": ("grok", "claude")}, ("claude",), ("grok",)),
    ],
)
def test_a_requested_agent_is_first_and_has_no_second_turn_of_the_round_after_it(before, pending, spoke):
    state = changed(STATE, requested="claude", **before).grant_request()
    assert (state.queue.pending, state.counts.spoke, state.queue.requested, state.queue.granted) == (
        pending,
        spoke,
        None,
        True,
    )
    assert ConversationState.from_json(state.to_json()) == state


class Scene:
    """A coordinator whose agents speak when the test lets them."""

    def __init__(self, bus: MemoryBus | None = None, **changes: object) -> None:
        self.bus, self.state, self.time = bus or room(*AGENTS), MemoryState(), Time()
        self.silence, self.luck, self.events = lone_silence(self.time.clock), Luck(), list[object]()
        self.config = config(**{"schedule_min": 0, "schedule_max": 0, "max_rounds": 1, **changes})
        self._speak, voices = asyncio.Semaphore(0), self.bus.voices
        self.pauses: list[asyncio.Event] = []

        def held(voice):
            async def hold(instruction: Instruction) -> Result:
                await self._speak.acquire()
                return voice(instruction)

            return hold

        self.bus.voices = {agent: held(voice) for agent, voice in voices.items()}
        self._runs: list[asyncio.Task[None]] = []

    async def _sleep(self, seconds: float) -> None:
        if seconds < 30:
            self.pauses.append(asyncio.Event())
            await self.pauses[-1].wait()
        else:
            await asyncio.Event().wait()

    async def lead(self) -> None:
        lease = MemoryLease()
        lease.give()
        coordinator = Coordinator(
            CoordinatorContext(
                self.config,
                self.bus,
                self.state,
                clock=self.time.clock,
                rng=self.luck,
                sleep=self._sleep,
                silence=self.silence,
            )
        )
        coordinator.engine.observers.append(self.events.append)
        self._runs.append(asyncio.create_task(coordinator.run()))
        await until(lambda: coordinator.acting)

    async def die(self) -> None:
        """As by SIGKILL: what is in Redis stays."""
        for run in self._runs:
            run.cancel()
        await asyncio.gather(*self._runs, return_exceptions=True)
        self._runs.clear()
        self.bus.handlers.clear()

    def speak(self, turns: int = 1) -> None:
        for _ in range(turns):
            self._speak.release()

    async def __aenter__(self) -> Scene:
        await self.lead()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.die()

    async def give(self, command: str, **fields: object) -> str:
        self.bus.published.clear()
        self.bus.command(Command(**{"command": command, "command_id": "c", "channel_id": CHANNEL, **fields}))
        await until(self._outcomes)
        return self._outcomes()[0]

    def _outcomes(self) -> list[str]:
        return [message.outcome for _, message in self.bus.published if isinstance(message, CommandOutcome)]

    @property
    def taken(self) -> list[str]:
        return [event.agent for event in self.events if isinstance(event, TurnTaken)]

    async def talk(self, starter: str = "claude", **fields: object) -> list[str]:
        """Begin a conversation and let the starter be asked; who comes after it, as the policy has it."""
        assert await self.give("start", agent_name=starter, **fields) == "started"
        await until(lambda: self.bus.asked)
        (state, *_) = await self.state.coordination.conversations.kept()
        return list(state.queue.pending[1:])

    async def ended(self) -> ConversationEnded:
        await until(lambda: any(isinstance(event, ConversationEnded) for event in self.events))
        return next(event for event in self.events if isinstance(event, ConversationEnded))


async def test_who_is_asked_to_begin_begins_with_the_topic_that_was_given():
    async with Scene() as scene:
        await scene.talk("grok", topic="  the price\nof tea ", theme="memes")
        asked, instruction = scene.bus.asked[0]
        assert (asked, instruction.topic, instruction.channel_theme) == ("grok", "the price of tea", "memes")
        assert instruction.is_conversation_starter
        assert not instruction.requested
        scene.speak(4)
        assert (await scene.ended()).state.talk.topic == "the price of tea"


@pytest.mark.promise(124)
async def test_a_requested_agent_speaks_after_the_turn_under_way_and_everybody_once():
    async with Scene() as scene:
        order = await scene.talk()
        last = order[-1]
        assert await scene.give("next", agent_name=last) == "requested"
        assert scene.bus.speakers() == ["claude"], "the turn under way is not cut off"
        scene.speak(4)
        await scene.ended()
        assert scene.taken == ["claude", last, *order[:-1]]
        assert [instruction.requested for _, instruction in scene.bus.asked] == [False, True, False, False]


async def test_one_that_has_spoken_speaks_once_more_and_the_conversation_does_not_end_before_it():
    async with Scene() as scene:
        order = await scene.talk()
        scene.speak(3)
        await until(lambda: len(scene.taken) == 3 and len(scene.bus.asked) == 4)
        assert await scene.give("next", agent_name="claude") == "requested"
        scene.speak(2)
        report = (await scene.ended()).state
        assert scene.taken == ["claude", *order, "claude"]
        assert (report.ended_because, report.counts.round, report.messages) == ("round_limit", 1, 5)


async def test_a_request_ends_the_pause_and_nobody_else_is_asked_before_it():
    async with Scene(turn_delay_min=20.0, turn_delay_max=20.0) as scene:
        order = await scene.talk()
        scene.speak(2)
        await until(lambda: scene.pauses)
        assert scene.bus.speakers() == ["claude"]
        assert await scene.give("next", agent_name=order[2]) == "requested"
        await until(lambda: scene.taken == ["claude", order[2]])
        await until(lambda: len(scene.pauses) == 2)
        assert len(scene.bus.asked) == 2, "the next one has its pause"


async def test_the_last_of_two_requests_counts():
    async with Scene() as scene:
        order = await scene.talk()
        for agent in (order[1], order[2]):
            assert await scene.give("next", agent_name=agent) == "requested"
        scene.speak(4)
        await scene.ended()
        assert scene.taken == ["claude", order[2], order[0], order[1]]


async def test_a_request_outlives_the_leader_and_so_does_the_turn_that_it_brought_about():
    async with Scene() as scene:
        order = await scene.talk()
        assert await scene.give("next", agent_name=order[2]) == "requested"
        for spoken in ([], ["claude"]):
            assert scene.taken == spoken
            await scene.die()
            scene.bus.asked.clear()
            await scene.lead()
            await until(lambda: scene.bus.asked)
            scene.speak()
            await until(lambda spoken=spoken: len(scene.taken) > len(spoken))
            await until(lambda: len(scene.bus.asked) == 2)
        assert scene.taken == ["claude", order[2]]
        assert scene.bus.asked[0][1].requested


async def test_in_a_channel_without_a_conversation_the_agent_has_one_turn():
    async with Scene() as scene:
        assert await scene.give("next", agent_name="gemini") == "started"
        assert await scene.give("next", agent_name="gemini") == "requested", "a second click while it thinks"
        scene.speak(2)
        await until(lambda: not scene.state.coordination.schedule.holders)
        assert scene.bus.speakers() == ["gemini", "gemini"]
        instruction = scene.bus.asked[0][1]
        assert (instruction.requested, instruction.is_conversation_starter) == (True, False)
        assert not [event for event in scene.events if isinstance(event, ConversationStarted | ConversationEnded)]
        assert scene.state.coordination.conversations.states == {}


async def test_a_single_turn_is_resumed_by_the_next_leader():
    async with Scene() as scene:
        await scene.give("next", agent_name="gemini")
        await until(lambda: scene.bus.asked)
        await scene.die()
        scene.state.coordination.schedule.holders.clear()
        scene.speak()
        await scene.lead()
        await until(lambda: scene.taken == ["gemini"])
        assert len({instruction.instruction_id for _, instruction in scene.bus.asked}) == 1


async def test_what_stands_against_a_turn_is_told():
    async with Scene() as scene:
        scene.state.coordination.presence.arriving = {"claude"}
        assert await scene.give("next") == "incomplete"
        assert await scene.give("next", agent_name="nobody") == "unknown_agent"
        assert await scene.give("start", agent_name="nobody") == "unknown_agent"
        assert await scene.give("next", agent_name="grok") == "offline"
        await scene.silence.stop(Scope.channel(CHANNEL), source="m1")
        assert await scene.give("next", agent_name="claude") == "stopped"
        await scene.silence.stop(EVERYTHING, source="m2")
        assert await scene.give("next", agent_name="claude") == "paused"
        assert await scene.give("start") == "paused"
        assert scene.bus.asked == []


async def test_an_owner_ends_the_running_conversation_and_the_channel_is_free():
    async with Scene() as scene:
        await scene.talk()
        assert await scene.give("end") == "ended"
        assert (await scene.ended()).state.ended_because == "stopped"
        await until(lambda: not scene.state.coordination.schedule.holders)
        assert await scene.give("end") == "none_running"
        assert scene.state.coordination.conversations.states == {}


async def test_a_pause_ends_the_conversations_of_all_channels_at_once():
    async with Scene() as scene:
        await scene.talk()
        await scene.silence.stop(EVERYTHING, source="console")
        assert (await scene.ended()).state.ended_because == "stopped"


@pytest.mark.promise(525)
async def test_a_server_that_is_paused_has_no_conversation_and_other_servers_have():
    async with Scene() as scene:
        scene.state.coordination.presence.in_servers = {CHANNEL: 70, OTHER_CHANNEL: 71}
        await scene.talk()
        await scene.silence.stop(Scope("all", guild=71))
        assert await scene.give("next", agent_name="grok") == "requested", "another server is paused"
        await scene.silence.resume(Scope("all", guild=71))
        await scene.silence.stop(Scope("all", guild=70))
        assert (await scene.ended()).state.ended_because == "stopped"
        await until(lambda: not scene.state.coordination.schedule.holders)
        assert await scene.give("start") == await scene.give("next", agent_name="grok") == "paused"
        scene.events.clear()
        assert await scene.give("start", channel_id=None) == "started"
        await until(lambda: len(scene.bus.asked) > 1)
        _, instruction = scene.bus.asked[-1]
        assert (instruction.channel_id, instruction.guild_id) == (OTHER_CHANNEL, 71)


async def test_times_of_today_are_changed_by_commands():
    async with Scene() as scene:
        assert await scene.give("add", at=NOON + 60) == "added"
        assert await scene.give("add", at=NOON + 60) == "known_time"
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("agent_coordinator.scheduler.MAX_SLOTS", 1)
            assert await scene.give("add", at=NOON + 90) == "full_day"
            assert await scene.give("add", at=NOON + 60) == "known_time"
        assert await scene.give("move", at=NOON + 60, to=NOON - 60) == "out_of_day"
        assert await scene.give("move", at=NOON + 60, to=NOON + 120) == "moved"
        assert await scene.give("skip", at=NOON + 60) == "no_such_time"
        assert await scene.give("skip", at=NOON + 120) == "skipped"
        assert await scene.give("move", at=NOON) == "incomplete"
        scene.state.coordination.schedule.away = 1
        scene.bus.published.clear()
        scene.bus.command(Command(command="skip", command_id="c", at=NOON))
        await until(lambda: scene.state.coordination.schedule.away == 0)
        assert scene._outcomes() == [], "nobody knows"


async def test_where_the_agents_agree_to_end_the_requested_one_speaks_before_that():
    async with Scene(room(*AGENTS, end_conversation=True)) as scene:
        order = await scene.talk()
        scene.speak()
        await until(lambda: len(scene.bus.asked) == 2)
        assert await scene.give("next", agent_name=order[2]) == "requested"
        scene.speak(2)
        assert (await scene.ended()).state.ended_because == "agreed"
        assert scene.taken == ["claude", order[0], order[2]]


def test_people_read_who_was_asked_for():
    state = changed(STATE, pending=("claude", "grok", "gemini"), asking="i1", requested="gemini")
    assert (state.queue.speaker, state.queue.coming, state.queue.single) == ("claude", ("gemini", "grok"), False)
    alone = changed(STATE, single=True, requested="grok").grant_request().queue
    assert (alone.speaker, alone.coming, alone.single) == ("grok", (), True)
