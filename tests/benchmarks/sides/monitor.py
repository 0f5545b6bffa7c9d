"""Stalls of an event loop: how long it was blocked, and by which function.

A tick is due every few milliseconds; its delay is how long the loop was blocked. If the loop's thread used the
processor meanwhile, the program caused the stall, otherwise the machine did. While a tick is overdue, a second thread
notes the function that the loop is in.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

TICK = 0.005  # seconds
SHOWN_FRAMES = 6


class StallMonitor:
    """Watch the running loop between `start` and `stop`. `threshold` in seconds."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._stalls: list[dict[str, Any]] = []
        self._where = ""
        self._collecting = 0.0  # seconds of garbage collection since the last tick
        self._gc_began = 0.0
        self._over = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._due = self._cpu = 0.0
        self._thread_id = threading.get_ident()

    def start(self) -> None:
        gc.callbacks.append(self._note_collection)
        self._plan()
        self._timer = self._loop.call_later(TICK, self._tick)
        self._watcher = threading.Thread(target=self._watch, name="stalls", daemon=True)
        self._watcher.start()

    def stop(self) -> list[dict[str, Any]]:
        """Return the stalls: delay, processor time and garbage collection in seconds, and the functions."""
        self._timer.cancel()
        self._over.set()
        self._watcher.join()
        gc.callbacks.remove(self._note_collection)
        return self._stalls

    def _plan(self) -> None:
        self._due = time.perf_counter() + TICK
        self._cpu = time.thread_time()
        self._where, self._collecting = "", 0.0

    def _tick(self) -> None:
        late = time.perf_counter() - self._due
        if late >= self._threshold:
            used = time.thread_time() - self._cpu
            self._stalls.append({"late": late, "cpu": used, "collecting": self._collecting, "where": self._where})
        self._plan()
        self._timer = self._loop.call_later(TICK, self._tick)

    def _note_collection(self, phase: str, _: Mapping[str, int]) -> None:
        if phase == "start":
            self._gc_began = time.perf_counter()
        else:
            self._collecting += time.perf_counter() - self._gc_began

    def _watch(self) -> None:
        while not self._over.wait(TICK):
            if time.perf_counter() - self._due > self._threshold / 2 and not self._where:
                self._where = _stack(sys._current_frames().get(self._thread_id))


def _stack(frame: FrameType | None) -> str:
    """List the innermost functions, innermost first."""
    shown: list[str] = []
    while frame is not None and len(shown) < SHOWN_FRAMES:
        place = "/".join(frame.f_code.co_filename.rsplit("/", 2)[-2:])
        shown.append(f"{place}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(shown)
