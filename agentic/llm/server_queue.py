"""One queue for each model server at home, in which people's turns go first.

A small model on the owner's machine answers one request at a time. All bots of this process that use such a server
share its queue: a person's call begins before every other call that waits. If no place is free, it interrupts a call
that may yield (a conversation's turn) and has produced nothing yet. The interrupted call keeps its place in line and is
made again. Its time goes on, so the deadline of its turn holds.

Another process has a queue of its own, and embeddings pass the queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from agentic.llm.types import Prompt

T = TypeVar("T")

log = logging.getLogger(__name__)


class ServerQueue:
    """The calls to one server. `slots` of them run at the same time."""

    def __init__(self, slots: int = 1) -> None:
        self.slots = slots
        self._running: list[QueuedCall] = []
        self._waiting: list[QueuedCall] = []
        self._numbers = count()

    def call(self, prompt: Prompt) -> QueuedCall:
        """Return a call that isn't in line yet."""
        return QueuedCall(self, prompt, next(self._numbers))

    async def wait(self, call: QueuedCall) -> None:
        """Wait in line until the call has a place. Whoever got one calls `leave`."""
        self._waiting.append(call)
        try:
            self._update()
            while call not in self._running:
                call.moved.clear()
                await call.moved.wait()
        except BaseException:
            self.leave(call)
            raise

    def leave(self, call: QueuedCall) -> None:
        for calls in (self._running, self._waiting):
            if call in calls:
                calls.remove(call)
        self._update()

    def _update(self) -> None:
        """Fill the free places, interrupt calls for the people who still wait, and report who is ahead."""
        self._waiting.sort(key=lambda call: (not call.for_person, call.number))
        while self._waiting and len(self._running) < self.slots:
            call = self._waiting.pop(0)
            self._running.append(call)
            call.moved.set()
            call.report(0)
        people = sum(call.for_person for call in self._waiting)
        leaving = sum(call.is_leaving for call in self._running)
        for call in reversed(self._running):  # the newest has the least to lose
            if leaving < people and call.may_be_interrupted:
                call.interrupt()
                leaving += 1
        for place, call in enumerate(self._waiting):
            call.report(len(self._running) - leaving + place)


class QueuedCall:
    """One model call and its place in the queue. `was_asked`: it has had a place. `was_interrupted`: it lost one."""

    def __init__(self, queue: ServerQueue, prompt: Prompt, number: int) -> None:
        self.number, self.for_person = number, prompt.priority == "person"
        self.moved = asyncio.Event()
        self.is_leaving = self.was_asked = self.was_interrupted = False
        self._queue, self._yields, self._on_wait = queue, prompt.priority == "yield", prompt.on_wait
        self._scope: asyncio.Timeout | None = None
        self._has_begun = False
        self._reported = 0

    async def run(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Return what `ask` returns, once it has run without an interruption."""
        while True:
            await self._queue.wait(self)
            self.was_asked = True
            self._has_begun = False
            self._scope = scope = asyncio.timeout(None)
            try:
                async with scope:
                    return await ask()
            except TimeoutError:
                if not scope.expired():
                    raise
            finally:
                self._scope, self.is_leaving = None, False
                self._queue.leave(self)
            self.was_interrupted = True
            log.info("a person's turn goes first: a conversation's turn waits and is then tried again")

    def begin(self) -> None:
        """Note that the model has produced something: from now on the call isn't interrupted."""
        self._has_begun = True

    @property
    def may_be_interrupted(self) -> bool:
        return self._yields and not self._has_begun and not self.is_leaving and self._scope is not None

    def interrupt(self) -> None:
        if self._scope is not None:
            self.is_leaving = True
            self._scope.reschedule(asyncio.get_running_loop().time())

    def report(self, ahead: int) -> None:
        """Tell the prompt's listener how many calls are ahead, if that has changed."""
        if self._on_wait is not None and ahead != self._reported:
            self._reported = ahead
            self._on_wait(ahead)


_queues: WeakValueDictionary[str, ServerQueue] = WeakValueDictionary()


def queue_at(base_url: str, slots: int) -> ServerQueue:
    """Return the process's queue for the server at this address; endpoints with the same address share it, with the
    larger number of slots."""
    server = urlsplit(base_url)
    host = "127.0.0.1" if server.hostname == "localhost" else server.hostname
    queue = _queues.setdefault(f"{host}:{server.port}", ServerQueue(slots))
    queue.slots = max(queue.slots, slots)
    return queue
