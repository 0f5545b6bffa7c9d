"""Both measurements, one after the other."""

from __future__ import annotations

from benchmarks.measures.rooms.alone import alone
from benchmarks.measures.rooms.program import whole
from benchmarks.stage import Bench
from benchmarks.table import Row


async def rooms(bench: Bench) -> list[Row]:
    return [*await alone(bench), *await whole(bench)]
