"""A start by a Python that cannot run the program."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys

import pytest

from agentic.process.python_check import complaint
from agentic.process.root import ROOT


def test_an_old_python_is_told_by_its_number_and_what_to_do() -> None:
    told = complaint((3, 10))
    assert told is not None
    assert told.startswith("Python 3.11 or newer is needed, this is 3.10")
    assert "make local" in told
    assert complaint(tuple(sys.version_info[:2])) is None


@pytest.mark.parametrize("name", ["run_all.py", "run_bot.py", "agentic/process/python_check.py"])
def test_what_says_so_can_be_read_by_old_pythons(name: str) -> None:
    ast.parse((ROOT / name).read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize("name", ["run_all.py", "run_bot.py"])
def test_a_python_without_the_packages_names_them_instead_of_a_traceback(name: str) -> None:
    # -S: no site-packages, as in a machine's own Python
    ended = subprocess.run([sys.executable, "-S", ROOT / name], capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.returncode == 2
    assert "lacks packages: aiohttp, discord" in ended.stderr
    assert "make run" in ended.stderr
    assert "Traceback" not in ended.stderr


INTERRUPTED = """
import runpy, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "agentic.runtime.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.promise(623)
@pytest.mark.parametrize("name", ["run_all.py", "run_bot.py", "agent_coordinator/__main__.py"])
def test_ctrl_c_while_the_program_is_still_being_loaded_ends_it_without_a_traceback(name: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, ROOT / name]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert (ended.returncode, ended.stderr) == (130, "")


OPENING = """
import asyncio, os, signal, sys
from contextlib import asynccontextmanager
from agentic.process.python_check import exit_on_interrupt

@asynccontextmanager
async def server():
    try:
        yield
    finally:
        await asyncio.sleep(0)
        print("closed")

async def start():
    async with server():
        os.kill(os.getpid(), int(sys.argv[1]))
        await asyncio.sleep(10)

signal.signal(signal.SIGINT, eval(sys.argv[2]))
with exit_on_interrupt():
    asyncio.run(start())
"""


@pytest.mark.promise(100, 623)
@pytest.mark.parametrize("interrupt", ["signal.default_int_handler", "signal.SIG_IGN"])  # ignored: in the background
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_start_closes_what_is_open_already(number: signal.Signals, interrupt: str) -> None:
    command = [sys.executable, "-c", OPENING, str(int(number)), interrupt]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "closed\n", "")
