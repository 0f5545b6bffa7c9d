"""Work beside the main flow."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from agentic.process.tasks import BackgroundResult, restart_on_failure, run_until_one_ends


async def given(value):
    return value


class Hanging:
    """Work that never ends by itself."""

    def __init__(self):
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def run(self):
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_a_result_that_is_there_in_time_is_taken_once():
    result = BackgroundResult()
    result.start(given("a picture"), "picture")
    assert [await result.take(1.0), await result.take(1.0)] == ["a picture", None]


async def test_nothing_begun_is_nothing_taken():
    assert await BackgroundResult().take(1.0) is None


async def test_work_that_is_not_done_in_time_is_ended():
    result = BackgroundResult()
    for end in (lambda: result.take(0.0), lambda: given(result.drop()), lambda: given(result.start(given(1), "next"))):
        work = Hanging()
        result.start(work.run(), "picture")
        await work.began.wait()
        assert await end() is None
        await asyncio.wait_for(work.ended.wait(), 5)
    assert await result.take(1.0) == 1


async def test_a_failure_is_logged_and_nothing_is_taken(caplog):
    async def fails():
        raise RuntimeError("a fault")

    result = BackgroundResult()
    result.start(fails(), "picture for m5")
    assert await result.take(1.0) is None
    assert "picture for m5 failed" in caplog.text


async def test_who_waits_and_is_cancelled_ends_the_work_too():
    work = Hanging()
    result = BackgroundResult()
    result.start(work.run(), "picture")
    waiting = asyncio.create_task(result.take(60))
    await work.began.wait()
    waiting.cancel()
    await asyncio.wait_for(work.ended.wait(), 5)


async def test_the_others_are_cancelled_when_one_ends_and_its_error_is_raised():
    cancelled = asyncio.Event()

    async def waits():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def fails():
        await asyncio.sleep(0)
        raise ConnectionError("cut")

    with pytest.raises(ConnectionError, match="cut"):
        await run_until_one_ends(waits(), fails())
    assert cancelled.is_set()


@pytest.mark.parametrize("steps", range(8))
async def test_a_cancel_in_the_moment_of_an_error_is_not_lost(steps: int):
    cut = asyncio.Event()

    async def fails():
        await cut.wait()
        cut.clear()
        raise ConnectionError

    async def reconnects():
        while True:
            with suppress(ConnectionError):
                await run_until_one_ends(fails(), asyncio.Event().wait())

    task = asyncio.create_task(reconnects())
    for _ in range(5):
        await asyncio.sleep(0)
    cut.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.cancelled()


@pytest.mark.promise(530)
async def test_a_watcher_that_fails_is_logged_and_starts_again(caplog):
    pauses, runs, failing = [], [], set()

    async def work():
        runs.append(None)
        if len(runs) < 4:
            raise OSError(24, "Too many open files")

    async def pause(seconds):
        pauses.append(seconds)
        assert failing == {"options"}

    await restart_on_failure(work, "options", failing=failing, sleep=pause)
    assert (len(runs), pauses, failing) == (4, [1, 2, 4], set())
    assert caplog.text.count("options failed") == 3


async def test_a_watcher_that_is_cancelled_does_not_start_again():
    hanging = Hanging()
    task = asyncio.create_task(restart_on_failure(hanging.run, "options"))
    await hanging.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert hanging.ended.is_set()
