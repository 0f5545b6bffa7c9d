"""An agent whose provider refuses it rests for a while.

A refused key or an empty account does not mend itself within a conversation; asking on would only fill logs and keep
people waiting. After the rest one call tries again: it ends the matter or begins the next rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from agent_llm.errors import BadKey, ModelError, QuotaUsedUp

STRIKES = 3  # hard failures in a row
REST_SECONDS = 600.0

log = logging.getLogger(__name__)


class Bench:
    """One agent's. `clock` gives unix seconds; `taken` is set while it rests, until somebody clears it."""

    def __init__(self, agent: str, clock: Callable[[], float]) -> None:
        self.taken = asyncio.Event()
        self._agent, self._clock = agent, clock
        self._strikes, self._until = 0, 0.0
        self._told: set[int] = set()

    @property
    def seconds_left(self) -> float:
        """Of the rest, 0 while the agent works."""
        return max(0.0, self._until - self._clock())

    def worked(self) -> None:
        self._strikes = 0

    def failed(self, error: ModelError) -> None:
        """Counts what another try would not change; other failures neither count nor clear."""
        if not isinstance(error, (BadKey, QuotaUsedUp)):
            return
        self._strikes += 1
        if self._strikes < STRIKES or self.seconds_left:
            return
        self._until = self._clock() + REST_SECONDS
        self._told.clear()
        self.taken.set()
        log.error("%s rests for %.0f minutes: %s", self._agent, REST_SECONDS / 60, error)

    def tells(self, channel_id: int) -> bool:
        """True once in a rest and channel: whoever asks again sees a sign."""
        new = channel_id not in self._told
        self._told.add(channel_id)
        return new
