"""A test that hangs fails by itself and shows where.

pytest-timeout fails it by a signal; of a test in an event loop that would show the loop alone, and nothing ends a hang
in what follows. Here the signal shows each task first, and comes again. Where it strikes in a task of its own, the
failure is that task's alone and the test may go on and pass: so a test whose time ran out fails in any case.
"""

import asyncio
import signal
import sys
import traceback

import pytest

AGAIN = 20.0  # seconds; for a test's end that hangs as well
RAN_OUT = pytest.StashKey[str]()  # after what time, and where


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item, settings):
    done = yield
    fail = signal.getsignal(signal.SIGALRM)

    def show_and_fail(number, frame):
        where = "".join(traceback.format_stack(frame))
        item.stash[RAN_OUT] = f"Timeout (>{settings.timeout}s), in a task of the test:\n{where}"
        show_tasks()
        fail(number, frame)

    signal.signal(signal.SIGALRM, show_and_fail)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, min(settings.timeout, AGAIN))
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    ran_out = item.stash.get(RAN_OUT, None)
    if ran_out is not None:
        del item.stash[RAN_OUT]
        if report.passed:
            report.outcome, report.longrepr = "failed", ran_out
    return report


def show_tasks():
    """Write to stderr where each task of the running loop waits."""
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop runs: the traceback of the test says it
        return
    for task in tasks:
        lines = traceback.StackSummary.extract(frames_of(task.get_coro())).format()
        print(f"-- {task.get_name()}", *lines, sep="\n", file=sys.stderr)


def frames_of(waiting):
    """The frames of a coroutine, the outermost first, with their lines."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is None:
            return
        yield frame, frame.f_lineno
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
