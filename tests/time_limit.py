"""A test that hangs fails by itself and shows where.

pytest-timeout fails it by a signal; of a test in an event loop that would show the loop alone, and nothing ends a hang
in what follows. Here the signal shows each task first, and comes again.
"""

import asyncio
import signal
import sys
import traceback

import pytest

AGAIN = 20.0  # seconds; for a test's end that hangs as well


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(settings):
    done = yield
    fail = signal.getsignal(signal.SIGALRM)

    def show_and_fail(number, frame):
        show_tasks()
        fail(number, frame)

    signal.signal(signal.SIGALRM, show_and_fail)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, min(settings.timeout, AGAIN))
    return done


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
