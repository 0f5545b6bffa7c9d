"""The coordinator's own cost of a room's turn, with agents that answer immediately.

No other process but an embedded Redis: a turn is stored, asked for, answered, counted and stored again.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import cast

from agent_coordinator.config import CoordinatorConfig
from agent_coordinator.context import CoordinatorContext
from agent_coordinator.coordinator import Coordinator
from agentic.state.shared_state import SharedState
from agentic.wire import keys
from agentic.wire.bus import Bus
from agentic.wire.connection import RedisConnection
from agentic.wire.messages import Instruction, Result
from agentic.wire.server import locate_redis
from tests.benchmarks.measures.rooms.shared import MEMBERS, SIZES, WITHIN, Cost, cost_rows, opening
from tests.benchmarks.stage import Bench, NotHere
from tests.benchmarks.table import Row
from tests.benchmarks.texts import Chat
from tests.support.coordinator_doubles import MemoryBus, until

PARENT = 1
TURNS = 20  # of each room
PATIENT = 10.0  # seconds: a command timeout on a busy machine


class InstantBus(MemoryBus):
    """Agents that post as soon as they are asked, each time another text."""

    def __init__(self, posts: int) -> None:
        super().__init__()
        self.done = asyncio.Event()
        self._left = posts
        self._chat, self._ids = Chat(1), itertools.count(1)

    async def ask(self, agent: str, instruction: Instruction, *, absent_grace: float | None = None) -> Result:
        await asyncio.sleep(0)
        self._left -= 1
        if not self._left:
            self.done.set()
        text, turn = self._chat.text(200), instruction.instruction_id
        return Result(instruction_id=turn, agent_name=agent, text=text, message_id=next(self._ids))


async def alone(bench: Bench) -> list[Row]:
    costs: dict[int, list[Cost]] = {size: [] for size in SIZES}
    folder = bench.folder / "rooms-alone"
    folder.mkdir()
    async with locate_redis(None, folder, use_default_port=False) as place:
        if not isinstance(place.address, str):
            raise NotHere("no redis-server was found")
        async with RedisConnection(place.address, command_timeout=PATIENT) as link:
            threads = itertools.count(1_000)
            for _, size in itertools.product(range(bench.size(3, 1)), SIZES):  # all see the same minutes
                costs[size].append(await _cost(link, [next(threads) for _ in range(size)]))
    return cost_rows("rooms, coordinator alone", costs)


async def _cost(link: RedisConnection, threads: Sequence[int]) -> Cost:
    """Run a room in each of these threads, together, from the first turn to the last."""
    turns = len(threads) * TURNS
    async with _coordinating(link, turns) as bus:
        began, used = time.perf_counter(), time.process_time()
        for thread in threads:
            bus.command(opening(thread, PARENT, TURNS))
        await asyncio.wait_for(bus.done.wait(), WITHIN)
        return Cost(turns / (time.perf_counter() - began), (time.process_time() - used) / turns)


@asynccontextmanager
async def _coordinating(link: RedisConnection, turns: int) -> AsyncIterator[InstantBus]:
    """Run a coordinator; entered when it takes commands."""
    bus = InstantBus(turns)
    config = CoordinatorConfig(MEMBERS, {PARENT: "debate"}, schedule_max=0, turn_delay_min=0.0, turn_delay_max=0.0)
    running = asyncio.create_task(Coordinator(CoordinatorContext(config, cast(Bus, bus), SharedState(link))).run())
    try:
        await until(lambda: bus.handlers[keys.COORDINATOR_COMMANDS], turns=1_000_000)
        yield bus
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
