"""An agent whose provider refuses it rests for a while.

A refused key or an empty account does not mend itself within a conversation; asking on would only fill logs and keep
people waiting. After the rest one call tries again: it ends the matter or begins the next rest.

What counts is this process's memory, so that a turn waits for nothing; `share_backoff` keeps it and Redis the same, so
that a rest outlives a restart and others can see it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from agent_llm.errors import BadKey, ModelError, QuotaUsedUp
from agent_protocol.connection.link import RedisAway

STRIKES = 3  # hard failures in a row
REST_SECONDS = 600.0
SHARE_EVERY = 5.0  # seconds

log = logging.getLogger(__name__)


class ProviderBackoff:
    """One agent's. `clock` gives unix seconds; `taken` is set when a rest begins, until somebody clears it, as is
    `begun`, for a rest that began here."""

    def __init__(self, agent: str, clock: Callable[[], float]) -> None:
        self.taken, self.begun = asyncio.Event(), asyncio.Event()
        self._agent, self._clock = agent, clock
        self._strikes, self._until = 0, 0.0
        self._told: set[int] = set()

    @property
    def seconds_left(self) -> float:
        """Of the rest, 0 while the agent works."""
        return max(0.0, self._until - self._clock())

    @property
    def until(self) -> float:
        """When the last rest ends or ended, in unix seconds; 0 where there was none."""
        return self._until

    def adopt(self, until: float) -> None:
        """Goes on with a rest that another run of the program began. After it one failure begins the next."""
        self._strikes = max(self._strikes, STRIKES)
        self._rest(min(until, self._clock() + REST_SECONDS))
        log.warning("%s rests for %.0f minutes more, as before", self._agent, self.seconds_left / 60)

    def _rest(self, until: float) -> None:
        self._until = until
        self._told.clear()
        self.taken.set()

    def worked(self) -> None:
        self._strikes = 0

    def failed(self, error: ModelError) -> None:
        """Counts what another try would not change; other failures neither count nor clear."""
        if not isinstance(error, (BadKey, QuotaUsedUp)):
            return
        self._strikes += 1
        if self._strikes < STRIKES or self.seconds_left:
            return
        self._rest(self._clock() + REST_SECONDS)
        self.begun.set()
        log.error("%s rests for %.0f minutes: %s", self._agent, REST_SECONDS / 60, error)

    def first_notice_in(self, channel_id: int) -> bool:
        """True once in a rest and channel: whoever asks again sees a sign."""
        new = channel_id not in self._told
        self._told.add(channel_id)
        return new


class SharedBackoffs(Protocol):
    """Where rests are kept; agent_protocol.moderation.agent_pauses is the one in Redis."""

    async def put(self, agent: str, until: float) -> None: ...

    async def until(self, agent: str) -> float | None: ...


async def share_backoff(agent: str, backoff: ProviderBackoff, store: SharedBackoffs) -> None:
    """Tells Redis of a rest that began here, and goes on with one that it knows of, until cancelled."""
    while True:
        backoff.begun.clear()
        try:
            await _share(agent, backoff, store)
        except RedisAway:
            log.debug("%s: its rest is this process's alone, Redis is away", agent)
        with suppress(TimeoutError):
            async with asyncio.timeout(SHARE_EVERY):
                await backoff.begun.wait()


async def _share(agent: str, backoff: ProviderBackoff, store: SharedBackoffs) -> None:
    kept = await store.until(agent) or 0.0
    if backoff.seconds_left and kept < backoff.until:
        await store.put(agent, backoff.until)
    elif kept > backoff.until and not backoff.seconds_left:
        backoff.adopt(kept)
