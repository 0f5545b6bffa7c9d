"""The console's cost in memory, and the time until its live page shows a message, over a record of many turns."""

from __future__ import annotations

import time

import aiohttp

from agentic.console.app import free_port
from tests.benchmarks.stage import Bench
from tests.benchmarks.table import Row, median, milliseconds
from tests.support.records import fill

HISTORY = 60  # messages a channel
FIRST_MESSAGE_MS = 100
FILES = ("/", "/app.css", "/js/main.js", "/js/live.js")
RECORDED = 100_000  # turns


async def console(bench: Bench) -> list[Row]:
    """Open the live page several times, each as by a browser that never saw it."""
    port = free_port("127.0.0.1", 8988)
    async with bench.stage("console", channels=4, history=HISTORY) as stage:
        async with stage.settled_program() as program:
            without = program.megabytes()
        channel = next(iter(stage.channels.values()))
        recorded, data = bench.size(RECORDED, 1000), stage.folder / "recorded"
        fill(data / "record.db", recorded, now=time.time())
        async with stage.settled_program(CONSOLE="true", CONSOLE_PORT=str(port), DATA_DIR=str(data)) as program:
            unopened = program.megabytes()
            times = [await _first_message(port, channel) for _ in range(bench.size(20, 5))]
            opened = program.megabytes()
    return [
        Row(
            metric="memory of the console",
            value=opened - without,
            unit="MB",
            note=f"{unopened - without:.1f} MB unopened",
        ),
        Row(
            metric="live page to its first message",
            value=milliseconds(median(times)),
            unit="ms",
            target=FIRST_MESSAGE_MS,
            note=f"{recorded:,} turns recorded; all requests one after the other, without a browser's own time",
        ),
    ]


async def _first_message(port: int, channel: int) -> float:
    """The seconds for all that the page asks until it has messages."""
    began = time.perf_counter()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        for path in (*FILES, "/api/me", "/api/live/channels", f"/api/live/channels/{channel}"):
            async with session.get(path) as answer:
                answer.raise_for_status()
                body = await answer.read()
    if not body.startswith(b'{"items": [{'):
        raise RuntimeError("the live page has no message")
    return time.perf_counter() - began
