"""The inbox of an agent: one lane per channel, first in first out; lanes run side by side up to a limit.

So a slow turn in one channel never holds another, and two turns in one channel never overlap. Events that may begin do
so in the order of their arrival; with one turn at a time the whole inbox is first in first out. It is bounded: an event
that does not fit is refused, and the caller reports that.

    put → lane → its first event, when nothing of the lane runs → its place among the running ones → handled
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

log = logging.getLogger(__name__)


class Queued(Protocol):
    """Anything that belongs to a channel and takes a number."""

    @property
    def channel_id(self) -> int: ...
    @property
    def seq(self) -> int: ...
    @property
    def at(self) -> float: ...
    def stamped(self, seq: int, at: float) -> Self: ...


E = TypeVar("E", bound=Queued)


class Inbox(Generic[E]):
    """Bounded lanes. `max_running` turns at a time over all lanes, `max_depth` events waiting beyond those; with 0 an
    event that cannot begin immediately is refused. An event for which `always_fits` is true is never refused for lack
    of room. `clock` gives unix seconds, `lane` the name of an event's lane.

    `pause` says for how many more seconds the first event of a lane waits, and is asked again after them; other lanes
    pass a paused one.
    """

    def __init__(
        self,
        handle: Callable[[E], Awaitable[None]],
        *,
        max_running: int,
        max_depth: int,
        pause: Callable[[E], float] = lambda _: 0.0,
        always_fits: Callable[[E], bool] = lambda _: False,
        lane: Callable[[E], Hashable] = lambda event: event.channel_id,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._handle, self._pause, self._lane_of, self._clock = handle, pause, lane, clock
        self._max_running, self._max_depth, self._always_fits = max_running, max_depth, always_fits
        self._lanes: dict[Hashable, deque[E]] = {}  # also those of which an event runs and none waits
        self._running: dict[Hashable, asyncio.Task[None]] = {}
        self._next: dict[Hashable, E] = {}  # of a lane that has its place: the event, until its turn's first step
        self._paused: dict[Hashable, asyncio.TimerHandle] = {}
        self._heads: list[tuple[int, Hashable]] = []  # number and name of lanes' first events; some are out of date
        self._waiting = 0
        self._seq, self._at = 0, 0.0
        self._closed = self._called = False
        self._empty = asyncio.Event()
        self._empty.set()

    def size(self) -> int:
        """Events that wait; those whose turn runs or is about to are not counted. Above `max_depth` only by events
        that always fit."""
        return self._backlog(self._waiting, len(self._lanes))

    def waiting(self, channel_id: int) -> tuple[E, ...]:
        """The channel's events whose turn has not begun, in their order."""
        first = self._next.get(channel_id)
        return (*(() if first is None else (first,)), *self._lanes.get(channel_id, ()))

    @property
    def channels(self) -> tuple[int, ...]:
        """The channels in which something waits or runs."""
        return tuple(lane for lane in self._lanes if isinstance(lane, int))

    @property
    def lanes(self) -> tuple[Hashable, ...]:
        """The lanes in which something waits or runs."""
        return tuple(self._lanes)

    def has_room(self, event: E) -> bool:
        """Whether the event would be added now."""
        if self._closed or self._always_fits(event):
            return not self._closed
        lane = self._lane_of(event)
        lanes = len(self._lanes) + (lane not in self._lanes)
        return self._backlog(self._waiting + 1, lanes) <= self._max_depth

    def replace(self, event: E, other: E) -> None:
        """Put another event in the place of one that waits. Raises ValueError when it does not wait any more."""
        other, name = other.stamped(event.seq, event.at), self._lane_of(event)
        if self._next.get(name) == event:
            self._next[name] = other
            return
        lane = self._lanes.get(name, deque())
        lane[lane.index(event)] = other

    def put(self, event: E) -> E | None:
        """Add the event, with its number and time; None when the inbox is full or closed."""
        if not self.has_room(event):
            return None
        lane = self._lane_of(event)
        self._seq, self._at = self._seq + 1, max(self._at, self._clock())
        stamped = event.stamped(self._seq, self._at)
        self._lanes.setdefault(lane, deque()).append(stamped)
        self._waiting += 1
        self._empty.clear()
        self._offer(lane)
        return stamped

    def cancel(self, name: Hashable, *, keep: Callable[[E], bool] = lambda _: False) -> list[E]:
        """Remove what waits in a lane, but for what `keep` picks; the lane's running turn continues."""
        lane = self._lanes.get(name)
        if lane is None:
            return []
        waiting = list(lane)
        lane.clear()
        lane.extend(event for event in waiting if keep(event))
        gone = [event for event in waiting if not keep(event)]
        self._waiting -= len(gone)
        if name in self._next and not keep(self._next[name]):
            gone.insert(0, self._next.pop(name))
        self._tidy(name)
        self._offer(name)
        return gone

    async def drain(self) -> None:
        """Take nothing more in and return when all lanes are empty."""
        self._closed = True
        await self._empty.wait()

    def close(self) -> list[E]:
        """Take nothing more in and return what waits, in the order of arrival; running turns continue."""
        self._closed = True
        waiting = [event for lane in tuple(self._lanes) for event in self.cancel(lane)]
        return sorted(waiting, key=lambda event: event.seq)

    async def aclose(self) -> None:
        """Take nothing more in; cancel what runs, drop what waits."""
        self.close()
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    # -- from the lanes to the turns ----------------------------------------------------------------------------------

    def _backlog(self, waiting: int, lanes: int) -> int:
        """The number of events that wait beyond those with a place; a lane has at most one place."""
        running = len(self._running)
        return waiting - min(lanes - running, self._max_running - running, waiting)

    def _offer(self, name: Hashable) -> None:
        """Let the lane's first event begin as soon as there is a place for it."""
        lane = self._lanes.get(name)
        if not lane or name in self._running or name in self._paused:
            return
        heapq.heappush(self._heads, (lane[0].seq, name))
        if not self._called:  # a moment later, so that what comes with it can still be gathered into it
            self._called = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._called = False
        while self._heads and len(self._running) < self._max_running:
            seq, name = heapq.heappop(self._heads)
            lane = self._lanes.get(name)
            if not lane or lane[0].seq != seq or name in self._running or name in self._paused:
                continue  # out of date
            if (seconds := self._pause(lane[0])) > 0:
                timer = asyncio.get_running_loop().call_later(seconds, self._resume, name)
                self._paused[name] = timer
                continue
            self._waiting -= 1
            self._next[name] = lane.popleft()
            task = asyncio.create_task(self._work(name), name=f"lane {name}")
            self._running[name] = task
            task.add_done_callback(partial(self._ended, name))

    def _resume(self, name: Hashable) -> None:
        del self._paused[name]
        self._offer(name)

    async def _work(self, name: Hashable) -> None:
        event = self._next.pop(name, None)
        if event is None:  # taken back at the last moment
            return
        try:
            await self._handle(event)
        except Exception:
            # The outermost edge: a failing event must not end its lane.
            log.exception("lane %s: an event failed; the lane continues", name)

    def _ended(self, name: Hashable, _: object) -> None:
        del self._running[name]
        self._next.pop(name, None)  # of a task that was cancelled before its first step
        self._tidy(name)
        self._offer(name)
        self._begin()

    def _tidy(self, name: Hashable) -> None:
        """Remove a lane in which nothing waits or runs."""
        if self._lanes[name]:
            return
        if (timer := self._paused.pop(name, None)) is not None:
            timer.cancel()
        if name not in self._running:
            del self._lanes[name]
        if not self._lanes:
            self._empty.set()
