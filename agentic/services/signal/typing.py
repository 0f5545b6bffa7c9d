"""The typing sign that is shown beside a turn's work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agentic.process.tasks import BackgroundTasks
from agentic.services.signal.errors import SignalError

DELAY = 0.25  # seconds; an earlier answer needs no typing sign
REFRESH = 10.0  # Signal's apps hide it after 15 s

log = logging.getLogger(__name__)


class TypingSign:
    """Shows typing after a moment and again until stopped, and then no longer. `show` sends one request."""

    def __init__(
        self, show: Callable[[bool], Awaitable[None]], background: BackgroundTasks, *, refresh: float = REFRESH
    ) -> None:
        self._show, self._refresh, self._over = show, refresh, asyncio.Event()
        background.start(self._run(), "Signal: typing")

    def stop(self) -> None:
        self._over.set()

    async def _run(self) -> None:
        if await self._ends_within(DELAY):
            return
        await self._try_to_show(True)
        while not await self._ends_within(self._refresh):
            await self._try_to_show(True)
        await self._try_to_show(False)

    async def _try_to_show(self, shown: bool) -> None:
        """A request that fails is not made again: the next one follows, also to a server that restarted."""
        try:
            await self._show(shown)
        except SignalError as error:
            log.debug("Signal: typing is not shown: %s", error)

    async def _ends_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return False
        return True
