"""Cancel a turn from outside: a person stops it, or its hook runs out of time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentic.wire.reasons import TurnOver


class Cancellation:
    """Cancel one turn. `reason`, one of agent_cogs.events.REASONS, is set once it is cancelled."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._scope: asyncio.Timeout | None = None

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Limit what runs inside to these seconds, to none once it is cancelled.

        Raises TurnOver with `reason` or "deadline". A TimeoutError of something inside passes as it is.
        """
        if self.reason is not None:
            raise TurnOver(self.reason)
        limit = asyncio.timeout(seconds)
        try:
            async with limit as self._scope:
                try:
                    yield
                finally:
                    self._scope = None
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TurnOver(self.reason or "deadline") from error

    def cancel(self, reason: str) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())
