"""Control of a measured process: a line of JSON in, a line of JSON out.

The first line out says that the process is ready. The process ends with its standard input, so it never outlives the
one that started it. A command that raises ends the process, with the traceback in its log. The clock of a process may
be moved on by a command.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

LONGEST_LINE = 64 * 1024 * 1024

Command = Callable[..., Awaitable[Any]]


def arguments() -> dict[str, Any]:
    """Parse the only argument, a JSON object."""
    given = json.loads(sys.argv[1])
    if not isinstance(given, dict):
        raise TypeError("expected a JSON object")
    return given


async def serve(commands: Mapping[str, Command], hello: Any) -> None:
    """Print `hello`, then execute `{"do": name, ...keyword arguments}` line by line until the input ends."""
    reader = await _standard_input()
    say(hello)
    while line := await reader.readline():
        request = json.loads(line)
        say(await commands[request.pop("do")](**request))


def say(value: Any) -> None:
    print(json.dumps(value), flush=True)


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


class DrivenClock:
    """Called, returns unix seconds: the time that really passes, and what it was moved on by: a day within minutes."""

    def __init__(self) -> None:
        self._moved_on = 0.0

    def __call__(self) -> float:
        return time.time() + self._moved_on

    async def move_on(self, seconds: float) -> None:
        self._moved_on += seconds
