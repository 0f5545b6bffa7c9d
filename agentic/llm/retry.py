"""Retries and fallback lists.

The one owner of retries: a total budget in seconds, a number of attempts, growing waits with jitter.

`FAILURE_RULES` says for each kind of error whether the same model is asked again, whether the next model of a list may
answer instead (`fallback.py`), and for how long the failed model is avoided.

| error | retry | fall back | avoided for |
| --- | --- | --- | --- |
| RateLimited | yes | yes | retry-after, else 30 s |
| ServerFailed, ConnectionFailed | yes | yes | 30 s |
| TimedOut | no: its time is used up | yes | 60 s |
| QuotaUsedUp, BadKey, NotInstalled | no | yes | 15 min |
| BadRequest, PrefillRefused | no | no: the next would get the same prompt | - |
| FeatureRefused, ToolsRefused, SchemaRefused, TemperatureRefused | no: `base.py` asks without the feature | no | - |
| PromptTooLong | no | yes: the next may have a larger context | - |
| Refused, BadAnswer, CannotDraw | no | no: the next would get the same prompt | - |
| SessionLost | no: the caller reports it | no | - |

Every attempt may use all that is left of the budget. A wait that would end after the budget is not begun. A provider's
retry-after is the least wait; if it does not fit into the budget the error is raised immediately, so that the caller
can use the time.

A list of models in order of preference, used as one model: when one is down or out of quota, the next is asked.

`retry.FAILURE_RULES` says which errors count, and for how long a failed model is avoided. The models share one time
budget: one with a stand-in gets a part of what is left, the last one all of it. Avoided models are tried last, not
never: a late answer is better than none.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol, TypeVar

from agentic.llm.errors import (
    BadAnswer,
    BadKey,
    BadRequest,
    CannotDraw,
    ConnectionFailed,
    FeatureRefused,
    ModelError,
    NotInstalled,
    PrefillRefused,
    PromptTooLong,
    QuotaUsedUp,
    RateLimited,
    Refused,
    Retryable,
    SchemaRefused,
    ServerFailed,
    SessionLost,
    TemperatureRefused,
    TimedOut,
    ToolsRefused,
    not_made,
)
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply, Usage

log = logging.getLogger(__name__)


T = TypeVar("T")
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class FailureRule:
    """How one kind of error is handled. `rest`: seconds for which a model with stand-ins is avoided."""

    retry: bool = False
    fall_back: bool = False
    rest: float = 0.0


_NO_RECOVERY = FailureRule()
_ACCOUNT_FAILED = FailureRule(fall_back=True, rest=900.0)
FAILURE_RULES: Mapping[type[ModelError], FailureRule] = {
    RateLimited: FailureRule(retry=True, fall_back=True, rest=30.0),
    ServerFailed: FailureRule(retry=True, fall_back=True, rest=30.0),
    ConnectionFailed: FailureRule(retry=True, fall_back=True, rest=30.0),
    TimedOut: FailureRule(fall_back=True, rest=60.0),
    QuotaUsedUp: _ACCOUNT_FAILED,
    BadKey: _ACCOUNT_FAILED,
    NotInstalled: _ACCOUNT_FAILED,
    BadRequest: _NO_RECOVERY,
    PrefillRefused: _NO_RECOVERY,
    PromptTooLong: FailureRule(fall_back=True),
    FeatureRefused: _NO_RECOVERY,
    ToolsRefused: _NO_RECOVERY,
    SchemaRefused: _NO_RECOVERY,
    TemperatureRefused: _NO_RECOVERY,
    Refused: _NO_RECOVERY,
    BadAnswer: _NO_RECOVERY,
    CannotDraw: _NO_RECOVERY,
    SessionLost: _NO_RECOVERY,
}


def rule_for(error: ModelError) -> FailureRule:
    """Look an error up in the table. After a rate limit a model rests for as long as the provider asks."""
    rule = FAILURE_RULES.get(type(error), _NO_RECOVERY)
    if isinstance(error, Retryable) and error.retry_after is not None:
        return replace(rule, rest=error.retry_after)
    return rule


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to try: `attempts` in all, at least one; waits in seconds, doubled each time."""

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 8.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first_wait < 0 or self.longest_wait < self.first_wait:
            raise ValueError(f"not a valid retry policy: {self}")

    def wait(self, failed: int, error: Retryable, rng: random.Random) -> float:
        """Seconds to wait after the `failed`-th failure, counted from 1."""
        grown = min(self.longest_wait, self.first_wait * 2 ** (failed - 1))
        if error.retry_after is not None:
            # A little later than asked, so that several bots do not retry in the same instant.
            return max(0.0, error.retry_after) + rng.uniform(0.0, self.first_wait)
        return rng.uniform(grown / 2, grown)


@dataclass(frozen=True, slots=True)
class Retrier:
    """Runs attempts. `clock` only measures spans, so a change of the wall clock does not matter."""

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
        """Return the result of the first attempt that succeeds.

        `attempt` gets the seconds that are left. `failed` is called for each failure. `attempts`: at most that many,
        None for the policy's number. Raises the last attempt's ModelError, or TimedOut when the budget is used up.
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
        """Seconds until the next attempt, None if there is to be none."""
        if number >= most or not (isinstance(error, Retryable) and rule_for(error).retry):
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


SHARE = 0.6  # of the time that is left, for a model with a stand-in


class Billed(Protocol):
    @property
    def usage(self) -> Usage: ...


B = TypeVar("B", bound=Billed)


class Fallbacks:
    """Answers with the first of `models` that can. A reply carries the name of the model that gave it; `name` is the
    first one's.

    `clock` measures spans, in seconds. Only some kinds of errors fall back to the next model: it would reject a bad
    request or a refused one too.
    """

    def __init__(self, models: Sequence[Model], *, clock: Clock = time.monotonic) -> None:
        if not models:
            raise ValueError("no model to fall back on")
        self.models = tuple(models)
        self._clock = clock
        self._rests_until = [float("-inf")] * len(self.models)

    @property
    def name(self) -> str:
        return self.models[0].name

    @property
    def can_draw(self) -> bool:
        return any(model.can_draw for model in self.models)

    @property
    def free(self) -> bool:
        return all(model.free for model in self.models)

    def __repr__(self) -> str:
        return f"<Fallbacks {' → '.join(model.name for model in self.models)}>"

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        """Return one answer within `prompt.timeout` seconds, from whichever model. Raises ModelError only."""
        began = False

        def ask(model: Model, seconds: float) -> Awaitable[Reply]:
            nonlocal began
            if began and prompt.on_text:
                prompt.on_text("")
            began = True
            return model.complete(replace(prompt, timeout=seconds), history)

        reply, spent = await self._first(range(len(self.models)), prompt.timeout, ask)
        return replace(reply, usage=reply.usage + spent)

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        """Return one picture from the first model that can draw. Raises ModelError only."""
        able = [index for index, model in enumerate(self.models) if model.can_draw]
        if not able:
            raise CannotDraw(model=self.name)
        drawing, spent = await self._first(able, timeout, lambda model, seconds: model.draw(prompt, timeout=seconds))
        return replace(drawing, usage=drawing.usage + spent)

    async def aclose(self) -> None:
        for model in self.models:
            await model.aclose()

    async def _first(
        self, able: Sequence[int], seconds: float, ask: Callable[[Model, float], Awaitable[B]]
    ) -> tuple[B, Usage]:
        """Return the first model's answer that succeeds, and the cost of those that failed."""
        ends, spent = self._clock() + seconds, Usage()
        order, awake = self._order(able)
        for place, index in enumerate(order, start=1):
            left = ends - self._clock()
            try:
                if left <= 0:
                    raise not_made(TimedOut(model=self.models[index].name))
                return await ask(self.models[index], left * SHARE if place < awake else left), spent
            except ModelError as error:
                spent += error.usage or Usage()
                if not self._put_to_rest(index, error) or place == len(order):
                    error.usage = spent if spent != Usage() else None
                    raise
                log.warning(
                    "%s failed, falling back to %s: %s", self.models[index].name, self.models[order[place]].name, error
                )
        raise AssertionError("unreachable")

    def _order(self, able: Sequence[int]) -> tuple[list[int], int]:
        """Return the indices in the order to try, and how many of them are not being avoided."""
        now = self._clock()
        awake = [index for index in able if self._rests_until[index] <= now]
        return awake + [index for index in able if index not in awake], len(awake)

    def _put_to_rest(self, index: int, error: ModelError) -> bool:
        """Avoid a model for a while, unless no time was left to ask it.

        False if another model would fail the same way.
        """
        rule = rule_for(error)
        was_asked = error.made or not isinstance(error, TimedOut)
        if rule.fall_back and was_asked:
            self._rests_until[index] = self._clock() + rule.rest
        return rule.fall_back
