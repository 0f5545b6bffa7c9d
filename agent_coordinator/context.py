"""What the parts of a coordinator share: settings, Redis, people's stops, time, chance, and whether it leads."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from agent_coordinator.config import CoordinatorConfig
from agentic.process.tasks import BackgroundTasks, Clock, Sleep
from agentic.state.leases import Leadership, Lease
from agentic.state.record_stream import NoRecord, Notes
from agentic.state.shared_state import Ledger
from agentic.state.silence import Stops
from agentic.wire.bus import Bus
from agentic.wire.connection import wait_for_redis

T = TypeVar("T")


@dataclass(slots=True)
class CoordinatorContext:
    """Without a `lease` this coordinator is the only one. `stops` knows the channels that people stopped, `record`
    takes notes of conversations and idle tasks. `tasks` end when this process no longer leads."""

    config: CoordinatorConfig
    bus: Bus
    ledger: Ledger
    lease: Lease | None = None
    stops: Stops | None = None
    record: Notes = field(default_factory=NoRecord)
    clock: Clock = time.time
    rng: random.Random = field(default_factory=random.Random)
    sleep: Sleep = asyncio.sleep
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    leadership: Leadership = field(init=False)

    def __post_init__(self) -> None:
        self.leadership = Leadership(self.lease, self.sleep)

    @property
    def is_paused(self) -> bool:
        """Whether a person paused all bots."""
        return self.stops is not None and self.stops.paused

    def is_stopped(self, *channel_ids: int) -> bool:
        """Whether a person stopped one of these channels."""
        return self.stops is not None and any(map(self.stops.holds, channel_ids))

    async def wait_for_redis(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat the call until Redis answers. The bus logs that Redis is unavailable."""
        return await wait_for_redis(call, self.sleep)

    async def sleep_unless(self, woken: asyncio.Event, seconds: float) -> None:
        """Sleep for so many seconds, or until the event is set."""

        async def sleep() -> None:
            await self.sleep(seconds)

        sleeping, waking = asyncio.ensure_future(sleep()), asyncio.ensure_future(woken.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
            await asyncio.gather(sleeping, waking, return_exceptions=True)
