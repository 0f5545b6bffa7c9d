"""People write during a conversation: who takes it up, and when; and a conversation that waits for a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from agent_coordinator.config import WAIT_STEP_SECONDS
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agent_coordinator.events import ConversationEnded, Event
from agent_coordinator.policies.rounds import MODERATOR_WAIT_SECONDS
from agentic.state.conversation_state import ConversationState
from agentic.state.talk import PersonMessage
from agentic.wire import keys
from agentic.wire.messages import Command, Instruction, PersonNotice, Result
from tests.support.coordinator_doubles import AGENTS, CHANNEL, Luck, MemoryBus, MemoryState, Time, config, until

STATE = ConversationState("c", CHANNEL, "debate", started_at=0.0).begin_round(("claude", "grok"))


class Scene:
    """A coordinator with four agents, each of which answers when `answers` says what."""

    def __init__(self, **changes: Any) -> None:
        self.time, self.state, self.events = Time(), MemoryState(), list[Event]()
        self.bus = MemoryBus(**dict.fromkeys(AGENTS, self._answer))
        self.config = config(**{"schedule_min": 0, "schedule_max": 0, "policy": "pull", "max_rounds": 2, **changes})
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sleeping: list[float] = []

    @asynccontextmanager
    async def led(self) -> AsyncIterator[Scene]:
        clock = {"clock": self.time.clock, "rng": Luck(0.5), "sleep": self._sleep}
        self.coordinator = Coordinator(CoordinatorContext(self.config, self.bus, self.state, **clock))
        self.coordinator.engine.observers.append(self.events.append)
        running = asyncio.create_task(self.coordinator.run())
        await until(lambda: self.bus.handlers[keys.COORDINATOR_COMMANDS])
        try:
            yield self
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def begin(self, starter: str = "claude") -> None:
        self.bus.command(Command(command="start", channel_id=CHANNEL, agent_name=starter))
        await self.asked(1)

    async def asked(self, number: int) -> tuple[str, Instruction]:
        await until(lambda: len(self.bus.asked) >= number)
        return self.bus.asked[number - 1]

    def say(self, text: str | None, **fields: Any) -> None:
        self.answers.put_nowait({"skipped": True} if text is None else {"text": text, "message_id": 5, **fields})

    def person(self, message_id: int = 900, text: str = "And what about tea?", **fields: Any) -> None:
        notice = PersonNotice(channel_id=CHANNEL, message_id=message_id, text=text, **fields)
        for handler in self.bus.handlers[keys.COORDINATOR_ACTIVITY]:
            handler(notice.to_wire())

    @property
    def ended(self) -> list[str]:
        return [event.state.ended_because for event in self.events if isinstance(event, ConversationEnded)]

    async def _answer(self, instruction: Instruction) -> Result:
        answer = await self.answers.get()
        return Result(instruction_id=instruction.instruction_id, agent_name=self.bus.asked[-1][0], **answer)

    async def _sleep(self, seconds: float) -> None:
        if seconds > WAIT_STEP_SECONDS:  # the scheduler of a day without slots
            await asyncio.Event().wait()
        self.sleeping.append(seconds)
        await (asyncio.Event().wait() if seconds == PAUSE else self.time.sleep(seconds))


PAUSE = 20.0
PAUSED = {"turn_delay_min": PAUSE, "turn_delay_max": PAUSE}


@pytest.mark.promise(190)
async def test_the_next_turn_takes_a_person_up_without_a_pause_and_only_that_turn() -> None:
    async with Scene(**PAUSED).led() as scene:
        await scene.begin()
        scene.say("Coffee keeps sailors awake.")
        await until(lambda: PAUSE in scene.sleeping)
        scene.person()
        assert (await scene.asked(2))[1].take_up == 900
        scene.say("Tea keeps them calm.")
        await until(lambda: scene.sleeping.count(PAUSE) == 2)
        scene.person(901, "Hm.", names=("gemini",))
        agent, instruction = await scene.asked(3)
        assert (agent, instruction.take_up, instruction.chosen_because) == ("gemini", 901, "named by a person")
        scene.say("Neither.")
        await until(lambda: scene.sleeping.count(PAUSE) == 3)
        scene.person(901, "Hm.")  # reported by a second process
        await until(lambda: len(scene.coordinator._tasks) == 1)
        assert len(scene.bus.asked) == 3


@pytest.mark.promise(190)
async def test_one_that_stays_silent_all_the_same_leaves_the_person_to_the_next() -> None:
    async with Scene().led() as scene:
        await scene.begin()
        scene.person()
        await until(lambda: len(scene.coordinator._tasks) == 1)
        scene.say("Coffee.")
        first, instruction = await scene.asked(2)
        assert instruction.take_up == 900
        scene.say(None)
        second, instruction = await scene.asked(3)
        assert instruction.take_up == 900
        assert len({"claude", first, second}) == 3
        scene.say("Tea, then.")
        assert (await scene.asked(4))[1].take_up is None


@pytest.mark.promise(190)
async def test_a_message_that_calls_an_agent_is_left_to_it() -> None:
    async with Scene().led() as scene:
        await scene.begin()
        scene.person(calls=True, names=("grok",))
        await until(lambda: len(scene.coordinator._tasks) == 1)
        scene.say("Coffee.")
        agent, instruction = await scene.asked(2)
        assert (instruction.take_up, agent == "grok") == (None, False)


async def test_in_rounds_people_change_nothing() -> None:
    async with Scene(policy="rounds", **PAUSED).led() as scene:
        await scene.begin()
        scene.say("Coffee keeps sailors awake.")
        await until(lambda: PAUSE in scene.sleeping)
        scene.person()
        await until(lambda: len(scene.coordinator._tasks) == 1)
        assert len(scene.bus.asked) == 1


async def test_the_pulls_of_each_choice_are_kept_for_people_who_ask() -> None:
    async with Scene().led() as scene:
        await scene.begin()
        scene.say("Grok, what keeps sailors awake?")
        agent, instruction = await scene.asked(2)
        assert (agent, instruction.chosen_because) == ("grok", "asked by claude")
        await until(lambda: scene.state.coordination.scores.kept)
        (kept,) = scene.state.coordination.scores.kept
        assert (kept.channel_id, kept.chosen, kept.because) == (CHANNEL, "grok", "asked by claude")
        assert {pull.agent for pull in kept.pulls} == {"chatgpt", "gemini", "grok"}


@pytest.mark.promise(192)
async def test_a_conversation_that_people_moderate_waits_for_them_and_then_ends() -> None:
    async with Scene(policy="moderated").led() as scene:
        await scene.begin()
        scene.say("Coffee.")
        await until(lambda: scene.ended)
        assert scene.ended == ["nobody_named"]
        assert scene.sleeping.count(WAIT_STEP_SECONDS) == MODERATOR_WAIT_SECONDS / WAIT_STEP_SECONDS


@pytest.mark.promise(192)
async def test_a_wait_for_a_person_goes_on_after_a_restart() -> None:
    async with Scene(policy="moderated").led() as scene:
        await scene.begin()
        scene.say("Coffee.")
        await until(lambda: scene.sleeping.count(WAIT_STEP_SECONDS) == 20)
    began, (kept,) = scene.time.now - 20 * WAIT_STEP_SECONDS, await scene.state.coordination.conversations.kept()
    scene.time.now += 15 * WAIT_STEP_SECONDS  # nobody leads
    assert kept.queue.waits_until is not None
    async with scene.led():
        await until(lambda: scene.ended)
    assert scene.ended == ["nobody_named"]
    assert scene.time.now == pytest.approx(began + MODERATOR_WAIT_SECONDS, abs=2 * WAIT_STEP_SECONDS)


def test_a_person_who_wrote_while_a_turn_was_under_way_is_not_yet_taken_up() -> None:
    state = STATE.begin_turn("i").hear(PersonMessage(900, "Hm."))
    result = Result(instruction_id="i", agent_name="claude", text="Well.", message_id=5, answers_message_id=880)
    assert STATE.take_turn("claude", result).hear(PersonMessage(900, "Hm.")).talk.must_answer == 900
    read = result.model_copy(update={"answers_message_id": 900})
    assert state.take_turn("claude", read).talk.must_answer is None


def test_what_people_wrote_survives_a_restart() -> None:
    state = STATE.hear(PersonMessage(900, "Hm.", ("grok",), "claude", calls=False, after=3))
    assert ConversationState.from_json(state.to_json()) == state


def test_another_process_may_know_later_that_a_message_was_a_call() -> None:
    heard = PersonMessage(900, "Hm.", after=3)
    state = STATE.hear(heard).hear(PersonMessage(900, "Hm.", calls=True))
    assert state.talk.must_answer is None
    assert (state.talk.heard[-1].calls, state.talk.heard[-1].after, len(state.talk.heard)) == (True, 3, 1)
    assert state.hear(heard) == state


@pytest.mark.promise(628)
def test_a_message_that_calls_an_agent_is_left_to_it_however_often_it_is_reported() -> None:
    heard = PersonMessage(900, "@claude hello", ("claude",), calls=True, called=("claude",))
    state = STATE.hear(heard).hear(heard)
    assert state.talk.must_answer is None
    assert state.hear(PersonMessage(900, "@claude hello", ("claude",))).talk.must_answer is None
