"""Next channel and starter; one conversation per channel.

Allows one conversation at a time in a channel: by memory within the process, by Redis between processes.

Picks the next channel and its starter. The queues are in Redis, so that fairness outlives the process.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from agent_coordinator.config import CoordinatorConfig
from agentic.process.tasks import Sleep
from agentic.state.leases import Leadership
from agentic.state.schedule import ScheduleStore
from agentic.wire.connection import RedisAway, until_back

log = logging.getLogger(__name__)


class ChannelBusy(Exception):
    """The channel has a conversation already."""

    def __init__(self, channel_id: int) -> None:
        super().__init__(f"channel {channel_id} has a conversation already")
        self.channel_id = channel_id


class ChannelHolds:
    """A hold outlives a process that died by at most `ttl` seconds, which must cover the time between two turns. It
    belongs to the epoch in which it was taken."""

    def __init__(self, schedule: ScheduleStore, ttl: float, sleep: Sleep, leadership: Leadership) -> None:
        self._schedule = schedule
        self._ttl = ttl
        self._leadership = leadership
        self._sleep = sleep
        self._mine: set[int] = set()

    @property
    def busy(self) -> frozenset[int]:
        """The channels held by this process."""
        return frozenset(self._mine)

    @asynccontextmanager
    async def hold(self, channel_id: int, holder: str) -> AsyncIterator[None]:
        """Raises ChannelBusy. Waits while Redis is away."""
        if channel_id in self._mine:
            raise ChannelBusy(channel_id)
        self._mine.add(channel_id)
        epoch = self._leadership.epoch
        try:
            if not await self.renew(channel_id, holder):
                raise ChannelBusy(channel_id)
            try:
                yield
            finally:
                await self._release(channel_id, holder, epoch)
        finally:
            self._mine.discard(channel_id)

    async def renew(self, channel_id: int, holder: str) -> bool:
        """False if another holder has it: the hold had run out, or another process leads. Waits while Redis is away."""
        hold = (channel_id, holder, self._ttl, self._leadership.epoch)
        return await until_back(lambda: self._schedule.hold_channel(*hold), self._sleep)

    async def _release(self, channel_id: int, holder: str, epoch: int) -> None:
        try:
            await self._schedule.release_channel(channel_id, holder, epoch)
        except RedisAway:
            log.info("channel %d is not released, Redis is away: its hold expires by itself", channel_id)


def days_order(config: CoordinatorConfig, rng: random.Random) -> tuple[int, ...]:
    """Each channel once: the priority channels in the owner's order, then the others shuffled."""
    first = [channel for channel in dict.fromkeys(config.priority_channels) if channel in config.channels]
    others = [channel for channel in config.channels if channel not in first]
    return (*first, *rng.sample(others, len(others)))


async def pick_channel(
    config: CoordinatorConfig, schedule: ScheduleStore, date: str, busy: Collection[int], rng: random.Random
) -> int | None:
    """The day's next channel; a random one once the queue is used up; None if none is free.

    A queued channel that is busy has its conversation right now and is dropped from the queue; so is one that is no
    longer configured. Raises RedisAway.
    """
    fresh = days_order(config, rng)
    free = [channel for channel in fresh if channel not in busy]
    if not free:
        return None
    for _ in fresh:
        channel = await schedule.next_channel(date, fresh)
        if channel is None:
            break
        if channel in free:
            return channel
    return rng.choice(free)


async def pick_starter(config: CoordinatorConfig, schedule: ScheduleStore, channel_id: int, rng: random.Random) -> str:
    """The channel's next starter: each agent once, then shuffled again. Raises RedisAway."""
    return await schedule.next_starter(channel_id, rng.sample(config.agents, len(config.agents)))
