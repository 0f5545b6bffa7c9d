"""Backs off after timeouts in a row. One is a slow model; many mean that the bots are down."""

from __future__ import annotations

import logging

from agent_coordinator.config import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS

log = logging.getLogger(__name__)

MOST_DOUBLINGS = 32  # beyond BACKOFF_MAX_SECONDS, and far from overflowing a float


class TimeoutWatch:
    """From `threshold` timeouts in a row on, log each further one and ask for ever longer pauses."""

    def __init__(self, threshold: int) -> None:
        self._threshold = max(1, threshold)
        self._in_a_row = 0

    @property
    def pause(self) -> float:
        """Seconds to wait before the next instruction."""
        beyond = self._in_a_row - self._threshold
        if beyond < 0:
            return 0.0
        return min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(beyond, MOST_DOUBLINGS))

    def answered(self) -> None:
        if self.pause:
            log.warning("agents answer again, after %d timeouts in a row", self._in_a_row)
        self._in_a_row = 0

    def timed_out(self, agent: str) -> None:
        self._in_a_row += 1
        if self.pause:
            log.error(
                "%d INSTRUCTIONS IN A ROW TIMED OUT, the last one for %s: are the bots running? "
                "The next one is sent in %.0f s",
                self._in_a_row,
                agent,
                self.pause,
            )
