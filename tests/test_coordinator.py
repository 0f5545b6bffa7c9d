"""The coordinator against doubles of Redis, of the agents and of time; runs by pytest and by unittest's discovery."""

from __future__ import annotations

import asyncio
import logging
import random
import unittest
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from agent_coordinator.channels import ChannelBusy, pick_channel, pick_starter
from agent_coordinator.config import AGENT_RESPONSE_TIMEOUT, CoordinatorConfig
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agent_coordinator.engine import Engine
from agent_coordinator.events import (
    ConversationEnded,
    ConversationStarted,
    Event,
    TurnTaken,
)
from agent_coordinator.policies.by_name import Policies
from agent_coordinator.reactive import Reactive
from agent_coordinator.scheduler import Scheduler
from agentic.services.signal.envelopes import direct_chat_id
from agentic.state.conversation_state import ConversationState
from agentic.state.schedule import Slot
from agentic.wire.bus import AgentTimedOut
from agentic.wire.messages import Command, Instruction, MentionNotice, Result
from tests.support.coordinator_doubles import (
    AGENTS,
    BERLIN,
    CHANNEL,
    NOON,
    OTHER_CHANNEL,
    Ids,
    Luck,
    MemoryBus,
    MemoryLease,
    MemoryPresence,
    MemoryState,
    Time,
    config,
    room,
    skipper,
    talker,
    until,
)
from tests.support.unittest_case import AsyncCase


class Stage:
    """An engine among doubles."""

    def __init__(self, bus: MemoryBus, *, luck: float = 0.0, **changes: Any) -> None:
        self.bus = bus
        self.time = Time()
        self.state = MemoryState()
        self.config = config(**changes)
        self.context = CoordinatorContext(
            self.config, bus, self.state, clock=self.time.clock, rng=Luck(luck), sleep=self.time.sleep
        )
        self.engine = Engine(self.context, Policies(self.config))
        self.events: list[Event] = []
        self.engine.observers.append(self.events.append)

    async def converse(self, starter: str | None = "claude", channel: int = CHANNEL) -> ConversationState:
        return await self.engine.converse(channel, "debate", starter=starter)


class MoneyTests(AsyncCase):
    async def test_a_closing_turn_ends_the_conversation(self) -> None:
        bus = room(*AGENTS)
        stage = Stage(bus, max_rounds=9)
        spoken: list[str] = []
        for agent in AGENTS:
            bus.voices[agent] = lambda instruction, agent=agent: (
                spoken.append(agent)
                or talker(  # type: ignore[misc]
                    agent, reason="budget" if len(spoken) == 6 else None
                )(instruction)
            )
        report = await stage.converse()
        self.assertEqual((report.ended_because, report.messages), ("budget", 6))

    async def test_where_there_is_no_money_to_begin_with_nobody_else_is_asked(self) -> None:
        bus = room(*AGENTS)
        bus.voices["claude"] = skipper("claude", "budget")
        report = await Stage(bus).converse("claude")
        self.assertEqual((report.ended_because, bus.speakers()), ("budget", ["claude"]))

    async def test_an_agent_without_money_of_its_own_is_one_that_skips(self) -> None:
        bus = room(*AGENTS)
        bus.voices["grok"] = skipper("grok", "agent_budget")
        report = await Stage(bus, max_rounds=1).converse("claude")
        self.assertEqual((report.ended_because, report.messages, report.skips), ("round_limit", 3, 1))

    async def test_one_whose_provider_refuses_it_is_passed_over_like_one_that_is_absent(self) -> None:
        bus = room("chatgpt", "gemini")
        bus.voices["claude"], bus.voices["grok"] = skipper("claude", "benched"), skipper("grok", "muted")
        report = await Stage(bus, max_rounds=2).converse("claude")
        self.assertEqual(
            (report.counts.round, report.messages, report.skips, report.counts.total.absences), (2, 4, 0, 4)
        )

    async def test_one_that_does_not_speak_in_the_channel_is_absent_there(self) -> None:
        bus = room("chatgpt", "gemini", "grok")
        bus.voices["claude"] = skipper("claude", "unknown_channel")
        report = await Stage(bus, max_rounds=2).converse("gemini")
        self.assertEqual((report.messages, report.skips, report.counts.total.absences), (6, 0, 2))


class OpeningTests(AsyncCase):
    async def test_the_starter_opens_and_is_told_so(self) -> None:
        stage = Stage(room(*AGENTS))
        await stage.converse("grok")
        first, second = stage.bus.asked[:2]
        self.assertEqual((first[0], first[1].is_conversation_starter, first[1].round_number), ("grok", True, 1))
        self.assertFalse(second[1].is_conversation_starter)

    async def test_a_starter_that_skips_passes_the_start_on(self) -> None:
        stage = Stage(room("chatgpt", "gemini", "grok", skipping=["claude"]))
        await stage.converse("claude")
        starts = [instruction.is_conversation_starter for _, instruction in stage.bus.asked]
        self.assertEqual(starts[:3], [True, True, False])

    async def test_an_absent_starter_passes_the_start_on_without_any_wait(self) -> None:
        stage = Stage(room("chatgpt", "gemini", "grok"), turn_delay_min=20.0, turn_delay_max=20.0, max_rounds=1)
        report = await stage.converse("claude")
        self.assertEqual(report.messages, 3)
        self.assertEqual(stage.time.slept, [20.0, 20.0])

    async def test_a_starter_that_times_out_passes_the_start_on(self) -> None:
        bus = room(*AGENTS)
        bus.voices["claude"] = lambda _: AgentTimedOut("late")
        stage = Stage(bus, max_rounds=1)
        report = await stage.converse("claude")
        self.assertTrue(bus.asked[1][1].is_conversation_starter)
        self.assertEqual((report.counts.total.timeouts, report.messages), (1, 3))

    async def test_a_reaction_alone_does_not_open_a_conversation(self) -> None:
        bus = room("chatgpt", "gemini", "grok")
        bus.voices["claude"] = talker("claude", text=None, message_id=None, emoji_reacted="🔥", react_to_message_id=5)
        stage = Stage(bus)
        await stage.converse("claude")
        self.assertTrue(bus.asked[1][1].is_conversation_starter)

    async def test_nobody_who_opens_ends_it_after_each_was_asked_once(self) -> None:
        stage = Stage(room(skipping=AGENTS))
        report = await stage.converse()
        self.assertEqual(report.ended_because, "nobody_opened")
        self.assertEqual(sorted(stage.bus.speakers()), sorted(AGENTS))

    async def test_nobody_there_ends_it_too(self) -> None:
        report = await Stage(room()).converse()
        self.assertEqual((report.ended_because, report.counts.total.absences, report.messages), ("nobody_opened", 4, 0))

    async def test_the_topic_that_the_starter_names_goes_to_all_others(self) -> None:
        bus = room(*AGENTS)
        bus.voices["claude"] = talker("claude", topic="tea or coffee")
        stage = Stage(bus)
        report = await stage.converse("claude")
        self.assertEqual(report.talk.topic, "tea or coffee")
        self.assertIsNone(bus.asked[0][1].topic)
        self.assertTrue(all(instruction.topic == "tea or coffee" for _, instruction in bus.asked[1:]))

    async def test_without_a_starter_the_channels_queue_names_one(self) -> None:
        stage = Stage(room(*AGENTS), max_rounds=1)
        for _ in AGENTS:
            await stage.converse(None)
        self.assertEqual({stage.bus.asked[index][0] for index in (0, 4, 8, 12)}, set(AGENTS))


class TurnTests(AsyncCase):
    async def test_each_round_asks_everybody_once(self) -> None:
        stage = Stage(room(*AGENTS))
        report = await stage.converse()
        rounds = [stage.bus.speakers()[start : start + 4] for start in (0, 4, 8)]
        self.assertTrue(all(sorted(speakers) == sorted(AGENTS) for speakers in rounds))
        self.assertEqual((report.counts.round, report.messages), (3, 12))

    async def test_the_last_speaker_is_not_the_first_of_the_next_round(self) -> None:
        stage = Stage(room(*AGENTS), max_rounds=30)
        await stage.converse()
        speakers = stage.bus.speakers()
        self.assertEqual(len(speakers), 120)
        self.assertTrue(all(one != other for one, other in pairwise(speakers)))

    async def test_an_instruction_carries_the_conversation_and_a_deadline(self) -> None:
        stage = Stage(room(*AGENTS))
        await stage.converse("claude")
        instruction = stage.bus.asked[2][1]
        self.assertEqual(instruction.deadline, NOON + AGENT_RESPONSE_TIMEOUT)
        self.assertEqual(
            (instruction.action, instruction.channel_id, instruction.channel_theme), ("decide", CHANNEL, "debate")
        )
        self.assertEqual([entry.message_id for entry in instruction.conversation_history], [1001, 1002])
        self.assertEqual(instruction.conversation_history[0].agent, "claude")

    async def test_slow_models_may_be_given_more_time_than_that(self) -> None:
        stage = Stage(room(*AGENTS), turn_seconds=300.0)
        await stage.converse("claude")
        self.assertEqual(stage.bus.asked[0][1].deadline, NOON + 300.0)

    async def test_instruction_ids_are_all_different_and_the_conversations_id_is_one(self) -> None:
        stage = Stage(room(*AGENTS))
        await stage.converse()
        instructions = [instruction for _, instruction in stage.bus.asked]
        self.assertEqual(len({instruction.instruction_id for instruction in instructions}), 12)
        self.assertEqual(len({instruction.conversation_id for instruction in instructions}), 1)

    async def test_a_reaction_is_written_at_the_entry_it_belongs_to(self) -> None:
        bus = room("claude", "chatgpt")
        reaction = {"text": None, "emoji_reacted": "🔥", "react_to_message_id": 1001, "message_id": None}
        bus.voices["grok"] = talker("grok", **reaction)
        stage = Stage(bus)
        await stage.converse("claude")
        last = bus.asked[-1][1].conversation_history[0]
        self.assertTrue(last.text.startswith("claude speaks  [reactions: 🔥 (grok)"), last.text)

    async def test_delays_lie_between_turns_that_showed_something_and_not_before_the_first(self) -> None:
        stage = Stage(room("chatgpt", "claude", skipping=["gemini", "grok"]), turn_delay_min=15.0, turn_delay_max=45.0)
        await stage.converse("claude")
        self.assertGreaterEqual(len(stage.time.slept), 1)
        self.assertLess(len(stage.time.slept), len(stage.bus.asked))
        self.assertTrue(all(15.0 <= delay <= 45.0 for delay in stage.time.slept))

    async def test_the_pause_between_turns_is_drawn_from_its_range(self) -> None:
        for luck, seconds in ((0.0, 15.0), (0.5, 30.0), (1.0, 45.0)):
            stage = Stage(room(*AGENTS), luck=luck, max_rounds=1, turn_delay_min=15.0, turn_delay_max=45.0)
            await stage.converse("claude")
            self.assertEqual(stage.time.slept, [seconds] * 3)

    async def test_no_delay_is_allowed(self) -> None:
        stage = Stage(room(*AGENTS))
        await stage.converse()
        self.assertEqual(stage.time.slept, [])

    async def test_absent_agents_are_passed_over_and_the_others_go_on(self) -> None:
        stage = Stage(room("claude", "grok"))
        report = await stage.converse()
        self.assertEqual((report.messages, report.counts.total.absences, report.counts.round), (6, 6, 3))

    async def test_a_result_with_nothing_in_it_counts_as_a_skip(self) -> None:
        bus = room(*AGENTS)
        bus.voices["grok"] = talker("grok", text="", message_id=None)
        report = await Stage(bus, max_rounds=1).converse()
        self.assertEqual((report.messages, report.skips), (3, 1))


class EndingTests(AsyncCase):
    async def test_it_ends_at_the_round_limit(self) -> None:
        report = await Stage(room(*AGENTS), max_rounds=2).converse()
        self.assertEqual((report.counts.round, report.ended_because), (2, "round_limit"))

    async def test_two_requests_in_a_row_end_it_at_once(self) -> None:
        stage = Stage(room(*AGENTS, end_conversation=True))
        report = await stage.converse()
        self.assertEqual((report.ended_because, report.messages), ("agreed", 2))

    async def test_a_skip_between_two_end_requests_does_not_part_them(self) -> None:
        stage = Stage(room("claude", "grok", skipping=["chatgpt", "gemini"], end_conversation=True))
        report = await stage.converse("claude")
        self.assertEqual((report.ended_because, report.messages), ("agreed", 2))

    async def test_a_single_end_request_between_others_ends_nothing(self) -> None:
        ids = Ids()
        bus = room("chatgpt", "gemini", "grok", ids=ids)
        bus.voices["claude"] = talker("claude", ids, end_conversation=True)
        report = await Stage(bus).converse()
        self.assertEqual(report.ended_because, "round_limit")

    async def test_a_stop_that_an_agent_heard_of_first_ends_it(self) -> None:
        bus = room(*AGENTS)
        bus.voices["claude"] = skipper("claude", "stopped")
        report = await Stage(bus).converse("claude")
        self.assertEqual((report.ended_because, bus.speakers()), ("stopped", ["claude"]))

    async def test_most_who_skip_end_it(self) -> None:
        report = await Stage(room("claude", skipping=["chatgpt", "gemini", "grok"])).converse()
        self.assertEqual((report.counts.round, report.ended_because), (1, "most_skipped"))

    async def test_one_voice_among_silent_ones_is_no_conversation(self) -> None:
        bus = room("claude")
        for agent in ("chatgpt", "gemini", "grok"):
            bus.voices[agent] = lambda _: AgentTimedOut("late")
        report = await Stage(bus).converse()
        self.assertEqual(report.ended_because, "too_few_spoke")

    async def test_chance_may_end_it_after_any_round(self) -> None:
        report = await Stage(room(*AGENTS), luck=0.86).converse()
        self.assertEqual((report.counts.round, report.ended_because), (1, "chance"))

    async def test_the_report_adds_up_what_was_done_and_used(self) -> None:
        report = await Stage(room("chatgpt", "claude", "grok", skipping=["gemini"]), max_rounds=2).converse()
        self.assertEqual(
            (report.messages, report.skips, report.counts.total.calls, report.counts.total.input_tokens), (6, 2, 6, 600)
        )
        self.assertAlmostEqual(report.cost_usd, 0.06)
        self.assertEqual(report.counts.agents["claude"].messages, 2)
        self.assertEqual(report.counts.agents["gemini"].skips, 2)

    async def test_observers_hear_the_start_each_turn_and_the_end(self) -> None:
        stage = Stage(room("chatgpt", "claude", "grok"), max_rounds=1)
        report = await stage.converse()
        kinds = [type(event) for event in stage.events]
        self.assertEqual((kinds[0], kinds[-1]), (ConversationStarted, ConversationEnded))
        self.assertEqual((len(kinds), kinds.count(TurnTaken)), (5, 3))
        self.assertEqual(stage.events[-1], ConversationEnded(report, stage.time.now))

    async def test_an_observer_that_fails_does_not_end_the_conversation(self) -> None:
        stage = Stage(room(*AGENTS))

        def broken(event: Event) -> None:
            raise RuntimeError("no paper left")

        stage.engine.observers.insert(0, broken)
        with self.assertLogs("agent_coordinator.engine", logging.ERROR):
            report = await stage.converse()
        self.assertEqual(report.messages, 12)
        self.assertIsInstance(stage.events[-1], ConversationEnded)


class ChannelTests(AsyncCase):
    async def test_a_channel_has_one_conversation_at_a_time(self) -> None:
        stage, gate = Stage(room(*AGENTS)), asyncio.Event()
        stage.bus.voices["claude"] = _after(gate, "claude")
        running = asyncio.create_task(stage.converse("claude"))
        await until(lambda: stage.bus.asked)
        with self.assertRaises(ChannelBusy):
            await stage.converse("grok")
        gate.set()
        self.assertEqual((await running).ended_because, "round_limit")
        await stage.converse("grok")

    async def test_different_channels_run_side_by_side(self) -> None:
        stage, gate = Stage(room(*AGENTS)), asyncio.Event()
        stage.bus.voices["claude"] = _after(gate, "claude", only=CHANNEL)
        slow = asyncio.create_task(stage.converse("claude"))
        report = await stage.converse("grok", OTHER_CHANNEL)
        self.assertEqual(report.messages, 12)
        self.assertFalse(slow.done())
        gate.set()
        await slow

    @pytest.mark.promise(98)
    async def test_another_process_with_the_channel_keeps_ours_out(self) -> None:
        stage = Stage(room(*AGENTS))
        stage.state.coordination.schedule.holders[CHANNEL] = "another process"
        with self.assertRaises(ChannelBusy):
            await stage.converse()
        self.assertEqual(stage.bus.asked, [])
        self.assertEqual(stage.engine.locks.busy, frozenset())

    async def test_a_channel_lost_to_another_process_ends_the_conversation(self) -> None:
        stage = Stage(room(*AGENTS))

        def taken(instruction: Instruction) -> Result:
            stage.state.coordination.schedule.holders[CHANNEL] = "another process"
            return _spoken(instruction, "claude")

        stage.bus.voices["claude"] = taken
        report = await stage.converse("claude")
        self.assertEqual((report.ended_because, report.messages), ("channel_taken", 1))
        self.assertEqual(stage.state.coordination.schedule.holders[CHANNEL], "another process")

    async def test_a_cancelled_conversation_frees_its_channel(self) -> None:
        stage = Stage(room(*AGENTS))
        stage.bus.voices["claude"] = _after(asyncio.Event(), "claude")
        running = asyncio.create_task(stage.converse("claude"))
        await until(lambda: stage.bus.asked)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        self.assertEqual((stage.state.coordination.schedule.holders, stage.engine.locks.busy), ({}, frozenset()))


class TroubleTests(AsyncCase):
    @pytest.mark.promise(89)
    async def test_a_turn_is_tried_again_under_the_same_id_until_redis_is_back(self) -> None:
        stage, tries = Stage(room(*AGENTS)), iter(range(3))
        speak = stage.bus.voices["claude"]

        def voice(instruction: Instruction) -> Any:
            if next(tries, None) is not None:
                stage.bus.ready.clear()
                return AgentTimedOut("nothing could be heard")
            stage.bus.ready.set()
            return speak(instruction)

        stage.bus.voices["claude"] = voice
        report = await stage.converse("claude")
        first_four = [instruction for _, instruction in stage.bus.asked[:4]]
        self.assertEqual(len({instruction.instruction_id for instruction in first_four}), 1)
        self.assertEqual(first_four[3].deadline, NOON + sum(stage.time.slept) + AGENT_RESPONSE_TIMEOUT)
        self.assertEqual((report.messages, report.counts.total.timeouts), (12, 0))

    async def test_a_deadline_that_passed_without_redis_is_no_timeout_of_the_agent(self) -> None:
        stage = Stage(room(*AGENTS), max_rounds=1)
        speak = stage.bus.voices["claude"]

        def voice(instruction: Instruction) -> Any:
            if stage.bus.ready.is_set() and len(stage.bus.asked) == 1:
                stage.bus.ready.clear()
                return AgentTimedOut("nothing could be heard")
            stage.bus.ready.set()
            return speak(instruction)

        stage.bus.voices["claude"] = voice
        report = await stage.converse("claude")
        self.assertEqual((report.counts.total.timeouts, report.messages), (0, 4))

    async def test_a_conversation_begins_when_redis_is_back(self) -> None:
        stage = Stage(room(*AGENTS))
        stage.state.coordination.schedule.away = 5
        report = await stage.converse(None)
        self.assertEqual(report.messages, 12)
        self.assertEqual(len(stage.time.slept), 5)

    async def test_too_many_timeouts_in_a_row_are_said_loudly_and_waited_out(self) -> None:
        bus = room()
        for agent in AGENTS:
            bus.voices[agent] = lambda _: AgentTimedOut("late")
        stage = Stage(bus, timeout_threshold=3)
        with self.assertLogs("agent_coordinator.conversation", logging.ERROR) as logs:
            await stage.converse()
            await stage.converse()
        self.assertEqual(len(logs.records), 6)
        self.assertEqual(stage.time.slept, [15.0, 30.0, 60.0, 120.0, 240.0])

    async def test_the_back_off_has_an_upper_limit_and_a_result_ends_it(self) -> None:
        bus = room()
        for agent in AGENTS:
            bus.voices[agent] = lambda _: AgentTimedOut("late")
        stage = Stage(bus, timeout_threshold=1)
        for _ in range(3):
            await stage.converse()
        self.assertEqual(max(stage.time.slept), 600.0)
        bus.voices.update(room(*AGENTS).voices)
        stage.time.slept.clear()
        await stage.converse()
        self.assertEqual(stage.time.slept, [600.0])

    async def test_an_absent_agent_is_not_counted_among_the_timeouts(self) -> None:
        stage = Stage(room(), timeout_threshold=1)
        await stage.converse()
        await stage.converse()
        self.assertEqual(stage.time.slept, [])


class RotationTests(AsyncCase):
    async def test_each_channel_has_its_turn_before_any_repeats_priority_channels_first(self) -> None:
        ours = config(channels={1: "casual", 2: "news", 3: "story", 4: "memes"}, priority_channels=(3, 99))
        schedule, luck = MemoryState().coordination.schedule, Luck()
        picked = [await pick_channel(ours, schedule, "2026-06-10", (), luck) for _ in range(6)]
        self.assertEqual(picked[0], 3)
        self.assertEqual(sorted(picked[:4]), [1, 2, 3, 4])
        self.assertLessEqual(set(picked[4:]), {1, 2, 3, 4})

    async def test_the_next_day_begins_anew(self) -> None:
        ours, schedule, luck = config(priority_channels=(OTHER_CHANNEL,)), MemoryState().coordination.schedule, Luck()
        days = [await pick_channel(ours, schedule, day, (), luck) for day in ("2026-06-10", "2026-06-11")]
        self.assertEqual(days, [OTHER_CHANNEL, OTHER_CHANNEL])

    async def test_a_busy_channel_is_passed_over(self) -> None:
        ours, schedule, luck = config(), MemoryState().coordination.schedule, Luck()
        for _ in range(3):
            self.assertEqual(await pick_channel(ours, schedule, "2026-06-10", {CHANNEL}, luck), OTHER_CHANNEL)
        self.assertIsNone(await pick_channel(ours, schedule, "2026-06-10", {CHANNEL, OTHER_CHANNEL}, luck))

    async def test_everybody_starts_once_before_anybody_starts_again(self) -> None:
        schedule, luck = MemoryState().coordination.schedule, Luck()
        starters = [await pick_starter(config(), schedule, CHANNEL, luck) for _ in range(8)]
        self.assertEqual(sorted(starters[:4]), sorted(AGENTS))
        self.assertEqual(sorted(starters[4:]), sorted(AGENTS))


class JoinersTests(unittest.TestCase):
    def test_of_two_agents_only_the_other_one_can_join_in(self) -> None:
        for seed in range(20):
            rng = random.Random(seed)
            rules = config(agents=("claude", "grok"), reactive_probability=1.0)
            context = CoordinatorContext(rules, MemoryBus(), MemoryState(), clock=lambda: 0.0, rng=rng)
            reactive = Reactive(context, Engine(context, Policies(rules)))
            self.assertEqual(reactive.joiners("claude"), ("grok",))


class JoiningTests(AsyncCase):
    async def test_a_bot_joins_in_behind_an_answer_in_a_channel_and_never_in_a_chat_of_signal(self) -> None:
        bus = room("claude", "grok")
        stage = Stage(bus, agents=("claude", "grok"), reactive_probability=1.0)
        stage.context.rng = random.Random(1)
        reactive = Reactive(stage.context, stage.engine)
        chat = direct_chat_id("+4915112345678", 5)
        for channel, expected in ((chat, []), (CHANNEL, ["grok"])):
            await reactive.join(MentionNotice(agent_name="claude", channel_id=channel, trigger_message_id=7))
            self.assertEqual([agent for agent, _ in bus.asked], expected)


class SchedulerTests(AsyncCase):
    def setUp(self) -> None:
        self.state = MemoryState()
        self.time = Time(_berlin(10, 0))
        self.fired: list[float] = []

    def scheduler(self, **changes: Any) -> Scheduler:
        changes = {"schedule_min": 4, "schedule_max": 4, **changes}
        context = CoordinatorContext(
            config(**changes), MemoryBus(), self.state, clock=self.time.clock, rng=Luck(0.5), sleep=self.time.sleep
        )
        return Scheduler(context)

    async def run_until(self, end: float, scheduler: Scheduler) -> None:
        async def fire() -> None:
            self.fired.append(self.time.now)

        task = asyncio.create_task(scheduler.run(fire))
        await until(lambda: self.time.now >= end or task.done(), turns=100_000)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def test_a_whole_day_fires_each_slot_once_at_its_time(self) -> None:
        await self.run_until(_berlin(10, 23, 59), self.scheduler())
        self.assertEqual(self.fired, [_berlin(10, hour) for hour in (9, 13, 17, 21)])

    async def test_a_restart_neither_repeats_nor_forgets(self) -> None:
        await self.run_until(_berlin(10, 14), self.scheduler())
        await self.run_until(_berlin(10, 23, 59), self.scheduler(schedule_min=6, schedule_max=6))
        self.assertEqual(self.fired, [_berlin(10, hour) for hour in (9, 13, 17, 21)])

    async def test_a_slot_that_another_process_has_claimed_is_not_fired_here(self) -> None:
        claim = self.state.coordination.schedule.claim_slot

        async def claimed_by_another(date: str, index: int, at: float) -> bool:
            await claim(date, index, at)
            return False

        self.state.coordination.schedule.claim_slot = claimed_by_another  # type: ignore[method-assign]
        await self.run_until(_berlin(10, 23, 59), self.scheduler())
        self.assertEqual(self.fired, [])

    async def test_a_day_may_have_conversations_also_where_it_need_not(self) -> None:
        await self.run_until(_berlin(10, 23, 59), self.scheduler(schedule_min=0, schedule_max=40))
        self.assertTrue(self.fired)

    async def test_slots_missed_while_down_are_passed_over(self) -> None:
        await self.run_until(_berlin(10, 8), self.scheduler())
        self.time.now = _berlin(10, 17, 10)
        await self.run_until(_berlin(10, 23, 59), self.scheduler())
        self.assertEqual(self.fired, [_berlin(10, 17, 10), _berlin(10, 21)])

    async def test_a_first_start_in_the_evening_does_not_fire_the_mornings_slots(self) -> None:
        self.time.now = _berlin(10, 17, 5)
        await self.run_until(_berlin(10, 23, 59), self.scheduler())
        self.assertEqual(self.fired, [_berlin(10, 21)])

    async def test_a_plan_of_an_earlier_process_is_used(self) -> None:
        at = _berlin(10, 11, 11)
        self.state.coordination.schedule.schedules["2026-06-10"] = [
            Slot(at=at - 3600, done=True),
            Slot(at=at, done=False),
        ]
        await self.run_until(_berlin(10, 23, 59), self.scheduler())
        self.assertEqual(self.fired, [at])

    async def test_none_a_day_means_none_today_too(self) -> None:
        await self.run_until(_berlin(10, 10), self.scheduler())
        self.fired.clear()
        await self.run_until(_berlin(12, 0), self.scheduler(schedule_min=0, schedule_max=0))
        self.assertEqual(self.fired, [])

    async def test_a_day_without_any_stays_so_when_redis_is_emptied(self) -> None:
        scheduler = self.scheduler(schedule_min=1, schedule_max=1)
        self.state.coordination.schedule.schedules["2026-06-10"] = []
        await self.run_until(_berlin(10, 1), scheduler)
        del self.state.coordination.schedule.schedules["2026-06-10"]
        await scheduler.next_due()
        self.assertEqual(self.state.coordination.schedule.schedules["2026-06-10"], [])

    @pytest.mark.promise(102)
    async def test_a_window_over_midnight_belongs_to_the_day_on_which_it_began(self) -> None:
        night = {"active_start": 20, "active_end": 4}
        await self.run_until(_berlin(11, 12), self.scheduler(**night))
        expected = [_berlin(10, hour) for hour in (1, 3)] + [_berlin(10, hour) for hour in (21, 23)]
        expected += [_berlin(11, hour) for hour in (1, 3)]
        self.assertEqual(self.fired, expected)

    @pytest.mark.promise(98)
    async def test_two_schedulers_on_one_plan_fire_each_slot_once(self) -> None:
        async def fire() -> None:
            self.fired.append(self.time.now)

        tasks = [asyncio.create_task(self.scheduler().run(fire)) for _ in range(2)]
        await until(lambda: self.time.now >= _berlin(10, 23, 59), turns=100_000)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.assertEqual(len(self.fired), 4)

    async def test_it_never_sleeps_longer_than_a_minute(self) -> None:
        await self.run_until(_berlin(10, 12), self.scheduler())
        self.assertLessEqual(max(self.time.slept), 60.0)

    async def test_redis_away_is_waited_out(self) -> None:
        self.state.coordination.schedule.away = 30
        await self.run_until(_berlin(10, 14), self.scheduler())
        self.assertEqual(self.fired, [_berlin(10, 9), _berlin(10, 13)])

    @pytest.mark.promise(90)
    async def test_an_emptied_redis_gets_the_days_plan_back(self) -> None:
        scheduler = self.scheduler()
        await self.run_until(_berlin(10, 14), scheduler)
        self.state.coordination.schedule.schedules.clear()
        await self.run_until(_berlin(10, 23, 59), scheduler)
        self.assertEqual(self.fired, [_berlin(10, hour) for hour in (9, 13, 17, 21)])


class CoordinatorTests(AsyncCase):
    def setUp(self) -> None:
        self.bus = room(*AGENTS)
        self.state = MemoryState()
        self.time = Time()
        self.reports: list[ConversationState] = []
        self.turns: list[TurnTaken] = []

    def coordinator(self, luck: float = 0.0, lease: MemoryLease | None = None, **changes: Any) -> Coordinator:
        """With no schedule of its own, so that a test sees only what it asked for."""
        ours: CoordinatorConfig = config(**{"schedule_min": 0, "schedule_max": 0, **changes})
        coordinator = Coordinator(
            CoordinatorContext(
                ours, self.bus, self.state, lease=lease, clock=self.time.clock, rng=Luck(luck), sleep=self.time.sleep
            )
        )
        coordinator.engine.observers.append(self._observe)
        return coordinator

    def _observe(self, event: Event) -> None:
        if isinstance(event, ConversationEnded):
            self.reports.append(event.state)
        elif isinstance(event, TurnTaken):
            self.turns.append(event)

    async def start(self, coordinator: Coordinator) -> asyncio.Task[None]:
        task = asyncio.create_task(coordinator.run())
        self.addAsyncCleanup(_stop, task)
        lease = coordinator._context.lease  # one that stands by hears no command
        await until(lambda: self.bus.handlers or (lease is not None and lease.tried))
        await asyncio.sleep(0)
        return task

    async def test_fire_runs_a_conversation_in_a_channel_of_the_rotation(self) -> None:
        report = await self.coordinator(priority_channels=(OTHER_CHANNEL,)).start_conversation()
        assert report is not None
        self.assertEqual((report.channel_id, report.theme, report.messages), (OTHER_CHANNEL, "memes", 12))

    async def test_fire_takes_channel_and_theme(self) -> None:
        report = await self.coordinator().start_conversation(CHANNEL, "Story")
        assert report is not None
        self.assertEqual((report.channel_id, report.theme), (CHANNEL, "story"))

    async def test_fire_with_a_theme_alone_prefers_its_channel(self) -> None:
        report = await self.coordinator(priority_channels=(CHANNEL,)).start_conversation(theme="memes")
        assert report is not None
        self.assertEqual(report.channel_id, OTHER_CHANNEL)

    async def test_fire_in_a_busy_or_unknown_channel_does_nothing(self) -> None:
        self.state.coordination.schedule.holders[CHANNEL] = "another process"
        self.assertIsNone(await self.coordinator().start_conversation(CHANNEL))
        self.assertIsNone(await self.coordinator().start_conversation(999))
        self.assertEqual(self.bus.asked, [])

    async def test_fire_passes_over_a_channel_that_another_process_has(self) -> None:
        self.state.coordination.schedule.holders[CHANNEL] = "another process"
        report = await self.coordinator(priority_channels=(CHANNEL,)).start_conversation()
        assert report is not None
        self.assertEqual(report.channel_id, OTHER_CHANNEL)

    async def test_fire_without_agents_does_nothing(self) -> None:
        self.assertIsNone(await self.coordinator(agents=()).start_conversation())

    async def test_a_start_command_fires_now(self) -> None:
        await self.start(self.coordinator())
        self.bus.command(Command(command="start", channel_id=OTHER_CHANNEL, theme="roast"))
        await until(lambda: self.reports)
        self.assertEqual((self.reports[0].channel_id, self.reports[0].theme), (OTHER_CHANNEL, "roast"))

    async def test_an_unknown_command_is_logged_and_nonsense_survived(self) -> None:
        await self.start(self.coordinator())
        with self.assertLogs("agent_coordinator.commands", logging.WARNING) as logged:
            self.bus.command(Command(command="dance"))
            await until(lambda: logged.records)
        self.bus.say("not even JSON")
        self.bus.command(Command(command="start", channel_id=CHANNEL))
        await until(lambda: self.reports)

    async def test_at_start_it_fires_outside_the_active_hours_once_two_are_online(self) -> None:
        self.state.coordination.presence = MemoryPresence(polls=3)
        await self.start(self.coordinator(fire_on_startup=True, active_start=2, active_end=3))
        await until(lambda: self.reports)
        self.assertEqual(self.state.coordination.presence.polled, 4)

    async def test_at_start_it_does_not_wait_for_ever(self) -> None:
        self.state.coordination.presence = MemoryPresence(arriving=["claude"])
        await self.start(self.coordinator(fire_on_startup=True))
        await until(lambda: self.reports)
        self.assertLessEqual(self.state.coordination.presence.polled, 120)

    async def test_a_mention_may_bring_others_in(self) -> None:
        await self.start(self.coordinator())
        self.bus.notify(_mention())
        await until(lambda: self.turns)
        agent, instruction = self.bus.asked[0]
        self.assertNotEqual(agent, "claude")
        self.assertEqual((instruction.trigger_message_id, instruction.round_number), (7, 1))
        self.assertFalse(instruction.is_conversation_starter)
        self.assertEqual(instruction.channel_theme, "debate")
        await until(lambda: not self.state.coordination.schedule.holders)
        self.assertLessEqual(len(self.bus.asked), 2)

    async def test_mostly_a_mention_brings_nobody_in(self) -> None:
        await self.start(self.coordinator(luck=0.15))
        self.bus.notify(_mention())
        await _settle()
        self.assertEqual((self.bus.asked, self.state.coordination.schedule.reactive_asked), ([], 0))

    async def test_within_the_cooldown_a_second_mention_brings_nobody_in(self) -> None:
        await self.start(self.coordinator())
        self.bus.notify(_mention())
        await until(lambda: self.turns and not self.state.coordination.schedule.holders)
        asked = len(self.bus.asked)
        self.bus.notify(_mention())
        await until(lambda: self.state.coordination.schedule.reactive_asked == 2)
        await _settle()
        self.assertEqual(len(self.bus.asked), asked)

    async def test_beside_a_running_conversation_nobody_is_brought_in(self) -> None:
        gate = asyncio.Event()
        self.bus.voices = {agent: _after(gate, agent) for agent in AGENTS}
        await self.start(self.coordinator())
        self.bus.command(Command(command="start", channel_id=CHANNEL))
        await until(lambda: self.bus.asked)
        self.bus.notify(_mention())
        await _settle()
        self.assertEqual((len(self.bus.asked), self.state.coordination.schedule.reactive_asked), (1, 0))
        gate.set()

    async def test_a_scheduled_conversation_is_fired_and_does_not_hold_the_schedule(self) -> None:
        soon = self.time.now + 60
        self.state.coordination.schedule.schedules["2026-06-10"] = [
            Slot(at=soon, done=False),
            Slot(at=soon + 1, done=False),
        ]
        self.bus.voices = {agent: _after(asyncio.Event(), agent) for agent in AGENTS}
        await self.start(self.coordinator(schedule_min=1, schedule_max=1))
        await until(lambda: len(self.bus.asked) == 2)
        self.assertEqual({instruction.channel_id for _, instruction in self.bus.asked}, {CHANNEL, OTHER_CHANNEL})

    async def test_it_listens_to_every_agent(self) -> None:
        await self.start(self.coordinator())
        self.assertEqual(self.bus.listened_to, set(AGENTS))

    async def test_cancelling_it_ends_its_conversations_and_frees_their_channels(self) -> None:
        self.bus.voices = {agent: _after(asyncio.Event(), agent) for agent in AGENTS}
        task = await self.start(self.coordinator())
        self.bus.command(Command(command="start", channel_id=CHANNEL))
        await until(lambda: self.bus.asked)
        await _stop(task)
        self.assertEqual(self.state.coordination.schedule.holders, {})

    @pytest.mark.promise(97)
    async def test_one_that_stands_by_does_nothing_until_the_lease_is_free(self) -> None:
        lease = MemoryLease(free=False)
        coordinator = self.coordinator(lease=lease, fire_on_startup=True)
        await self.start(coordinator)
        await until(lambda: lease.tried)
        self.bus.command(Command(command="start", channel_id=CHANNEL))
        self.bus.notify(_mention())
        await _settle()
        self.assertEqual((self.bus.asked, coordinator.acting), ([], False))
        lease.give()
        await until(lambda: coordinator.acting)
        self.bus.command(Command(command="start", channel_id=CHANNEL))
        await until(lambda: self.reports)

    async def test_who_takes_over_gives_the_others_bots_time_to_follow(self) -> None:
        for free, granted in ((False, 1), (True, 0)):
            lease = MemoryLease(free=free)
            self.bus = room("claude")
            coordinator = self.coordinator(lease=lease)
            running = asyncio.create_task(coordinator.run())
            await until(lambda lease=lease: lease.tried)
            self.assertEqual(self.bus.graces, 0)
            lease.give()
            await until(lambda coordinator=coordinator: coordinator.acting)
            self.assertEqual(self.bus.graces, granted)
            lease.take_away()
            lease.give()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    @pytest.mark.promise(98)
    async def test_losing_the_lease_ends_its_conversations_and_it_stands_by_again(self) -> None:
        self.bus.voices = {agent: _after(asyncio.Event(), agent) for agent in AGENTS}
        lease = MemoryLease()
        coordinator = self.coordinator(lease=lease)
        await self.start(coordinator)
        await until(lambda: coordinator.acting)
        self.bus.command(Command(command="start", channel_id=CHANNEL))
        await until(lambda: self.bus.asked)
        lease.take_away()
        await until(lambda: not coordinator.acting and not self.state.coordination.schedule.holders)
        lease.give()
        await until(lambda: coordinator.acting)

    async def test_who_begins_to_lead_frees_the_channels_that_a_killed_one_held(self) -> None:
        self.state.coordination.schedule.holders[CHANNEL] = "a conversation of a process that was killed"
        lease = MemoryLease(free=False)
        coordinator = self.coordinator(lease=lease)
        await self.start(coordinator)
        await _settle()
        self.assertIn(
            CHANNEL, self.state.coordination.schedule.holders
        )  # while it stands by the other one may be alive
        lease.give()
        await until(lambda: coordinator.acting)
        self.bus.command(Command(command="start", channel_id=CHANNEL))
        await until(lambda: self.reports)

    async def test_a_lease_is_given_back_at_the_end(self) -> None:
        lease = MemoryLease()
        coordinator = self.coordinator(lease=lease)
        task = await self.start(coordinator)
        await until(lambda: coordinator.acting)
        await _stop(task)
        self.assertFalse(lease.taken.is_set())


def _berlin(day: int, hour: int, minute: int = 0) -> float:
    midnight = datetime.combine(date(2026, 6, day), datetime.min.time(), tzinfo=BERLIN)
    return (midnight + timedelta(hours=hour, minutes=minute)).timestamp()


def _mention() -> MentionNotice:
    return MentionNotice(agent_name="claude", channel_id=CHANNEL, message_id=8, trigger_message_id=7)


def _spoken(instruction: Instruction, agent: str) -> Result:
    return Result(instruction_id=instruction.instruction_id, agent_name=agent, text="well", message_id=5)


def _after(gate: asyncio.Event, agent: str, only: int | None = None) -> Any:
    """A voice that waits for the gate, in one channel or in all."""

    async def voice(instruction: Instruction) -> Result:
        if only in (None, instruction.channel_id):
            await gate.wait()
        return _spoken(instruction, agent)

    return voice


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _settle() -> None:
    """Long enough for anything that was going to happen: doubles answer within a few rounds of the loop."""
    for _ in range(50):
        await asyncio.sleep(0)


if __name__ == "__main__":
    unittest.main()
