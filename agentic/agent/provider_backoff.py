"""Back off from a provider that refuses an agent.

A refused key or an empty account stays so for a while; further calls would fill logs and keep people waiting. After the
back-off a single call decides: success ends it, another failure starts the next.

The state is in memory, so that a turn waits for nothing. `share_backoff` keeps Redis the same, so that a back-off
survives a restart and other processes can see it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from agentic.llm.errors import BadKey, ModelError, QuotaUsedUp
from agentic.wire.link import RedisAway

FAILURES = 3  # permanent failures in a row
BACKOFF_SECONDS = 600.0
SHARE_EVERY = 5.0  # seconds

log = logging.getLogger(__name__)


class ProviderBackoff:
    """Count an agent's permanent failures and back off after `FAILURES`. `clock` gives unix seconds.

    `taken` is set at the start of every back-off, `begun` of one that started here; the reader clears them.
    """

    def __init__(self, agent: str, clock: Callable[[], float]) -> None:
        self.taken, self.begun = asyncio.Event(), asyncio.Event()
        self._agent, self._clock = agent, clock
        self._failures, self._until = 0, 0.0
        self._noticed: set[int] = set()

    @property
    def seconds_left(self) -> float:
        """Seconds until the back-off ends; 0 without one."""
        return max(0.0, self._until - self._clock())

    @property
    def until(self) -> float:
        """The end of the last back-off in unix seconds; 0 if there was none."""
        return self._until

    def adopt(self, until: float) -> None:
        """Continue a back-off of another run of the program. After it, one failure starts the next."""
        self._failures = max(self._failures, FAILURES)
        self._start(min(until, self._clock() + BACKOFF_SECONDS))
        log.warning("%s: provider back-off continues for %.0f minutes", self._agent, self.seconds_left / 60)

    def _start(self, until: float) -> None:
        self._until = until
        self._noticed.clear()
        self.taken.set()

    def worked(self) -> None:
        self._failures = 0

    def failed(self, error: ModelError) -> None:
        """Count a failure that a retry would not fix; others neither count nor reset the count."""
        if not isinstance(error, (BadKey, QuotaUsedUp)):
            return
        self._failures += 1
        if self._failures < FAILURES or self.seconds_left:
            return
        self._start(self._clock() + BACKOFF_SECONDS)
        self.begun.set()
        log.error(
            "%s: provider refused it %d times; no calls for %.0f minutes: %s",
            self._agent,
            self._failures,
            BACKOFF_SECONDS / 60,
            error,
        )

    def first_notice_in(self, channel_id: int) -> bool:
        """True once per back-off and channel; later mentions get a sign alone."""
        new = channel_id not in self._noticed
        self._noticed.add(channel_id)
        return new


class SharedBackoffs(Protocol):
    """Implemented by agentic.state.agent_pauses."""

    async def put(self, agent: str, until: float) -> None: ...

    async def until(self, agent: str) -> float | None: ...


async def share_backoff(agent: str, backoff: ProviderBackoff, store: SharedBackoffs) -> None:
    """Write back-offs that started here to Redis, and adopt those found there, until cancelled."""
    while True:
        backoff.begun.clear()
        try:
            await _share(agent, backoff, store)
        except RedisAway:
            log.debug("%s: back-off not shared: Redis is unavailable; will retry", agent)
        with suppress(TimeoutError):
            async with asyncio.timeout(SHARE_EVERY):
                await backoff.begun.wait()


async def _share(agent: str, backoff: ProviderBackoff, store: SharedBackoffs) -> None:
    kept = await store.until(agent) or 0.0
    if backoff.seconds_left and kept < backoff.until:
        await store.put(agent, backoff.until)
    elif kept > backoff.until and not backoff.seconds_left:
        backoff.adopt(kept)
