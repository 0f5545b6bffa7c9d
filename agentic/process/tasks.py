"""Own background tasks, wait, and handle the signals that stop a process.

    SIGTERM, SIGHUP, Ctrl-C → `stop` → no new turns; running turns get a grace period; everything closes; exit code 0
    another Ctrl-C          → `hurry` → no waiting; exit after at most three seconds

All persistent state is in Redis, so an early exit loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

LEAVE_SECONDS = 3.0
INTERRUPTED = 130  # exit code of an interrupted process
MAX_PAUSE = 60.0  # seconds between two starts of a task that fails
STEADY_SECONDS = 60.0  # a task that ran this long has recovered

Clock = Callable[[], float]  # unix seconds
Sleep = Callable[[float], Awaitable[object]]
T = TypeVar("T")

log = logging.getLogger(__name__)


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel the tasks and wait until they have cleaned up."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class BackgroundTasks:
    """Keeps started tasks until they are done. If a task fails, that is logged; the others keep running."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    async def finish(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have cleaned up."""
        await cancel_and_wait(*self._tasks)

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)


class BackgroundResult(Generic[T]):
    """A result of background work. The main flow takes it if it is ready in time, and drops it otherwise."""

    def __init__(self) -> None:
        self._task: asyncio.Task[T | None] | None = None

    def start(self, work: Coroutine[Any, Any, T | None], name: str) -> None:
        self.drop()
        self._task = asyncio.create_task(work, name=name)

    async def take(self, seconds: float) -> T | None:
        """Wait at most this long for the result. Returns None if there is none. A failure is logged."""
        task, self._task = self._task, None
        if task is None:
            return None
        try:
            done, _ = await asyncio.wait({task}, timeout=max(0.0, seconds))
        finally:
            task.cancel()  # has no effect if the task is done
        if not done or task.cancelled():
            return None
        if (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)
            return None
        return task.result()

    def drop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set or the time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def run_until_one_ends(*work: Coroutine[Any, Any, None]) -> None:
    """Run these concurrently until one ends, cancel the others, and raise its error.

    Before Python 3.13, a TaskGroup loses a cancellation that comes at the moment of a child's error, so a loop that
    survives such errors couldn't be canceled.
    """
    tasks = [asyncio.create_task(each) for each in work]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(*tasks)
    for task in ended:
        task.result()


async def restart_on_failure(
    work: Callable[[], Coroutine[Any, Any, None]],
    name: str,
    *,
    failing: set[str] | None = None,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Run a watcher to its end. If it fails, log that, and start it again after a pause, with its name in `failing`."""
    names, failures = set[str]() if failing is None else failing, 0
    while True:
        began = time.monotonic()
        try:
            await work()
            return
        except Exception:  # the outermost edge of a task whose failure must not end the bots
            failures = failures + 1 if time.monotonic() - began < STEADY_SECONDS else 1
            pause = min(MAX_PAUSE, 2.0 ** (failures - 1))
            log.exception("%s failed; it starts again in %.0f s", name, pause)
        names.add(name)
        try:
            await sleep(pause)
        finally:
            names.discard(name)


@dataclass(frozen=True)
class Shutdown:
    """The requested shutdown: `stop` after the first signal, `hurry` after a second Ctrl-C."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)

    def on_signals(self) -> None:
        """Install the signal handlers. A second SIGTERM doesn't hurry: service managers repeat theirs. SIGHUP stays
        ignored if it is, because nohup lets a program outlive its terminal."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop.set)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGHUP, self.stop.set)
        loop.add_signal_handler(signal.SIGINT, self.interrupted)

    def interrupted(self) -> None:
        if not self.stop.is_set():
            self.stop.set()
        elif not self.hurry.is_set():
            self.hurry.set()
            asyncio.get_running_loop().call_later(LEAVE_SECONDS, os._exit, INTERRUPTED)


async def last_turns(turns: Mapping[str, Coroutine[Any, Any, None]], grace: float, hurry: asyncio.Event) -> None:
    """Wait for the agents' running turns, at most `grace` seconds and only until `hurry`."""
    tasks = {name: asyncio.create_task(turn, name=f"{name}: last turns") for name, turn in turns.items()}
    hurried = asyncio.create_task(hurry.wait(), name="hurry")
    waiting = {hurried, *tasks.values()}
    loop = asyncio.get_running_loop()
    end = loop.time() + grace
    while not hurried.done() and len(waiting) > 1 and (left := end - loop.time()) > 0:
        _, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
    if late := [name for name, task in tasks.items() if not task.done()]:
        log.warning("turns took longer than the grace period and are canceled: %s", ", ".join(late))
    for task in waiting:
        task.cancel()
    for outcome in await asyncio.gather(*tasks.values(), return_exceptions=True):
        if isinstance(outcome, Exception):
            log.error("finishing the last turns failed", exc_info=outcome)
