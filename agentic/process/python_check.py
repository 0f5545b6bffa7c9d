"""Check that this Python can run the program, before other imports and in code that an old Python can read.

`make` provides the right Python. Started by hand, run_all.py gets the machine's own, which may be too old or lack
packages; without this check the owner would see a traceback.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType

OLDEST = (3, 11)
NEEDED = ("aiohttp", "discord", "pydantic_settings", "redis", "rich", "yaml")  # needed by every start
_ADVICE = "Start with make local or make run, which install everything into .venv, or with .venv/bin/python run_all.py."


def check_python() -> None:
    """Exit with code 2 and advice if the program can't be imported."""
    problem = complaint(tuple(sys.version_info[:2]))
    if problem is not None:
        print(problem, file=sys.stderr)
        sys.exit(2)


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Exit without a traceback if a signal comes before the program handles it, such as in imports or while it opens
    Redis: with code 130 after Ctrl-C, and with 0 after SIGTERM and SIGHUP. What is open gets closed. An ignored signal,
    as SIGHUP under nohup, stays ignored."""
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        told.append(number)
        interrupt = signal.getsignal(signal.SIGINT)  # asyncio's, which cancels the main task, if its loop runs
        if not callable(interrupt):
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(0 if told else 130)


def complaint(version: tuple[int, ...]) -> str | None:
    """Return the problem with a Python of this version, or None."""
    if version < OLDEST:
        wanted, found = (".".join(map(str, each)) for each in (OLDEST, version))
        return f"Python {wanted} or newer is needed, this is {found} ({sys.executable}).\n{_ADVICE}"
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return f"This Python ({sys.executable}) lacks packages: {', '.join(missing)}.\n{_ADVICE}"
    return None
