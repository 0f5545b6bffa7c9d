"""Rooms in the whole program: threads of the Discord stand-in, personas that speak through webhooks, instant models."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentic.wire import keys
from agentic.wire.bus import Bus
from tests.benchmarks.measures.rooms.shared import MEMBERS, SIZES, WITHIN, Cost, cost_rows, opening
from tests.benchmarks.processes import Child
from tests.benchmarks.stage import Bench, Stage
from tests.benchmarks.table import Row, milliseconds

CHANNELS = 10
TURNS = 10  # of each room
STALL = 0.02  # seconds


async def whole(bench: Bench) -> list[Row]:
    personas = bench.folder / "personas"
    _write(personas)
    costs: dict[int, list[Cost]] = {size: [] for size in SIZES}
    async with (
        bench.stage("rooms", channels=CHANNELS, varied=True) as stage,
        stage.settled_program(**_settings(personas)) as program,
        stage.bus() as bus,
    ):
        await _cost(stage, program, bus, 1)  # webhooks are created, code is imported
        before = program.megabytes()
        await program.ask("watch_stalls", threshold=STALL)
        async with program.watching_memory() as highest:
            for size in SIZES * bench.size(2, 1):
                costs[size].append(await _cost(stage, program, bus, size))
        stalls = await program.ask("stalls")
    memory = f"{before:.0f} MB before, {highest[0]:.0f} at most"
    return [
        *cost_rows("rooms, whole program", costs),
        Row(metric="rooms, memory", value=highest[0] - before, unit="MB", note=memory),
        _stalls(stalls),
    ]


async def _cost(stage: Stage, program: Child, bus: Bus, size: int) -> Cost:
    """Open so many rooms in new threads, and wait for the last post of the last."""
    threads: Mapping[str, int] = await stage.discord.ask("open_threads", count=size)
    turns = size * TURNS
    posted = await stage.discord.ask("posts")
    began, used = time.perf_counter(), program.cpu_seconds()
    for thread, channel in threads.items():
        await bus.publish(keys.COORDINATOR_COMMANDS, opening(int(thread), channel, TURNS))
    await stage.discord.ask("wait_for_posts", count=posted + turns, patience=WITHIN)
    cost = Cost(turns / (time.perf_counter() - began), (program.cpu_seconds() - used) / turns)
    await stage.requests()  # else the stand-in keeps them
    return cost


def _write(folder: Path) -> None:
    """Create personas without a bot."""
    for name in MEMBERS:
        (folder / name).mkdir(parents=True)
        text = f"---\ndisplay_name: {name.title()}\nprovider: openai\n---\n\nYou are {name.title()}.\n"
        (folder / name / "identity.md").write_text(text)


def _settings(personas: Path) -> dict[str, str]:
    return {
        "PERSONAS_DIR": str(personas),
        "COORDINATOR_TURN_DELAY_MIN": "0",
        "COORDINATOR_TURN_DELAY_MAX": "0",
        "MAX_CONCURRENT_TURNS": "1000",
        "BUDGET_DAILY_USD": "none",
    }


def _stalls(stalls: Sequence[Mapping[str, Any]]) -> Row:
    """Those in which the loop's thread had the processor; in the others the machine was busy."""
    ours = [float(stall["late"]) for stall in stalls if stall["cpu"] >= STALL / 2]
    note = (
        f"of over {milliseconds(STALL):.0f} ms with a full core; the longest {milliseconds(max(ours, default=0.0)):.0f}"
    )
    return Row(metric="rooms, stalls of the event loop", value=len(ours), note=note)
