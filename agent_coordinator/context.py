"""CoordinatorContext: what all parts of a coordinator share (settings, Redis, silence, clock, chance, leadership)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

from agent_coordinator.config import CoordinatorConfig
from agentic.process.tasks import BackgroundTasks, Clock, Sleep, cancel_and_wait
from agentic.state.leases import Leadership, Lease
from agentic.state.record_stream import NoRecord, Notes
from agentic.state.rooms import Room
from agentic.state.shared_state import SharedState
from agentic.state.silence import ChannelRef, Silence, Silenced
from agentic.wire.bus import Bus
from agentic.wire.connection import wait_for_redis

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class CoordinatorContext:
    """Without a `lease`, this coordinator is the only one. `record` takes notes of conversations and background tasks.
    `tasks` end when this process no longer leads."""

    config: CoordinatorConfig
    bus: Bus
    state: SharedState
    lease: Lease | None = None
    silence: Silence | None = None
    record: Notes = field(default_factory=NoRecord)
    clock: Clock = time.time
    rng: random.Random = field(default_factory=random.Random)
    sleep: Sleep = asyncio.sleep
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    servers: dict[int, int] = field(default_factory=dict)  # channel → server
    leadership: Leadership = field(init=False)

    def __post_init__(self) -> None:
        self.leadership = Leadership(self.lease, self.sleep)

    @property
    def is_paused(self) -> bool:
        """Whether a person paused all bots."""
        return self.silence is not None and self.silence.is_paused

    def place(self, channel_id: int, room: Room | None = None) -> ChannelRef:
        """Return the channel or room thread, with its server if known."""
        return ChannelRef(channel_id, guild_id=self.servers.get(channel_id)) if room is None else room.place

    def silenced(self, channel_id: int, room: Room | None = None, agent: str | None = None) -> Silenced | None:
        """Return why no bot, or not this agent, may speak in the channel or room thread; None if it may."""
        return self.silence.check(self.place(channel_id, room), agent) if self.silence is not None else None

    def refusal(self, channel_id: int | None) -> str | None:
        """Return why no conversation can begin in the channel, as a command outcome; None if it can."""
        if not self.config.agents:
            return "no_agents"
        if self.is_paused:
            return "paused"
        if channel_id is not None and channel_id not in self.config.channels:
            return "unknown_channel"
        silenced = self.silenced(channel_id) if channel_id is not None else None
        return silenced.kind if silenced is not None else None

    async def learn_servers(self) -> None:
        """Learn which server each channel is in, if people of one server silenced bots there."""
        if self.silence is not None and any(order.scope.guild is not None for order in self.silence.active()):
            self.servers.update(await self.state.coordination.presence.servers(self.config.agents))

    async def wait_for_redis(self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Repeat the call until Redis answers. The bus logs the outage."""
        return await wait_for_redis(partial(call, *args, **kwargs), self.sleep)

    async def sleep_unless(self, woken: asyncio.Event, seconds: float) -> None:
        """Sleep for `seconds`, or until the event is set."""

        async def sleep() -> None:
            await self.sleep(seconds)

        sleeping, waking = asyncio.ensure_future(sleep()), asyncio.ensure_future(woken.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(sleeping, waking)
