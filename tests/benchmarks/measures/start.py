"""Time from the start of the process to four bots online and subscribed, and the memory before any turn."""

from __future__ import annotations

from tests.benchmarks.stage import Bench
from tests.benchmarks.table import Row, median


async def start(bench: Bench) -> list[Row]:
    """Start the program several times (including Python's own start); memory once everything is imported."""
    times, memory, bare_times, bare_memory = [], [], [], []
    async with bench.stage("start", channels=4) as stage:
        for _ in range(bench.size(5, 2)):
            async with stage.program() as program:
                times.append(program.start_seconds)
                await program.ask("settled")
                memory.append(program.megabytes())
            if bench.bare:
                async with stage.bare() as bare:
                    bare_times.append(bare.start_seconds)
                    bare_memory.append(bare.megabytes())
    spread = f"{min(times):.2f} to {max(times):.2f}"
    return [
        Row(
            metric="cold start to four bots online",
            value=median(times),
            unit="s",
            target=2.5,
            bare=median(bare_times) if bare_times else None,
            note=spread,
        ),
        Row(
            metric="memory before the first turn",
            value=median(memory),
            unit="MB",
            target=160,
            bare=median(bare_memory) if bare_memory else None,
            note="SDKs imported",
        ),
    ]
