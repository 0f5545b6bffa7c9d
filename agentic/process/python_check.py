"""Check that this Python can run the program, before other imports and in code that an old Python can read.

`make` provides the right Python. Started by hand, run_all.py gets the machine's own, which may be too old or lack
packages; without this check the owner would see a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

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
    """Exit with code 130 and without a traceback if Ctrl-C comes before the program handles it, such as in imports."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)


def complaint(version: tuple[int, ...]) -> str | None:
    """Return the problem with a Python of this version, or None."""
    if version < OLDEST:
        wanted, found = (".".join(map(str, each)) for each in (OLDEST, version))
        return f"Python {wanted} or newer is needed, this is {found} ({sys.executable}).\n{_ADVICE}"
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return f"This Python ({sys.executable}) lacks packages: {', '.join(missing)}.\n{_ADVICE}"
    return None
