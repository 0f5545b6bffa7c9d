"""Time from an instruction to the model request and to the result, and turns a second; models answer immediately."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass
from uuid import uuid4

from agent_config import AGENTS
from agentic.wire.bus import Bus
from agentic.wire.messages import Instruction, Result
from tests.benchmarks.processes import Broken, Child
from tests.benchmarks.stage import THEME, Bench, Stage
from tests.benchmarks.table import Row, median, milliseconds, percentile

CHANNELS = 20
HISTORY = 60
PACE = 0.02  # seconds, see mentions.py


@dataclass(frozen=True)
class Turns:
    """The speed of many turns: turns a second, and processor seconds for each."""

    a_second: float
    cpu_each: float


async def instructions(bench: Bench) -> list[Row]:
    async with bench.stage("instructions", channels=CHANNELS, history=HISTORY) as stage:
        raised = {"MAX_CONCURRENT_TURNS": "100", "MAX_QUEUE_DEPTH": "10000"}
        async with stage.settled_program(**raised) as program, stage.bus() as bus:
            await one_by_one(stage, bus, 80)
            await stage.requests()
            to_request, to_result = await one_by_one(stage, bus, bench.size(300, 40))
            posting = await together(stage, bus, program, bench.size(1000, 160))
            await stage.models.ask("behave", silent=True)
            silent = await together(stage, bus, program, bench.size(2000, 160))
    return [
        Row(metric="instruction → model request, median", value=milliseconds(median(to_request)), unit="ms"),
        Row(metric="instruction → result, median", value=milliseconds(median(to_result)), unit="ms", target=8),
        Row(metric="instruction → result, p99", value=milliseconds(percentile(to_result, 0.99)), unit="ms"),
        Row(
            metric="turns a second, posting",
            value=posting.a_second,
            note=f"{milliseconds(posting.cpu_each):.1f} ms of processor each; four bots may post 190 a second",
        ),
        Row(
            metric="turns a second, silent",
            value=silent.a_second,
            note=f"{milliseconds(silent.cpu_each):.1f} ms of processor each",
        ),
    ]


async def one_by_one(stage: Stage, bus: Bus, count: int) -> tuple[list[float], list[float]]:
    """Seconds from publishing each instruction to its model request, and to its result."""
    began, ended = [], []
    for agent, channel in itertools.islice(itertools.cycle(_places(stage)), count):
        began.append(time.perf_counter())
        await _turn(bus, agent, channel)
        ended.append(time.perf_counter())
        await asyncio.sleep(max(0.0, began[-1] + PACE - ended[-1]))
    requests = [float(request["at"]) for request in await stage.requests()]
    to_request = [at - start for at, start in zip(requests, began, strict=True)]
    return to_request, [end - start for end, start in zip(ended, began, strict=True)]


async def together(stage: Stage, bus: Bus, program: Child, count: int) -> Turns:
    """`count` turns, one under way for each agent in each channel."""
    left = itertools.repeat(None, count)

    async def work(agent: str, channel: int) -> None:
        for _ in left:
            await _turn(bus, agent, channel)

    cpu, began = program.cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(work(*place) for place in _places(stage)))
    seconds = time.perf_counter() - began
    await stage.requests()
    return Turns(count / seconds, (program.cpu_seconds() - cpu) / count)


def _places(stage: Stage) -> list[tuple[str, int]]:
    return [(agent, channel) for channel in stage.channels.values() for agent in AGENTS]


async def _turn(bus: Bus, agent: str, channel: int) -> Result:
    instruction = Instruction(instruction_id=str(uuid4()), channel_id=channel, channel_theme=THEME, round_number=2)
    result = await bus.ask(agent, instruction)
    if result.reason not in (None, "skipped"):
        raise Broken(f"a turn of {agent} ended early: {result.reason}")
    return result
