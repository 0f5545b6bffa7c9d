"""No test may hang: its time is bounded, and what is shown says where it waited."""

import os
import subprocess
import sys
import textwrap

from agentic.process.root import ROOT

IN_A_CALL = """
    import asyncio

    async def wait_for_nothing():
        await asyncio.Event().wait()  # here

    async def test_hangs():
        await wait_for_nothing()
"""
AT_ITS_END = """
    import asyncio

    async def stay():
        while True:
            try:
                await asyncio.Event().wait()  # here
            except asyncio.CancelledError:
                pass

    async def test_hangs():
        task = asyncio.create_task(stay())
        await asyncio.sleep(0)
"""
IN_A_UNITTEST = """
    import asyncio, unittest

    class Tests(unittest.IsolatedAsyncioTestCase):
        async def test_hangs(self):
            await asyncio.Event().wait()  # here
"""
IN_A_TASK_THAT_NEVER_WAITS = """
    import asyncio

    async def spin():
        while True:  # here
            pass

    async def test_hangs():
        await asyncio.wait([asyncio.create_task(spin())])
"""
WITHOUT_A_LOOP = """
    import threading

    def test_hangs():
        threading.Event().wait()  # here
"""


HANGING = (IN_A_CALL, AT_ITS_END, IN_A_UNITTEST, IN_A_TASK_THAT_NEVER_WAITS, WITHOUT_A_LOOP)


def test_tests_that_hang_fail_by_themselves_and_show_where(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\ntimeout = 1.5\ntimeout_method = signal\n")
    for number, hanging in enumerate(HANGING):
        (tmp_path / f"test_hanging_{number}.py").write_text(textwrap.dedent(hanging))
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.time_limit", "-p", "no:cacheprovider"]
    report = ["--junitxml=report.xml", "-o", "junit_logging=all"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([*command, *report], cwd=tmp_path, env=environment, capture_output=True, timeout=60)  # noqa: S603
    assert ended.returncode == 1, ended.stdout
    cases = (tmp_path / "report.xml").read_text().split("<testcase ")[1:]
    assert len(cases) == len(HANGING)
    assert all("Timeout (&gt;1.5s)" in case and "# here" in case for case in cases), cases


def test_every_test_has_a_bound(pytestconfig):
    assert 0 < float(pytestconfig.getini("timeout")) <= 120
    assert pytestconfig.getini("timeout_method") == "signal"
