"""Tries mutants in copies of the tree, one at a time in each; never in the checkout itself."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_process.root import ROOT
from tests.mutants.mutant import Misfit, Mutant

SECONDS = 240.0  # for the tests of one mutant; what takes longer hangs
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "data", ".hypothesis", ".env")
PASSED, FAILED, BROKEN = 0, 1, 2  # pytest's exit codes; the last one where a module cannot be imported

Fate = Literal["killed", "hangs", "ALIVE"]


@dataclass(frozen=True, slots=True)
class Outcome:
    mutant: Mutant
    line: int
    fate: Fate
    seconds: float


class Copy:
    """A copy of the tree."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, ...], bool] = {}

    async def tried(self, mutant: Mutant) -> Outcome:
        """Raises Misfit where the mutant or its tests do not fit the code."""
        path = self._folder / mutant.file
        if not path.is_file():
            raise Misfit(f"{mutant.file}: there is no such file ({mutant.promise})")
        before = path.read_text(encoding="utf-8")
        wrong = mutant.applied(before)
        if not await self._pass(mutant.tests):
            raise Misfit(f"{' '.join(mutant.tests)}: they fail without the mistake, too ({mutant.promise})")
        began = time.monotonic()
        try:
            self._write(path, wrong)
            code = await self._run(mutant.tests)
        finally:
            self._write(path, before)
        fate: Fate = "hangs" if code is None else "ALIVE" if code == PASSED else "killed"
        return Outcome(mutant, mutant.line(before), fate, time.monotonic() - began)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Python knows a changed file by its size and its second, which may be those of the mistake before.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    async def _pass(self, tests: tuple[str, ...]) -> bool:
        if tests not in self._known:
            self._known[tests] = await self._run(tests) == PASSED
        return self._known[tests]

    async def _run(self, tests: Sequence[str]) -> int | None:
        """pytest's exit code; None where it took too long. Raises Misfit where it found no tests."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "60",
            *(f"tests/{test}" for test in tests),
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": ""},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = await asyncio.wait_for(process.wait(), SECONDS)
        except TimeoutError:
            return None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # what the tests started goes along
                await process.wait()
        if code not in (PASSED, FAILED, BROKEN):
            raise Misfit(f"{' '.join(tests)}: pytest ended with {code}")
        return code


@contextmanager
def copies(number: int) -> Iterator[list[Copy]]:
    """So many copies of the tree, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        places = [Path(folder) / str(place) for place in range(number)]
        for place in places:
            shutil.copytree(ROOT, place, ignore=LEFT_OUT, symlinks=True)
        yield [Copy(place) for place in places]


async def try_all(
    mutants: Sequence[Mutant], jobs: int, told: Callable[[Outcome | Misfit], None]
) -> tuple[list[Outcome], list[Misfit]]:
    """Tries each, `jobs` at a time, and tells each outcome when it is known."""
    waiting, outcomes, misfits = list(reversed(mutants)), list[Outcome](), list[Misfit]()

    async def work(copy: Copy) -> None:
        while waiting:
            try:
                outcome = await copy.tried(waiting.pop())
            except Misfit as misfit:
                misfits.append(misfit)
                told(misfit)
            else:
                outcomes.append(outcome)
                told(outcome)

    with copies(jobs) as places:
        async with asyncio.TaskGroup() as group:
            for place in places:
                group.create_task(work(place))
    return outcomes, misfits
