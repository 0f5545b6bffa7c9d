"""The unittest cases run by unittest as well, without pytest's fixtures and options."""

import os
import subprocess
import sys

from agentic.process.root import ROOT


def test_the_unittest_cases_run_by_unittest():
    command = [sys.executable, "-m", "unittest", "discover", "-b", "-s", "tests"]
    environment = {"PATH": os.environ["PATH"]}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)  # noqa: S603
    assert ended.returncode == 0, ended.stderr
    assert "Ran 0 tests" not in ended.stderr
