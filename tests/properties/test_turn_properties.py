"""A coordinator that is killed anywhere in its turns, while people write and ask for agents: its successors lose no
post, count each once, and answer everybody."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic.state.talk import PersonMessage
from agentic.wire.messages import Instruction, Result
from tests.agent_coordinator.test_resuming import Stage
from tests.support.coordinator_doubles import AGENTS, CHANNEL, Ids, MemoryBus, talker, until

STEPS = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(["kill", "kill", "hear", "request", "lose lock", "sleep long"])),
    max_size=8,
)


class Agents:
    """They outlive the coordinators: each instruction is carried out once, and its result is kept."""

    def __init__(self) -> None:
        self.posts: list[Result] = []
        self._kept: dict[str, Result] = {}
        ids = Ids()
        self.voices = {name: self._voice(talker(name, ids)) for name in AGENTS}

    def _voice(self, speak):
        async def voice(instruction: Instruction) -> Result:
            if instruction.instruction_id not in self._kept:
                result = speak(instruction)
                self._kept[instruction.instruction_id] = result
                self.posts.append(result)
            await asyncio.sleep(0)
            return self._kept[instruction.instruction_id]

        return voice


async def play(steps: list[tuple[int, str]], delay: float) -> None:
    agents = Agents()
    pauses = {"turn_delay_min": delay, "turn_delay_max": delay}
    stage = Stage(MemoryBus(**agents.voices), policy="round-robin", max_rounds=4, **pauses)
    leader, heard = stage.lead(), list[int]()
    try:
        await until(lambda: leader.acting)
        stage.coordinators.append(asyncio.create_task(leader.engine.converse(CHANNEL, "debate", starter="claude")))
        await until(lambda: CHANNEL in stage.state.coordination.conversations.states)
        for number, (ticks, what) in enumerate(steps):
            for _ in range(ticks):
                await asyncio.sleep(0)
            match what:
                case "hear":
                    message = PersonMessage(message_id=number + 1, text="And milk?")
                    if await leader.engine.hear(CHANNEL, message):
                        heard.append(number + 1)
                case "request":
                    await leader.engine.request_next(CHANNEL, AGENTS[number % len(AGENTS)])
                case "lose lock":
                    stage.state.coordination.schedule.holders.clear()
                case "kill" | "sleep long":
                    await stage.die()
                    if what == "sleep long":
                        stage.time.now += 60
                    leader = stage.lead()
        await until(lambda: stage.reports)
        await stage.aclose()
        (report,) = stage.reports
        told = [post.message_id for post in report.talk.history]
        assert told == [post.message_id for post in agents.posts][-len(told) :], "no post is lost, none is there twice"
        assert report.messages == len(agents.posts)
        assert {message.message_id for message in report.talk.heard} >= set(heard[-1:])
        assert {instruction.take_up for _, instruction in stage.bus.asked} >= set(heard[-1:]), "it is answered"
    finally:
        await stage.aclose()


@pytest.mark.promise(587)
@pytest.mark.parametrize("delay", [0.0, 20.0])
@settings(max_examples=60)
@given(steps=STEPS)
def test_killed_coordinators_lose_no_post_and_count_each_once(delay: float, steps: list[tuple[int, str]]) -> None:
    asyncio.run(play(steps, delay))
