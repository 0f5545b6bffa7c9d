"""Where an agent's events wait: one lane per channel, first in first out; lanes run side by side up to a limit.

So a slow turn in one channel never holds another, and two turns never overlap in one. The inbox is bounded: what does
not fit is refused at once, and the caller tells whoever waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

log = logging.getLogger(__name__)


class InChannel(Protocol):
    """Anything that happens in a channel."""

    @property
    def channel_id(self) -> int: ...


E = TypeVar("E", bound=InChannel)


class Inbox(Generic[E]):
    """Bounded lanes. `max_running` turns at a time over all lanes, `max_depth` events waiting.

    `pause` says for how many seconds yet the first event of a lane shall wait, asked again after each.
    """

    def __init__(
        self,
        handle: Callable[[E], Awaitable[None]],
        *,
        max_running: int,
        max_depth: int,
        pause: Callable[[E], float] = lambda _: 0.0,
    ) -> None:
        self._handle, self._pause = handle, pause
        self._running = asyncio.Semaphore(max_running)
        self._max_depth = max_depth
        self._lanes: dict[int, deque[E]] = {}
        self._workers: dict[int, asyncio.Task[None]] = {}
        self._waiting = 0
        self._closed = False

    def size(self) -> int:
        """Events that wait; those whose turn runs are not counted."""
        return self._waiting

    def waiting(self, channel_id: int) -> tuple[E, ...]:
        """The channel's events whose turn has not begun, in their order."""
        return tuple(self._lanes.get(channel_id, ()))

    @property
    def channels(self) -> tuple[int, ...]:
        """Where something waits or runs."""
        return tuple(self._lanes)

    def replace(self, event: E, other: E) -> None:
        """Puts another event into the place of one that waits. Raises ValueError when it does not wait any more."""
        lane = self._lanes.get(event.channel_id, deque())
        lane[lane.index(event)] = other

    def put(self, event: E) -> bool:
        """Takes the event in; False when the inbox is full or closed."""
        if self._closed or self._waiting >= self._max_depth:
            return False
        self._waiting += 1
        lane = self._lanes.setdefault(event.channel_id, deque())
        lane.append(event)
        if event.channel_id not in self._workers:
            name = f"lane {event.channel_id}"
            self._workers[event.channel_id] = asyncio.create_task(self._work(event.channel_id), name=name)
        return True

    def cancel(self, channel_id: int, *, keep: Callable[[E], bool] = lambda _: False) -> list[E]:
        """Takes back what waits in a channel's lane, but for what is to be kept; the lane's turn goes on."""
        lane = self._lanes.get(channel_id)
        if lane is None:
            return []
        waiting = list(lane)
        lane.clear()
        lane.extend(event for event in waiting if keep(event))
        gone = [event for event in waiting if not keep(event)]
        self._waiting -= len(gone)
        return gone

    async def drain(self) -> None:
        """Takes nothing more in and returns when all lanes are empty."""
        self._closed = True
        while self._workers:
            await asyncio.wait(self._workers.values())

    def close(self) -> None:
        """Takes nothing more in and drops what waits; running turns go on."""
        self._closed = True
        for lane in self._lanes.values():
            self._waiting -= len(lane)
            lane.clear()

    async def aclose(self) -> None:
        """Takes nothing more in; cancels what runs, drops what waits."""
        self._closed = True
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, channel_id: int) -> None:
        lane = self._lanes[channel_id]
        try:
            while lane:
                while lane and (seconds := self._pause(lane[0])) > 0:  # noqa: ASYNC110  (it may grow meanwhile)
                    await asyncio.sleep(seconds)
                async with self._running:
                    if not lane:  # dropped while it waited for its place
                        break
                    event = lane.popleft()
                    self._waiting -= 1
                    await self._handle_safely(event)
        finally:
            self._waiting -= len(lane)
            del self._lanes[channel_id], self._workers[channel_id]

    async def _handle_safely(self, event: E) -> None:
        try:
            await self._handle(event)
        except Exception:
            # The outermost edge: one event's failure must not end its lane.
            log.exception("an event in channel %d failed", event.channel_id)
