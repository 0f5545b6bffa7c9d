"""Can this Python run the program? Asked before anything else is imported, and in words that an old Python can read.

`make` looks after both; who starts run_all.py by hand meets the machine's own Python, which may be too old or know none
of the packages, and would be told so by a traceback.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

OLDEST = (3, 11)
NEEDED = ("aiohttp", "discord", "pydantic_settings", "redis", "rich", "yaml")  # what no start goes without
_ADVICE = "make local and make run make .venv with what is needed; by hand it is .venv/bin/python run_all.py."


def check_python() -> None:
    """Ends the process with exit code 2 and what to do, where the program could not even be imported."""
    told = complaint(tuple(sys.version_info[:2]))
    if told is not None:
        print(told, file=sys.stderr)
        sys.exit(2)


def complaint(version: tuple[int, ...]) -> str | None:
    """What is wrong with a Python of this version, None where nothing is."""
    if version < OLDEST:
        wanted, found = (".".join(map(str, each)) for each in (OLDEST, version))
        return f"Python {wanted} or newer is needed, this is {found} ({sys.executable}).\n{_ADVICE}"
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return f"This Python ({sys.executable}) lacks packages: {', '.join(missing)}.\n{_ADVICE}"
    return None
