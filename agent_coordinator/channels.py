"""Pick the next channel and its starter, and allow one conversation at a time in a channel.

Queues and locks are in Redis: they survive a restart, and no other process starts a second conversation.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from agent_coordinator.config import HOLD_ROOM_SECONDS, CoordinatorConfig
from agent_coordinator.context import CoordinatorContext
from agentic.state.schedule import ScheduleStore


class ChannelBusy(Exception):
    """The channel has a conversation already."""

    def __init__(self, channel_id: int) -> None:
        super().__init__(f"channel {channel_id} has a conversation already")


class ChannelLocks:
    """Lock channels for conversations. A dead process's lock expires after the longest time between two turns. A lock
    belongs to the leader's epoch in which it was taken."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self.seconds = context.config.turn_seconds + context.config.turn_delay_max + HOLD_ROOM_SECONDS
        self._mine: set[int] = set()

    @property
    def busy(self) -> frozenset[int]:
        """The channels locked by this process."""
        return frozenset(self._mine)

    @asynccontextmanager
    async def hold(self, channel_id: int, holder: str) -> AsyncIterator[None]:
        """Hold the channel's lock. Raises ChannelBusy; waits while Redis is unavailable."""
        if channel_id in self._mine:
            raise ChannelBusy(channel_id)
        self._mine.add(channel_id)
        epoch = self._context.leadership.epoch
        try:
            schedule = self._context.state.coordination.schedule
            if not await self._context.wait_for_redis(schedule.hold_channel, channel_id, holder, self.seconds, epoch):
                raise ChannelBusy(channel_id)
            try:
                yield
            finally:
                await schedule.release_channel(channel_id, holder, epoch)
        finally:
            self._mine.discard(channel_id)


async def pick_channel(
    config: CoordinatorConfig, schedule: ScheduleStore, date: str, busy: Collection[int], rng: random.Random
) -> int | None:
    """Return the day's next channel, a random one once the queue is empty, or None if none is free.

    The queue has the priority channels in the owner's order, then the others shuffled. Busy channels and channels that
    are no longer configured are dropped from it. Raises StateUnavailable.
    """
    first = [channel for channel in dict.fromkeys(config.priority_channels) if channel in config.channels]
    others = [channel for channel in config.channels if channel not in first]
    fresh = (*first, *rng.sample(others, len(others)))
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
    """Return the channel's next starter: each agent once, then reshuffled. Raises StateUnavailable."""
    return await schedule.next_starter(channel_id, rng.sample(config.agents, len(config.agents)))
