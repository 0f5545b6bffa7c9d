"""Handles the messages of a channel in order; a slow handler delays its own channel only."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

Call = Callable[[], Awaitable[None] | None]

log = logging.getLogger(__name__)


class HandlerQueue:
    """First in, first out, at most `limit` waiting; more are dropped with one warning until there is room again."""

    def __init__(self, name: str, limit: int = 10_000) -> None:
        self.name = name
        self._queue: asyncio.Queue[Call | None] = asyncio.Queue(limit)
        self._closed = False
        self._dropping = False

    def put(self, call: Call) -> None:
        try:
            self._queue.put_nowait(call)
        except asyncio.QueueFull:
            if not self._dropping:
                log.warning("%s: more than %d messages wait, new ones are dropped", self.name, self._queue.maxsize)
            self._dropping = True
        else:
            self._dropping = False

    def close(self) -> None:
        """End `run` after the current call; the rest is dropped."""
        self._closed = True
        if self._queue.empty():
            self._queue.put_nowait(None)

    async def run(self) -> None:
        while not self._closed:
            call = await self._queue.get()
            if call is None or self._closed:
                return
            try:
                outcome = call()
                if inspect.isawaitable(outcome):
                    await outcome
            except Exception:
                # The outermost edge: a handler's failure must not affect the next ones.
                log.exception("a handler of %s failed", self.name)
