"""Does a turn cost more in a longer conversation? The instructions are made from the coordinator's own state."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from agent_config import AGENTS
from agent_coordinator.conversation import instruction_for
from agentic.state.conversation_state import ConversationState
from agentic.wire.bus import Bus
from tests.benchmarks.processes import Broken, Child
from tests.benchmarks.stage import THEME, Bench
from tests.benchmarks.table import Row, median, milliseconds
from tests.support.coordinator_doubles import changed

EARLY, LATE = 5, 100  # turns
SPAN = 20  # turns at either end whose processor time is compared
AROUND = 2  # turns before and after one, whose times count with it


@dataclass(frozen=True)
class Course:
    """One conversation: seconds from instruction to result of each turn, and processor seconds used before each turn
    (and after the last) by the program and by the models' stand-in."""

    times: list[float]
    program: list[float]
    models: list[float]


async def conversation(bench: Bench) -> list[Row]:
    """Hold conversations of a hundred turns, each in its own channel; models answer immediately."""
    async with (
        bench.stage("conversation", channels=bench.size(5, 2), history=20) as stage,
        stage.settled_program() as program,
        stage.bus() as bus,
    ):
        channels = list(stage.channels.values())
        await _converse(bus, program, stage.models, channels[0], 12)  # SDKs were used once
        courses = [await _converse(bus, program, stage.models, channel, LATE + AROUND) for channel in channels]
    return _rows(courses)


def _rows(courses: list[Course]) -> list[Row]:
    def around(turn: int) -> float:
        near = slice(turn - AROUND - 1, turn + AROUND)
        return milliseconds(median([seconds for course in courses for seconds in course.times[near]]))

    def each(used: list[list[float]], first: int, last: int) -> float:
        return milliseconds(median([(cpu[last] - cpu[first]) / SPAN for cpu in used]))

    program, models = [course.program for course in courses], [course.models for course in courses]
    early, late = each(program, 0, SPAN), each(program, -1 - SPAN, -1)
    stand_in = f"{each(models, -1 - SPAN, -1):.1f} : {each(models, 0, SPAN):.1f} ms"
    return [
        Row(
            metric=f"turn {LATE} : turn {EARLY} of a conversation",
            value=around(LATE) / around(EARLY),
            target=1.2,
            note=f"{around(LATE):.1f} : {around(EARLY):.1f} ms",
        ),
        Row(
            metric=f"the same in processor time, last {SPAN} : first {SPAN}",
            value=late / early,
            note=f"{late:.1f} : {early:.1f} ms; the models' stand-in, included in the time: {stand_in}",
        ),
    ]


async def _converse(bus: Bus, program: Child, models: Child, channel: int, turns: int) -> Course:
    state = ConversationState("benchmark", channel, THEME, started_at=time.time())
    course = Course([], [program.cpu_seconds()], [models.cpu_seconds()])
    while len(course.times) < turns:
        if not state.queue.pending:
            state = state.begin_round(tuple(AGENTS))
        agent = state.queue.pending[0]
        began = time.perf_counter()
        result = await bus.ask(agent, instruction_for(state.begin_turn(str(uuid.uuid4()))))
        course.times.append(time.perf_counter() - began)
        course.program.append(program.cpu_seconds())
        course.models.append(models.cpu_seconds())
        if result.skipped:
            raise Broken(f"a turn of {agent} was skipped: {result.reason}")
        state = changed(state.take_turn(agent, result), end_streak=0)
    return course
