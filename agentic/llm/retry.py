"""Retries of a model call, and lists of models used as one.

This module owns all retries: a total time in seconds, a number of attempts, and growing waits with jitter. Every
attempt may use all of the remaining time. A provider's retry-after is the minimum wait. If a wait doesn't fit into the
remaining time, the error is raised immediately, so that the caller can use the time.

`Fallbacks` is a list of models in order of preference: if a model is down or out of quota, the next one is asked. They
share the time: a model with a stand-in gets a part of the remaining time, the last model all of it. A failed model is
avoided for a while; avoided models are tried last, because a late answer is better than none. The classes in errors.py
say which errors are retried, which fall back, and for how long the failed model is avoided.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

from agentic.llm.errors import CannotDraw, ModelError, Retryable, TimedOut, not_made
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply, Usage

SHARE = 0.6  # of the remaining time, for a model with a stand-in

T = TypeVar("T")
B = TypeVar("B", Reply, Drawing)
Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[object]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retrier:
    """Runs up to `attempts` attempts, with waits in seconds that double each time. `clock` is monotonic."""

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 8.0
    rng: random.Random = field(default_factory=random.Random)
    clock: Clock = time.monotonic
    sleep: Sleep = asyncio.sleep

    def wait(self, failed: int, error: Retryable) -> float:
        """Return the seconds to wait after failure number `failed`, counted from 1."""
        if error.retry_after is not None:
            # A little later than requested, so that several bots don't retry at the same moment.
            return max(0.0, error.retry_after) + self.rng.uniform(0.0, self.first_wait)
        grown = min(self.longest_wait, self.first_wait * 2 ** (failed - 1))
        return self.rng.uniform(grown / 2, grown)

    async def run(
        self,
        attempt: Callable[[float], Awaitable[T]],
        *,
        seconds: float,
        failed: Callable[[ModelError, int], None],
        attempts: int | None = None,
    ) -> T:
        """Return the result of the first attempt that succeeds.

        `attempt` gets the remaining seconds. `failed` is called for each failure. `attempts` overrides the usual
        number. Raises the last attempt's ModelError, or TimedOut when the time is over.
        """
        ends = self.clock() + seconds
        limit = self.attempts if attempts is None else attempts
        for number in count(1):
            try:
                left = ends - self.clock()
                if left <= 0:
                    raise not_made(TimedOut())
                try:
                    async with asyncio.timeout(left):
                        return await attempt(left)
                except TimeoutError:
                    raise TimedOut from None
            except ModelError as error:
                failed(error, number)
                if number >= limit or not isinstance(error, Retryable):
                    raise
                wait = self.wait(number, error)
                if self.clock() + wait >= ends:
                    raise
            await self.sleep(wait)
        raise AssertionError("unreachable")


class Fallbacks:
    """Answers with the first of `models` that succeeds. A reply has the name of the model that gave it; `name` is the
    first model's. `clock` is monotonic, in seconds."""

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
        """Return one answer from any of the models within `prompt.timeout` seconds. Raises only ModelError."""
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
        """Return one picture from the first model that can draw. Raises only ModelError."""
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
        """Return the first successful answer, and the cost of failed calls."""
        ends, spent = self._clock() + seconds, Usage()
        now = self._clock()
        awake = [index for index in able if self._rests_until[index] <= now]
        order = awake + [index for index in able if index not in awake]
        for place, index in enumerate(order, start=1):
            left = ends - self._clock()
            try:
                if left <= 0:
                    raise not_made(TimedOut(model=self.models[index].name))
                return await ask(self.models[index], left * SHARE if place < len(awake) else left), spent
            except ModelError as error:
                spent += error.usage or Usage()
                # If there was no time to ask it, the model isn't at fault.
                if error.falls_back and (error.made or not isinstance(error, TimedOut)):
                    after = error.retry_after if isinstance(error, Retryable) else None
                    self._rests_until[index] = self._clock() + (error.rest if after is None else after)
                if not error.falls_back or place == len(order):
                    error.usage = spent if spent != Usage() else None
                    raise
                log.warning(
                    "%s failed, falling back to %s: %s", self.models[index].name, self.models[order[place]].name, error
                )
        raise AssertionError("unreachable")
