"""The turns of one agent that wait or run, so that a person can end them in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from agent_cogs.events import TurnEvent
from agent_cogs.inbox import Inbox


class Brake:
    """Ends one turn from outside. `reason`, one of agent_cogs.turn.REASONS, is set once it is pulled."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._scope: asyncio.Timeout | None = None

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """What is done inside has this time and no more, none once the brake is pulled. Raises TimeoutError."""
        if self.reason is not None:
            raise TimeoutError(self.reason)
        async with asyncio.timeout(seconds) as self._scope:
            try:
                yield
            finally:
                self._scope = None

    def pull(self, reason: str) -> None:
        if self.reason is not None:
            return
        self.reason = reason
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())


class RunningTurns:
    """Those of `inbox`, which hands each event to a turn inside of `brake`."""

    def __init__(self, inbox: Inbox[TurnEvent]) -> None:
        self._inbox = inbox
        self._running: dict[str, tuple[TurnEvent, Brake]] = {}

    @contextmanager
    def brake(self, event: TurnEvent, brake: Brake | None = None) -> Iterator[Brake]:
        """The event's turn is under way; it ends when `brake`, or else a new one, is pulled."""
        brake = brake or Brake()
        self._running[event.id] = (event, brake)
        try:
            yield brake
        finally:
            del self._running[event.id]

    @property
    def channels(self) -> tuple[int, ...]:
        """Where a turn waits or runs."""
        return self._inbox.channels

    def halt(self, channel_id: int, reason: str, which: Callable[[TurnEvent], bool]) -> list[TurnEvent]:
        """Ends the turns of a channel that run; the events that only waited, and wait no more, are for the caller."""
        for event, brake in self._running.values():
            if event.channel_id == channel_id and which(event):
                brake.pull(reason)
        return self._inbox.cancel(channel_id, keep=lambda event: not which(event))
