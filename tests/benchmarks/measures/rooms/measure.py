"""Both measurements, one after the other."""

from __future__ import annotations

from tests.benchmarks.measures.rooms.alone import alone
from tests.benchmarks.measures.rooms.program import whole
from tests.benchmarks.stage import Bench
from tests.benchmarks.table import Row


async def rooms(bench: Bench) -> list[Row]:
    return [*await alone(bench), *await whole(bench)]
