"""One conversation at a time in a channel: known at once within the process, and kept in Redis for all others."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_coordinator.leadership import Leadership
from agent_coordinator.ports import ScheduleStore, Sleep, until_back
from agent_protocol.connection.link import RedisAway

log = logging.getLogger(__name__)


class ChannelBusy(Exception):
    """Something is going on in the channel already."""

    def __init__(self, channel_id: int) -> None:
        super().__init__(f"channel {channel_id} has a conversation already")
        self.channel_id = channel_id


class ChannelHolds:
    """`ttl` in seconds: how long a hold outlives a process that died; it must cover the time between two turns. Each
    hold is of the `leadership` in which it was taken."""

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
        """False when somebody else has it: the hold ran out meanwhile, or another process leads. Waits while Redis is
        away."""
        where = (channel_id, holder, self._ttl, self._leadership.epoch)
        return await until_back(lambda: self._schedule.hold_channel(*where), self._sleep)

    async def _release(self, channel_id: int, holder: str, epoch: int) -> None:
        try:
            await self._schedule.release_channel(channel_id, holder, epoch)
        except RedisAway:
            log.info("channel %d could not be released while Redis is away: its hold runs out by itself", channel_id)
