"""The one owner of retries: a total budget in seconds, a number of attempts, waits that grow with jitter.

Every attempt may use all that is left of the budget; a wait that would end after the budget is not begun. What a
provider asks for by retry-after is waited at least; if it does not fit the budget the error is raised at once, so that
the caller can do something better with the time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from agent_llm.errors import ModelError, Retryable, TimedOut

T = TypeVar("T")
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently. Seconds."""

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 8.0

    def wait(self, failed: int, error: Retryable, rng: random.Random) -> float:
        """Seconds to wait after the `failed`-th failure, counted from 1."""
        grown = min(self.longest_wait, self.first_wait * 2 ** (failed - 1))
        if error.retry_after is not None:
            # A little later than asked, so that several bots do not return in the same instant.
            return max(0.0, error.retry_after) + rng.uniform(0.0, self.first_wait)
        return rng.uniform(grown / 2, grown)


@dataclass(frozen=True, slots=True)
class Retrier:
    """Runs attempts. `clock` only measures spans, so that a change of the wall clock does not matter."""

    policy: RetryPolicy = RetryPolicy()
    rng: random.Random = field(default_factory=random.Random)
    clock: Clock = time.monotonic
    sleep: Sleep = asyncio.sleep

    async def run(
        self,
        attempt: Callable[[float], Awaitable[T]],
        *,
        seconds: float,
        failed: Callable[[ModelError, int], None],
    ) -> T:
        """The first attempt that succeeds. `attempt` gets the seconds left; `failed` hears of each failure.

        Raises the last attempt's ModelError; TimedOut when the budget is used up.
        """
        ends = self.clock() + seconds
        for number in count(1):
            try:
                return await _within(attempt, ends - self.clock())
            except ModelError as error:
                failed(error, number)
                wait = self._wait(error, number)
                if wait is None or self.clock() + wait >= ends:
                    raise
            await self.sleep(wait)
        raise AssertionError("unreachable")

    def _wait(self, error: ModelError, number: int) -> float | None:
        """Seconds until the next attempt, None when there is to be none."""
        if number >= self.policy.attempts or not isinstance(error, Retryable):
            return None
        return self.policy.wait(number, error, self.rng)


async def _within(attempt: Callable[[float], Awaitable[T]], seconds: float) -> T:
    if seconds <= 0:
        raise TimedOut
    try:
        async with asyncio.timeout(seconds):
            return await attempt(seconds)
    except TimeoutError:
        raise TimedOut from None
