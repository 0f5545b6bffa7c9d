"""A list of models in order of preference, used as one model: when one is down or out of quota, the next is asked.

`retry.FAILURE_RULES` says which errors count, and for how long a failed model is avoided. The models share one time
budget: one with a stand-in gets a part of what is left, the last one all of it. Avoided models are tried last, not
never: a late answer is better than none.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from agentic.llm.errors import CannotDraw, ModelError, TimedOut, not_made
from agentic.llm.retry import Clock, rule_for
from agentic.llm.types import Drawing, Message, Model, Prompt, Reply, Usage

log = logging.getLogger(__name__)

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
