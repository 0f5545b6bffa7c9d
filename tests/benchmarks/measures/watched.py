"""The cost of record and console, with a page open, for a turn: the same turns without both, with the record, with
both, in alternation."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AsyncExitStack

from agentic.console.app import free_port
from tests.benchmarks.measures.day import Page
from tests.benchmarks.measures.instructions import CHANNELS, HISTORY, one_by_one, together
from tests.benchmarks.stage import Bench, Stage
from tests.benchmarks.table import Row, median, milliseconds

ROUNDS = 3
MOST = 1.1  # of the time to a result without both: what two runs of the same may differ by
WITHOUT, RECORD, CONSOLE = "without both", "with the record", "with record and console"


async def watched(bench: Bench) -> list[Row]:
    port = str(free_port("127.0.0.1", 8988))
    kinds = {WITHOUT: {"RECORD_DAYS": "0"}, RECORD: {}, CONSOLE: {"CONSOLE": "true", "CONSOLE_PORT": port}}
    latencies, each = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    async with bench.stage("watched", channels=CHANNELS, history=HISTORY, varied=True) as stage:
        for _ in range(bench.size(ROUNDS, 1)):
            for kind, settings in kinds.items():
                latency, cpu = await _turns(bench, stage, settings)
                latencies[kind].append(latency)
                each[kind].append(cpu)
    return [
        *(_row("instruction → result", latencies, kind, MOST) for kind in (RECORD, CONSOLE)),
        *(_row("processor time of a turn", each, kind) for kind in (RECORD, CONSOLE)),  # and of recording it, later
    ]


async def _turns(bench: Bench, stage: Stage, settings: dict[str, str]) -> tuple[float, float]:
    """Seconds from instruction to result, the median, and processor seconds of a turn among many at once."""
    raised = {"MAX_CONCURRENT_TURNS": "100", "MAX_QUEUE_DEPTH": "10000"}
    async with AsyncExitStack() as stack:
        program = await stack.enter_async_context(stage.settled_program(**raised, **settings))
        bus = await stack.enter_async_context(stage.bus())
        if "CONSOLE_PORT" in settings:
            await stack.enter_async_context(Page(int(settings["CONSOLE_PORT"])).open())
        await one_by_one(stage, bus, 80)
        await stage.requests()
        _, to_result = await one_by_one(stage, bus, bench.size(200, 80))
        turns = await together(stage, bus, program, bench.size(600, 160))
    return median(to_result), turns.cpu_each


def _row(metric: str, found: dict[str, list[float]], kind: str, target: float | None = None) -> Row:
    ratios = [value / without for value, without in zip(found[kind], found[WITHOUT], strict=True)]
    times = f"{milliseconds(median(found[kind])):.1f} : {milliseconds(median(found[WITHOUT])):.1f} ms"
    least, most = min(ratios), max(ratios)
    note = f"{times}; {least:.2f} to {most:.2f} in {len(ratios)} rounds"
    return Row(metric=f"{metric}, {kind} : {WITHOUT}", value=median(ratios), target=target, note=note)
