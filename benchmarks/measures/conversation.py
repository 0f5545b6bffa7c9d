"""Whether a turn costs more the longer its conversation is: the coordinator's own state makes the instructions."""

from __future__ import annotations

import time
from dataclasses import replace

from agent_config import AGENTS
from agent_coordinator.asking import instruction_for
from agent_coordinator.state import ConversationState
from agent_protocol.bus import Bus
from benchmarks.processes import Broken, Child
from benchmarks.stage import THEME, Bench
from benchmarks.table import Row, median, milliseconds

EARLY, LATE = 5, 100  # turns
AROUND = 2  # turns before and after one, whose times count with it


async def conversation(bench: Bench) -> list[Row]:
    """Conversations of a hundred turns in channels of their own; models answer at once."""
    runs: list[list[float]] = []
    cpu: list[tuple[float, float]] = []
    async with (
        bench.stage("conversation", channels=bench.size(5, 2), history=20) as stage,
        stage.settled_program() as program,
        stage.bus() as bus,
    ):
        channels = list(stage.channels.values())
        await _converse(bus, program, channels[0], 12)  # SDKs were used once
        for channel in channels:
            times, shares = await _converse(bus, program, channel, LATE + AROUND)
            runs.append(times)
            cpu.append(shares)
    early, late = (median([t for run in runs for t in run[n - AROUND - 1 : n + AROUND]]) for n in (EARLY, LATE))
    first, last = median([one for one, _ in cpu]), median([other for _, other in cpu])
    return [
        Row(
            metric=f"turn {LATE} : turn {EARLY} of a conversation",
            value=late / early,
            target=1.2,
            note=f"{milliseconds(late):.1f} : {milliseconds(early):.1f} ms",
        ),
        Row(
            metric="the same in processor time, last 20 : first 20",
            value=last / first,
            note=f"{milliseconds(last):.1f} : {milliseconds(first):.1f} ms",
        ),
    ]


async def _converse(bus: Bus, program: Child, channel: int, turns: int) -> tuple[list[float], tuple[float, float]]:
    """Seconds from instruction to result of each turn; processor seconds a turn in the first and the last 20."""
    state = ConversationState("benchmark", channel, THEME, started_at=time.time())
    times: list[float] = []
    cpu = [program.cpu_seconds()]
    while len(times) < turns:
        if not state.pending:
            state = state.begin_round(tuple(AGENTS))
        agent = state.pending[0]
        began = time.perf_counter()
        result = await bus.ask(agent, instruction_for(state, None))
        times.append(time.perf_counter() - began)
        if result.skipped:
            raise Broken(f"a turn of {agent} came to nothing: {result.reason}")
        cpu.append(program.cpu_seconds())
        state = replace(state.took_turn(agent, result), end_streak=0)
    window = min(20, turns)
    return times, ((cpu[window] - cpu[0]) / window, (cpu[-1] - cpu[-1 - window]) / window)
