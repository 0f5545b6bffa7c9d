"""Waiting for a condition instead of for a time."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from agentic.local.discord.backend import Backend

T = TypeVar("T")
_ALSO_EVERY_SECONDS = 0.01


async def wait_for(backend: Backend, predicate: Callable[[], T], seconds: float, describe: Callable[[], str]) -> T:
    """Return the predicate's first truthy value.

    It is evaluated now, after each event and request, and every 10 ms, so that it may also depend on things outside of
    the server. Its errors are raised here. Raises TimeoutError with describe()'s text after that many seconds.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def evaluate() -> None:
        if done.done():
            return
        try:
            value = predicate()
        except Exception as error:  # raised by wait_for, which was given the predicate
            done.set_exception(error)
        else:
            if value:
                done.set_result(value)

    backend.watchers.append(evaluate)
    ticking = asyncio.create_task(_tick(evaluate), name="discord stand-in: wait_for")
    try:
        evaluate()
        return await asyncio.wait_for(done, seconds)
    except TimeoutError:
        if done.done() and not done.cancelled():
            raise  # the predicate's own
        raise TimeoutError(f"not within {seconds:g} s. {describe()}") from None
    finally:
        backend.watchers.remove(evaluate)
        ticking.cancel()


async def _tick(evaluate: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(_ALSO_EVERY_SECONDS)
        evaluate()
