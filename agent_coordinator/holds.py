"""Allows one conversation at a time in a channel: by memory within the process, by Redis between processes."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_coordinator.ports import ScheduleStore, Sleep, until_back
from agentic.state.leadership import Leadership
from agentic.wire.link import RedisAway

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
