"""Count what the event loop's thread does: calls of Python and C functions, callbacks, and timers."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from types import CodeType, FrameType

import psutil  # type: ignore[import-untyped,unused-ignore]

_CALLBACK: CodeType = asyncio.Handle._run.__code__
_TIMER: CodeType = asyncio.BaseEventLoop.call_at.__code__


class CallCounter:
    """Count between `start` and `stop`, which run on the loop's thread. Times get several times longer meanwhile."""

    def __init__(self) -> None:
        self._calls = self._c_calls = self._callbacks = self._timers = 0
        self._began = self._thread_cpu = 0.0

    def start(self) -> None:
        self._began, self._thread_cpu = time.perf_counter(), _cpu_of_other_threads()
        sys.setprofile(self._count)

    def stop(self) -> dict[str, float]:
        """Return the counts, the seconds that passed, and the processor seconds of the other threads."""
        sys.setprofile(None)
        return {
            "Python calls": self._calls,
            "C calls": self._c_calls,
            "callbacks of the loop": self._callbacks,
            "timers": self._timers,
            "processor time of other threads": _cpu_of_other_threads() - self._thread_cpu,
            "seconds": time.perf_counter() - self._began,
        }

    def _count(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._calls += 1
            if frame.f_code is _CALLBACK:
                self._callbacks += 1
            elif frame.f_code is _TIMER:
                self._timers += 1
        elif event == "c_call":
            self._c_calls += 1


def _cpu_of_other_threads() -> float:
    this = threading.get_native_id()
    threads = psutil.Process().threads()
    return float(sum(each.user_time + each.system_time for each in threads if each.id != this))
