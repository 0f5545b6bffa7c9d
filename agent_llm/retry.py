"""The one owner of retries: a total budget in seconds, a number of attempts, waits that grow with jitter.

`REACTIONS` says for each kind of error whether the same model is asked again, whether the next one of a list may answer
instead (`fallback.py`), and for how long a model that failed so is left alone then.

| error | the same again | the next model | left alone |
| --- | --- | --- | --- |
| RateLimited | yes | yes | retry-after, else 30 s |
| ServerFailed, ConnectionFailed | yes | yes | 30 s |
| TimedOut | no: its time is used up | yes | 60 s |
| QuotaUsedUp, BadKey, NotInstalled | no | yes | 15 min |
| BadRequest, PrefillRefused, Refused, BadAnswer, CannotDraw | no | no: the next would hear the same | - |
| SessionLost | no: whoever asked is told to | no | - |

Every attempt may use all that is left of the budget; a wait that would end after the budget is not begun. What a
provider asks for by retry-after is waited at least; if it does not fit the budget the error is raised at once, so that
the caller can do something better with the time.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

from agent_llm.errors import (
    BadAnswer,
    BadKey,
    BadRequest,
    CannotDraw,
    ConnectionFailed,
    ModelError,
    NotInstalled,
    PrefillRefused,
    QuotaUsedUp,
    RateLimited,
    Refused,
    Retryable,
    ServerFailed,
    SessionLost,
    TimedOut,
    not_made,
)

T = TypeVar("T")
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Reaction:
    """What is done about a kind of error. `rest`: seconds for which a model that has stand-ins is not asked."""

    again: bool = False
    elsewhere: bool = False
    rest: float = 0.0


_NOTHING = Reaction()
_WITHOUT_ACCOUNT = Reaction(elsewhere=True, rest=900.0)
REACTIONS: Mapping[type[ModelError], Reaction] = {
    RateLimited: Reaction(again=True, elsewhere=True, rest=30.0),
    ServerFailed: Reaction(again=True, elsewhere=True, rest=30.0),
    ConnectionFailed: Reaction(again=True, elsewhere=True, rest=30.0),
    TimedOut: Reaction(elsewhere=True, rest=60.0),
    QuotaUsedUp: _WITHOUT_ACCOUNT,
    BadKey: _WITHOUT_ACCOUNT,
    NotInstalled: _WITHOUT_ACCOUNT,
    BadRequest: _NOTHING,
    PrefillRefused: _NOTHING,
    Refused: _NOTHING,
    BadAnswer: _NOTHING,
    CannotDraw: _NOTHING,
    SessionLost: _NOTHING,
}


def reaction_to(error: ModelError) -> Reaction:
    """What the table says; a rate limit rests as long as the provider asks for."""
    reaction = REACTIONS.get(type(error), _NOTHING)
    if isinstance(error, Retryable) and error.retry_after is not None:
        return replace(reaction, rest=error.retry_after)
    return reaction


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently: `attempts` in all, at least one; waits in seconds, doubled each time."""

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 8.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first_wait < 0 or self.longest_wait < self.first_wait:
            raise ValueError(f"a retry policy that cannot be followed: {self}")

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
        attempts: int | None = None,
    ) -> T:
        """The first attempt that succeeds. `attempt` gets the seconds left; `failed` hears of each failure.

        `attempts`: how many at most, None for as many as the policy says.

        Raises the last attempt's ModelError; TimedOut when the budget is used up.
        """
        ends = self.clock() + seconds
        most = self.policy.attempts if attempts is None else attempts
        for number in count(1):
            try:
                return await _within(attempt, ends - self.clock())
            except ModelError as error:
                failed(error, number)
                wait = self._wait(error, number, most)
                if wait is None or self.clock() + wait >= ends:
                    raise
            await self.sleep(wait)
        raise AssertionError("unreachable")

    def _wait(self, error: ModelError, number: int, most: int) -> float | None:
        """Seconds until the next attempt, None when there is to be none."""
        if number >= most or not (isinstance(error, Retryable) and reaction_to(error).again):
            return None
        return self.policy.wait(number, error, self.rng)


async def _within(attempt: Callable[[float], Awaitable[T]], seconds: float) -> T:
    if seconds <= 0:
        raise not_made(TimedOut())
    try:
        async with asyncio.timeout(seconds):
            return await attempt(seconds)
    except TimeoutError:
        raise TimedOut from None
