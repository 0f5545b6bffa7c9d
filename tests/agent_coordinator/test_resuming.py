"""Conversations that are resumed, and those that a person ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agent_coordinator.config import RESUME_SECONDS
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agent_coordinator.engine import Engine
from agent_coordinator.events import ConversationEnded, ConversationStarted
from agent_coordinator.policies.by_name import Policies
from agentic.state.conversation_state import ConversationState
from agentic.state.silence import Scope, SilenceChange
from agentic.wire.messages import Command, Instruction, MentionNotice, Result
from tests.support.agent_scene import KeptNotes
from tests.support.coordinator_doubles import (
    AGENTS,
    CHANNEL,
    OTHER_CHANNEL,
    Luck,
    MemoryBus,
    MemoryLease,
    MemoryState,
    Time,
    config,
    room,
    skipper,
    talker,
    until,
)
from tests.support.doubles import lone_silence


class Stage:
    """Coordinators that come one after another, over one Redis."""

    def __init__(self, bus: MemoryBus, **changes: object) -> None:
        self.bus, self.state, self.time = bus, MemoryState(), Time()
        self.silence = lone_silence(self.time.clock)
        plain = {"schedule_min": 0, "schedule_max": 0, "max_rounds": 2}
        self.config = config(**{**plain, **changes})
        self.events: list[object] = []
        self.record = KeptNotes()
        self.luck: Luck = Luck()
        self.coordinators: list[asyncio.Task[None]] = []

    def _common(self) -> dict:
        async def sleep(seconds: float) -> None:  # the scheduler of a day without slots sleeps for good
            await (self.time.sleep(seconds) if seconds < 3600 else asyncio.Event().wait())

        return {"clock": self.time.clock, "rng": self.luck, "sleep": sleep, "silence": self.silence}

    def engine(self) -> Engine:
        engine = Engine(CoordinatorContext(self.config, self.bus, self.state, **self._common()), Policies(self.config))
        self.silence.on_change(engine.on_silence)
        engine.observers.append(self.events.append)
        return engine

    def lead(self, lease: MemoryLease | None = None) -> Coordinator:
        coordinator = Coordinator(
            CoordinatorContext(self.config, self.bus, self.state, lease=lease, record=self.record, **self._common())
        )
        coordinator.engine.observers.append(self.events.append)
        self.coordinators.append(asyncio.create_task(coordinator.run()))
        return coordinator

    async def die(self) -> None:
        """As by SIGKILL: what is in Redis stays as it is, the hold too."""
        held = dict(self.state.coordination.schedule.holders)
        await self.aclose()
        self.state.coordination.schedule.holders = held

    async def aclose(self) -> None:
        for task in self.coordinators:
            task.cancel()
        await asyncio.gather(*self.coordinators, return_exceptions=True)
        self.coordinators.clear()

    @property
    def reports(self) -> list:
        return [event.state for event in self.events if isinstance(event, ConversationEnded)]

    @property
    def kept(self) -> ConversationState:
        return ConversationState.from_json(self.state.coordination.conversations.states[CHANNEL][1])


class Hanging:
    """A voice that answers when it is let go."""

    def __init__(self, agent: str) -> None:
        self.agent, self.asked, self.go_on = agent, asyncio.Event(), asyncio.Event()

    async def __call__(self, instruction: Instruction) -> Result:
        self.asked.set()
        await self.go_on.wait()
        return talker(self.agent)(instruction)


@pytest.fixture
async def stage():
    made = Stage(room(*AGENTS))
    yield made
    await made.aclose()


async def cut_off(stage: Stage, after: int, first: str = "claude") -> str:
    """A leader dies while it waits for a turn, `after` others; whose turn it was."""
    waiting: list[Hanging] = []
    voices = dict(stage.bus.voices)

    def answer(agent):
        def voice(instruction):
            if len(stage.bus.asked) <= after:
                return voices[agent](instruction)
            waiting.append(Hanging(agent))
            return waiting[-1](instruction)

        return voice

    stage.bus.voices = {agent: answer(agent) for agent in AGENTS}
    coordinator = stage.lead()
    await until(lambda: coordinator.acting)
    talking = asyncio.create_task(coordinator.engine.converse(CHANNEL, "debate", starter=first))
    stage.coordinators.append(talking)
    await until(lambda: waiting)
    await stage.die()
    stage.bus.voices = voices
    return waiting[0].agent


@pytest.mark.promise(77)
@pytest.mark.parametrize("after", [0, 1, 3, 4, 6])
async def test_a_new_leader_goes_on_at_the_round_and_speaker_with_the_same_instruction(stage: Stage, after: int):
    agent = await cut_off(stage, after)
    before = list(stage.bus.asked)
    stage.lead()
    await until(lambda: stage.reports)
    again = stage.bus.asked[len(before)]
    assert (again[0], again[1].instruction_id) == (agent, before[-1][1].instruction_id)
    assert again[1].conversation_history == before[-1][1].conversation_history
    asked = [who for who, _ in before[:-1]] + [who for who, _ in stage.bus.asked[len(before) :]]
    assert sorted(asked) == sorted(AGENTS * 2), "each once a round, nobody twice and nobody left out"
    (report,) = stage.reports
    assert (report.messages, report.counts.round, report.ended_because) == (8, 2, "round_limit")
    assert len({instruction.conversation_id for _, instruction in stage.bus.asked}) == 1


async def test_a_leader_that_ends_in_order_leaves_its_conversation_to_the_next(stage: Stage):
    await cut_off(stage, 2)
    stage.state.coordination.schedule.holders.clear()
    stage.lead()
    await until(lambda: stage.reports)
    assert sum(isinstance(event, ConversationStarted) for event in stage.events) == 1, "it continues"
    assert stage.state.coordination.conversations.states == {}
    assert stage.state.coordination.schedule.holders == {}


async def test_the_turn_that_was_under_way_is_asked_for_again_without_another_pause():
    stage = Stage(room(*AGENTS), max_rounds=1, turn_delay_min=20.0, turn_delay_max=20.0)
    await cut_off(stage, 2)
    stage.time.slept.clear()
    stage.lead()
    await until(lambda: stage.reports)
    assert stage.time.slept.count(20.0) == 1, "before the fourth, and not before the third"
    await stage.aclose()


async def test_a_conversation_that_nobody_led_for_long_is_closed_in_order(stage: Stage):
    await cut_off(stage, 2)
    asked = len(stage.bus.asked)
    stage.time.now += RESUME_SECONDS + 1
    stage.lead()
    await until(lambda: stage.reports)
    assert (stage.reports[0].ended_because, stage.reports[0].messages) == ("too_old", 2)
    assert len(stage.bus.asked) == asked
    assert stage.state.coordination.conversations.states == {}


async def test_what_was_kept_and_cannot_be_read_is_named_and_left(stage: Stage, caplog):
    stage.state.coordination.conversations.states[CHANNEL] = ("c", '{"conversation_id": 1}')
    coordinator = stage.lead()
    await until(lambda: coordinator.acting)
    assert "can't be resumed" in caplog.text
    assert (await coordinator.start_conversation(CHANNEL)).messages == 8


async def test_a_conversation_that_ended_is_not_begun_again(stage: Stage):
    coordinator = stage.lead()
    await until(lambda: coordinator.acting)
    await coordinator.start_conversation(CHANNEL)
    await stage.die()
    stage.lead()
    await asyncio.sleep(0)
    assert len(stage.reports) == 1
    assert stage.state.coordination.conversations.states == {}


async def test_the_state_is_kept_before_and_after_each_turn(stage: Stage):
    seen = []

    def voice(agent):
        def speak(instruction):
            seen.append((stage.kept.queue.asking == instruction.instruction_id, len(stage.kept.talk.history)))
            return talker(agent)(instruction)

        return speak

    stage.bus.voices = {agent: voice(agent) for agent in AGENTS}
    await stage.engine().converse(CHANNEL, "debate", starter="claude")
    assert seen == [(True, count) for count in range(8)]


async def test_a_conversation_that_began_long_ago_and_is_alive_is_gone_on_with(stage: Stage):
    engine = stage.engine()
    began, touched = stage.time.now - RESUME_SECONDS - 60, stage.time.now - 1
    state = ConversationState("c1", CHANNEL, "debate", started_at=began, touched_at=touched).begin_round(AGENTS)
    report = await engine.resume(state)
    assert report is not None
    assert (report.ended_because, report.messages) == ("round_limit", 8)


# -- one leader -------------------------------------------------------------------------------------------------------


async def paused_leader(stage: Stage, turns: int = 2) -> tuple[MemoryLease, Hanging]:
    """A leader is paused for longer than its lease while it waits for a turn's result, after others, and another one
    leads. Whose turn it is answers when it is let go."""
    lease = MemoryLease()
    old = stage.lead(lease)
    stage.state.coordination.schedule.epoch = 1
    await until(lambda: old.acting)
    waiting: list[Hanging] = []
    voices = dict(stage.bus.voices)

    def answer(agent):
        def voice(instruction):
            if len(stage.bus.asked) <= turns:
                return voices[agent](instruction)
            waiting.append(Hanging(agent))
            return waiting[-1](instruction)

        return voice

    stage.bus.voices = {agent: answer(agent) for agent in AGENTS}
    talking = asyncio.create_task(old.engine.converse(CHANNEL, "debate", starter="claude"))
    stage.coordinators.append(talking)
    await until(lambda: waiting)
    stage.bus.voices = voices
    lease.lapsed = True
    stage.state.coordination.schedule.epoch = 2
    return lease, waiting[0]


@pytest.mark.promise(105)
async def test_a_leader_that_wakes_up_while_another_one_leads_gives_no_turn_and_ends_nothing(stage: Stage):
    _, thinking = await paused_leader(stage)
    asked, kept = len(stage.bus.asked), stage.kept
    thinking.go_on.set()  # it hears the result, and its lease has run out
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(stage.bus.asked) == asked
    assert stage.kept == kept, "the successor's state is not written over"
    stage.coordinators[-1].cancel()  # as the coordinator does when it hears of the loss
    await asyncio.gather(stage.coordinators[-1], return_exceptions=True)
    assert (stage.kept, stage.reports) == (kept, [])


async def test_a_leader_whose_lease_only_ran_out_goes_on_when_it_is_renewed(stage: Stage):
    lease, thinking = await paused_leader(stage)
    stage.state.coordination.schedule.epoch = 1  # nobody took it
    thinking.go_on.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert stage.reports == []
    lease.lapsed = False
    await until(lambda: stage.reports)
    assert (stage.reports[0].ended_because, stage.reports[0].messages) == ("round_limit", 8)


async def test_a_leader_whose_lease_runs_out_while_it_keeps_a_turn_asks_when_it_is_renewed_and_not_before(stage: Stage):
    lease, keep = MemoryLease(), stage.state.coordination.conversations.keep

    async def keep_slowly(*state: Any) -> bool:
        lease.lapsed = True
        return await keep(*state)

    coordinator = stage.lead(lease)
    await until(lambda: coordinator.acting)
    stage.state.coordination.conversations.keep = keep_slowly
    stage.coordinators.append(asyncio.create_task(coordinator.engine.converse(CHANNEL, "debate", starter="claude")))
    await until(lambda: CHANNEL in stage.state.coordination.conversations.states and stage.kept.queue.asking)
    for _ in range(50):
        await asyncio.sleep(0)
    assert stage.bus.asked == []
    stage.state.coordination.conversations.keep, lease.lapsed = keep, False
    await until(lambda: stage.reports)
    assert stage.reports[0].messages == 8


@pytest.mark.promise(105)
async def test_two_leaders_of_whom_one_was_paused_give_each_turn_once():
    stage = Stage(room(*AGENTS))
    lease, thinking = await paused_leader(stage)
    heir = MemoryLease()
    heir.epoch = 1
    stage.lead(heir)
    thinking.go_on.set()
    await until(lambda: stage.reports)
    lease.take_away()
    ids = [instruction.instruction_id for _, instruction in stage.bus.asked]
    assert (len(set(ids)), len(ids)) == (8, 9), "only the turn under way was asked for twice, by its id"
    assert (len(stage.reports), stage.reports[0].messages) == (1, 8)
    await stage.aclose()


async def test_what_a_leader_was_about_to_ask_is_not_asked_when_it_wakes_up_too_late(stage: Stage):
    """It was paused between its look at the lease and the next step: Redis refuses by the epoch."""
    lease = MemoryLease()
    old = stage.lead(lease)
    stage.state.coordination.schedule.epoch = 1
    await until(lambda: old.acting)

    def overtaken(instruction):
        stage.state.coordination.schedule.epoch = 2
        return talker("claude")(instruction)

    stage.bus.voices["claude"] = overtaken
    talking = asyncio.create_task(old.engine.converse(CHANNEL, "debate", starter="claude"))
    stage.coordinators.append(talking)
    await until(lambda: stage.reports)
    assert stage.bus.speakers() == ["claude"]
    assert stage.reports[0].ended_because == "channel_taken"
    assert stage.state.coordination.conversations.states, "what was kept is the successor's"


async def test_a_leader_that_does_not_know_whether_it_leads_joins_in_nowhere_and_obeys_when_it_does():
    stage = Stage(room(*AGENTS), reactive_probability=1.0)
    lease = MemoryLease()
    coordinator = stage.lead(lease)
    await until(lambda: coordinator.acting)
    lease.lapsed = True
    stage.bus.command(Command(command="start", channel_id=CHANNEL))
    stage.bus.notify(MentionNotice(agent_name="claude", channel_id=CHANNEL, message_id=2, trigger_message_id=1))
    for _ in range(50):
        await asyncio.sleep(0)
    assert (stage.bus.asked, stage.state.coordination.schedule.reactive_asked, coordinator.acting) == ([], 0, False)
    lease.lapsed = False
    await until(lambda: stage.reports)
    assert (stage.reports[0].messages, stage.state.coordination.schedule.reactive_asked) == (8, 0)
    await stage.aclose()


async def test_what_an_overtaken_leader_was_told_to_begin_it_does_not_begin():
    stage = Stage(room(*AGENTS))
    lease = MemoryLease()
    coordinator = stage.lead(lease)
    await until(lambda: coordinator.acting)
    lease.lapsed = True
    stage.bus.command(Command(command="start", channel_id=CHANNEL))
    for _ in range(50):
        await asyncio.sleep(0)
    lease.take_away()
    await until(lambda: not coordinator._acting)
    lease.give()
    await until(lambda: coordinator.acting)
    assert (stage.bus.asked, stage.state.coordination.schedule.holders) == ([], {})
    await stage.aclose()


async def test_a_leader_that_wakes_up_after_the_last_turn_does_not_end_what_is_anothers(stage: Stage):
    _, thinking = await paused_leader(stage, 7)
    kept = stage.kept
    thinking.go_on.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert (stage.reports, stage.kept) == ([], kept)


async def test_where_one_other_agent_is_there_chance_brings_in_no_more_than_that_one():
    stage = Stage(room("claude", "grok"), reactive_probability=1.0, agents=("claude", "grok"))
    stage.luck = TwoJoin()
    coordinator = stage.lead()
    assert coordinator.reactive.joiners("claude") == ("grok",)
    await stage.aclose()


# -- a person's stop --------------------------------------------------------------------------------------------------


async def test_a_stop_ends_the_conversation_while_an_agent_thinks(stage: Stage):
    claude = Hanging("claude")
    stage.bus.voices["claude"] = claude
    talking = asyncio.create_task(stage.engine().converse(CHANNEL, "debate", starter="claude"))
    await claude.asked.wait()
    await stage.silence.stop(Scope.channel(CHANNEL), source="m1")
    report = await talking
    assert (report.ended_because, report.messages) == ("stopped", 0)
    assert stage.bus.speakers() == ["claude"]
    assert stage.state.coordination.conversations.states == {}


async def test_a_stop_that_comes_twice_and_one_of_another_channel_do_no_harm(stage: Stage):
    claude = Hanging("claude")
    stage.bus.voices["claude"] = claude
    engine = stage.engine()
    talking = asyncio.create_task(engine.converse(CHANNEL, "debate", starter="claude"))
    await claude.asked.wait()
    await engine.on_silence(SilenceChange(Scope.channel(OTHER_CHANNEL)))
    claude.go_on.set()
    await until(lambda: len(stage.bus.asked) > 2)
    await engine.on_silence(SilenceChange(Scope.channel(CHANNEL)))
    await engine.on_silence(SilenceChange(Scope.channel(CHANNEL)))
    report = await talking
    await engine.on_silence(SilenceChange(Scope.channel(CHANNEL)))
    assert report.ended_because == "stopped"


async def test_nothing_is_fired_in_a_channel_that_is_stopped(stage: Stage):
    await stage.silence.stop(Scope.channel(CHANNEL), source="m1")
    coordinator = stage.lead()
    await until(lambda: coordinator.acting)
    assert await coordinator.start_conversation(CHANNEL) is None
    for _ in range(3):
        report = await coordinator.start_conversation()
        assert report is not None
        assert report.channel_id == OTHER_CHANNEL
    await stage.silence.stop(Scope.channel(OTHER_CHANNEL), source="m2")
    assert await coordinator.start_conversation() is None
    stage.bus.command(Command(command="start", channel_id=CHANNEL))
    await asyncio.sleep(0)
    assert CHANNEL not in {instruction.channel_id for _, instruction in stage.bus.asked}


async def test_a_conversation_is_not_gone_on_with_where_a_person_wants_silence(stage: Stage):
    await cut_off(stage, 2)
    asked = len(stage.bus.asked)
    await stage.silence.stop(Scope.channel(CHANNEL), source="m1")
    stage.lead()
    await until(lambda: stage.reports)
    assert stage.reports[0].ended_because == "stopped"
    assert len(stage.bus.asked) == asked


async def test_an_agent_that_heard_of_the_stop_first_ends_the_conversation(stage: Stage):
    stage.bus.voices["claude"] = skipper("claude", "stopped")
    report = await stage.engine().converse(CHANNEL, "debate", starter="claude")
    assert (report.ended_because, len(stage.bus.asked)) == ("stopped", 1)


@pytest.mark.promise(106)
async def test_nobody_joins_in_where_a_person_wants_silence():
    stage = Stage(room(*AGENTS), reactive_probability=1.0)
    await stage.silence.stop(Scope.channel(CHANNEL), source="m1")
    coordinator = stage.lead()
    await until(lambda: coordinator.acting)
    stage.bus.notify(MentionNotice(agent_name="claude", channel_id=CHANNEL, message_id=2, trigger_message_id=1))
    stage.bus.notify(MentionNotice(agent_name="claude", channel_id=OTHER_CHANNEL, message_id=2, trigger_message_id=1))
    await until(lambda: stage.bus.asked)
    assert {instruction.channel_id for _, instruction in stage.bus.asked} == {OTHER_CHANNEL}
    await stage.aclose()


# -- reactive rounds --------------------------------------------------------------------------------------------------


class TwoJoin(Luck):
    """Chance brings in as many as may come."""

    def randint(self, a: int, b: int) -> int:
        return b


async def joining(**changes: object) -> tuple[Stage, Hanging, Hanging]:
    """A mention was answered by claude; two others are brought in, and the first of them thinks."""
    stage = Stage(room(*AGENTS), reactive_probability=1.0, **changes)
    stage.luck = TwoJoin()
    voices = {agent: Hanging(agent) for agent in AGENTS}
    stage.bus.voices = voices
    coordinator = stage.lead()
    await until(lambda: coordinator.acting)
    stage.bus.notify(MentionNotice(agent_name="claude", channel_id=CHANNEL, message_id=8, trigger_message_id=7))
    await until(lambda: stage.bus.asked)
    first, second = stage.kept.queue.pending
    await voices[first].asked.wait()
    return stage, voices[first], voices[second]


async def test_a_reactive_round_is_gone_on_with_by_the_next_leader_with_the_same_instruction():
    stage, first, second = await joining()
    await stage.die()
    first.go_on.set()
    second.go_on.set()
    stage.lead()
    await until(lambda: len(stage.bus.asked) == 3 and not stage.state.coordination.conversations.states)
    assert [agent for agent, _ in stage.bus.asked] == [first.agent, first.agent, second.agent]
    before, again, after = (instruction for _, instruction in stage.bus.asked)
    assert again.instruction_id == before.instruction_id
    assert [i.trigger_message_id for i in (before, again, after)] == [7, 7, 7]
    assert not any(i.is_conversation_starter for i in (before, again, after))
    assert (stage.reports, stage.state.coordination.schedule.holders) == ([], {}), "it is no conversation"
    await stage.aclose()


async def test_a_reactive_round_that_is_too_old_is_dropped():
    stage, *_ = await joining()
    await stage.die()
    stage.time.now += RESUME_SECONDS + 1
    stage.lead()
    await until(lambda: not stage.state.coordination.conversations.states)
    assert (len(stage.bus.asked), stage.reports) == (1, [])
    await stage.aclose()


async def test_a_stop_ends_a_reactive_round():
    stage, first, _ = await joining()
    await stage.silence.stop(Scope.channel(CHANNEL), source="m1")
    first.go_on.set()
    await until(
        lambda: not stage.state.coordination.conversations.states and not stage.state.coordination.schedule.holders
    )
    assert len(stage.bus.asked) == 1
    await stage.aclose()


# -- barge-in ---------------------------------------------------------------------------------------------------------


async def test_after_a_turn_that_gave_way_to_a_person_the_next_comes_at_once_and_it_counts_as_no_skip():
    stage = Stage(room(*AGENTS), max_rounds=1, turn_delay_min=20.0, turn_delay_max=20.0)
    for agent in ("chatgpt", "gemini", "grok"):
        stage.bus.voices[agent] = skipper(agent, "overtaken")
    report = await stage.engine().converse(CHANNEL, "debate", starter="claude")
    assert stage.time.slept == [20.0], "after what was said, and after nothing else"
    assert report.ended_because == "too_few_spoke", "not most_skipped"


@pytest.mark.parametrize("resumes", [True, False])
async def test_a_conversation_is_noted_for_the_record_when_it_begins_and_however_it_ends(stage, resumes):
    await cut_off(stage, 3)
    stage.config = replace(stage.config, resumes=resumes)
    stage.lead()
    await until(lambda: stage.reports)
    began, ended = stage.record
    assert (began.id, began.starter, began.ended_at) == (ended.id, "claude", None)
    assert (ended.started_at, ended.theme, ended.channel_id) == (began.started_at, "debate", CHANNEL)
    assert (ended.ended_because == "too_old") is not resumes
    assert (ended.starter, ended.messages >= 3, ended.ended_at) == ("claude", True, stage.time.now)
    assert await stage.state.coordination.conversations.kept() == []


async def test_a_conversation_that_begins_with_the_program_is_none_of_those_that_an_earlier_leader_left(stage):
    stage.config = replace(stage.config, resumes=False)
    schedule = stage.state.coordination.schedule
    release = schedule.release_all_channels

    async def slowly() -> None:
        for _ in range(200):  # long enough for a conversation to be under way, which must not be
            if stage.bus.asked:
                break
            await asyncio.sleep(0)
        await release()

    schedule.release_all_channels = slowly
    report = await stage.lead(MemoryLease()).start_conversation(CHANNEL)
    assert report.ended_because == "round_limit"
    assert stage.reports == [report]
