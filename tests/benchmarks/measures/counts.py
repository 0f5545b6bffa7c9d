"""What one mention and one instruction cost in counts: calls on the loop's thread, callbacks, Redis commands, bytes.

Counts vary far less from run to run than times do, on one version of Python. Each count ends when the
history is written, and what the program does while idle is measured last and subtracted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from agentic.wire.connection import RedisConnection
from tests.benchmarks.measures.instructions import one_by_one as instruct
from tests.benchmarks.measures.mentions import CHANNELS, HISTORY, ask_one_by_one
from tests.benchmarks.processes import Child
from tests.benchmarks.stage import Bench
from tests.benchmarks.table import Row, milliseconds

THREADS = "processor time of other threads"
REST = 2.0  # seconds until the history of the last turn is written


async def counts(bench: Bench) -> list[Row]:
    """Count over single mentions, then over single instructions."""
    size = bench.size(80, 40)
    async with (
        bench.stage("counts", channels=CHANNELS, people=10, history=HISTORY) as stage,
        stage.settled_program() as program,
        stage.redis() as redis,
        stage.bus() as bus,
    ):
        await ask_one_by_one(stage, program, 4 * CHANNELS)
        await instruct(stage, bus, 4 * CHANNELS)
        await asyncio.sleep(REST)
        mentions = await _count(program, redis, lambda: ask_one_by_one(stage, program, size))
        instructions = await _count(program, redis, lambda: instruct(stage, bus, size))
        idle = await _count(program, redis, lambda: asyncio.sleep(bench.size(8, 3)))
    return [*_rows("mention", mentions, idle, size), *_rows("instruction", instructions, idle, size)]


async def _count(program: Child, redis: RedisConnection, work: Callable[[], Awaitable[object]]) -> Mapping[str, float]:
    before = await _redis_counts(redis)
    await program.ask("count_calls")
    await work()
    await asyncio.sleep(REST)
    counted: dict[str, float] = await program.ask("counted")
    after = await _redis_counts(redis)
    return counted | {name: after[name] - before[name] for name in after}


async def _redis_counts(redis: RedisConnection) -> dict[str, float]:
    """Commands, scripts' own included, and bytes and socket reads by which Redis received them."""
    found = await redis.call(lambda client: client.info("all"))
    return {
        "Redis commands": sum(value["calls"] for name, value in found.items() if name.startswith("cmdstat_")),
        "bytes to Redis": found["total_net_input_bytes"],
        "socket reads by Redis": found["total_reads_processed"],
    }


def _rows(event: str, counted: Mapping[str, float], idle: Mapping[str, float], size: int) -> list[Row]:
    rows = []
    for name, value in counted.items():
        if name == "seconds":
            continue
        each = (value - idle[name] / idle["seconds"] * counted["seconds"]) / size
        is_time = name == THREADS
        rows.append(
            Row(
                metric=f"{name} for each {event}",
                value=milliseconds(each) if is_time else round(each),
                unit="ms" if is_time else "",
                note="several times longer than without counting" if is_time else "",
            )
        )
    return rows
