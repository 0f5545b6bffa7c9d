"""Publish when turns begin and end, for those who watch: in the background, so that no turn waits for it.

While Redis is away notices are dropped: one that comes late says nothing.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial

from redis.asyncio import Redis

from agentic.state.turn_records import TurnRecord
from agentic.wire import keys
from agentic.wire.connection import RedisAway, RedisLink
from agentic.wire.messages import TurnNotice

MOST_WAITING = 1000
SECONDS = 5.0  # for a notice; none is worth the breaker, which turns depend on

log = logging.getLogger(__name__)


class TurnNotices:
    """Watches the turns of a process. Run `run` in a task."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._waiting = asyncio.Queue[TurnNotice](MOST_WAITING)

    def began(self, notice: TurnNotice) -> None:
        self._put(notice)

    def ended(self, record: TurnRecord, words: object) -> None:
        del words
        notice = TurnNotice(
            agent_name=record.agent,
            turn_id=record.id,
            channel_id=record.channel_id,
            state="ended",
            at=record.at,
            conversation_id=record.conversation_id,
        )
        self._put(notice)

    def _put(self, notice: TurnNotice) -> None:
        with suppress(asyncio.QueueFull):
            self._waiting.put_nowait(notice)

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            wire = (await self._waiting.get()).to_wire()
            try:
                await self._link.patient(partial(_publish, wire), SECONDS)
            except RedisAway as away:
                log.debug("a turn's notice is dropped: %s", away)


async def _publish(wire: str, redis: Redis) -> int:
    return await redis.publish(keys.COORDINATOR_TURNS, wire)
