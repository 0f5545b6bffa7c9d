"""The typing sign that is shown beside a turn's work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from agentic.process.tasks import BackgroundTasks
from agentic.services.discord.gate import TYPING_SECONDS

TYPING_DELAY = 0.25  # seconds; an earlier answer needs no typing sign


class TypingSign:
    """Shows typing after a moment and again until stopped; a request on its way ends by itself."""

    def __init__(self, show: Callable[[], Coroutine[Any, Any, None]], background: BackgroundTasks) -> None:
        self._show, self._background = show, background
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(TYPING_DELAY, self._tick)

    def _tick(self) -> None:
        self._background.start(self._show(), "typing")
        # A little more than the gate's pause, or every other request would come too early by a hair and be dropped.
        self._timer = self._loop.call_later(TYPING_SECONDS + TYPING_DELAY, self._tick)

    def stop(self) -> None:
        self._timer.cancel()
