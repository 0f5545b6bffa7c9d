"""Control of the processes in sides/: starts one, sends commands (sides/lines.py), reads its processor time and memory,
ends it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

from agent_config import process_environment
from agentic.process.root import ROOT
from tests.benchmarks.sides.lines import LONGEST_LINE

PATIENCE = 60.0  # seconds for an answer
GOODBYE = 10.0  # seconds to end by itself
SAMPLE_EVERY = 0.02  # seconds between two looks at the memory
SHOWN_LOG_LINES = 15
MEGABYTE = 1024 * 1024
# The rest of the environment may contain keys, proxies and addresses that would change the measurement.
KEPT = ("PATH", "HOME", "TMPDIR", "LANG", "XDG_RUNTIME_DIR")


class Broken(Exception):
    """A measured process ended or did not answer; the text includes the end of its log."""


class Child:
    """A running process. `hello` is its first line, `start_seconds` the time until it came."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name, self.log = name, log
        self.hello: dict[str, Any] = {}
        self.start_seconds = 0.0
        self._process = process
        self._seen = psutil.Process(process.pid)
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, do: str, *, patience: float = PATIENCE, **arguments: Any) -> Any:
        """Send a command and return its answer. Raises Broken."""
        assert self._process.stdin is not None
        async with self._one_at_a_time:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            return await self.read(patience)

    async def read(self, patience: float = PATIENCE) -> Any:
        """Return the next line. Raises Broken."""
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), patience)
        except TimeoutError:
            raise Broken(f"{self.name} did not answer within {patience:g} s\n{self._end_of_log()}") from None
        if not line:
            raise Broken(f"{self.name} ended\n{self._end_of_log()}")
        return json.loads(line)

    def cpu_seconds(self) -> float:
        """Processor time used so far, user and system."""
        times = self._seen.cpu_times()
        return float(times.user + times.system)

    def megabytes(self) -> float:
        """Resident memory now, in units of 1024² bytes."""
        return float(self._seen.memory_info().rss) / MEGABYTE

    def open_files(self) -> int:
        """The number of its open files, sockets among them."""
        return int(self._seen.num_fds())

    @asynccontextmanager
    async def watching_memory(self) -> AsyncIterator[list[float]]:
        """Yield a list with the highest memory seen while the block runs."""
        highest = [self.megabytes()]
        watch = asyncio.create_task(self._watch_memory(highest))
        try:
            yield highest
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    async def _watch_memory(self, highest: list[float]) -> None:
        while True:
            await asyncio.sleep(SAMPLE_EVERY)
            highest[0] = max(highest[0], self.megabytes())

    async def end(self) -> None:
        """Close its input and wait; kill it if it does not end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), GOODBYE)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _end_of_log(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-SHOWN_LOG_LINES:])


def measured_environment() -> dict[str, str]:
    """The part of our environment that a measured process gets."""
    return {name: value for name, value in process_environment().items() if name in KEPT}


@asynccontextmanager
async def child(module: str, arguments: Mapping[str, Any], folder: Path) -> AsyncIterator[Child]:
    """Run `tests.benchmarks.sides.{module}` and wait for its first line; its log goes to `folder`. Raises Broken."""
    log = folder / f"{module}.log"
    began = time.perf_counter()
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"tests.benchmarks.sides.{module}", json.dumps(arguments)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            cwd=ROOT,
            env=measured_environment(),
            limit=LONGEST_LINE,
        )
    started = Child(module, process, log)
    try:
        started.hello = await started.read()
        started.start_seconds = time.perf_counter() - began
        yield started
    finally:
        await started.end()
