"""Bots that think: a slow model looks like a hanging program unless somebody sees that it is at work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from agentic.llm.types import Drawing, Message, Model, Prompt, Reply

SLOW = 10.0  # seconds, from which on a line is worth it
PAUSE = 60.0  # seconds between two such lines


@dataclass(eq=False, slots=True)
class _Thought:
    bot: str
    channel: int | None
    since: float


class Thinking:
    """The calls under way. `clock` in seconds, `channel_name` for a channel's id."""

    def __init__(self, clock: Callable[[], float], channel_name: Callable[[int], str]) -> None:
        self._clock, self._channel_name = clock, channel_name
        self._thoughts: list[_Thought] = []
        self._next_line = -math.inf

    @contextmanager
    def of(self, bot: str, channel: int | None) -> Iterator[None]:
        """A call by this bot, as long as it is entered. `bot` is its display name."""
        thought = _Thought(bot, channel, self._clock())
        self._thoughts.append(thought)
        try:
            yield
        finally:
            self._thoughts.remove(thought)

    def shown(self, least: float = 0.0) -> str:
        """A line about the bots that have thought for at least so many seconds, "" for none."""
        now = self._clock()
        return ", ".join(self._words(each, now) for each in self._thoughts if now - each.since >= least)

    def slow_line(self) -> str:
        """The same for slow ones, at most once in PAUSE seconds."""
        line = self.shown(SLOW) if self._clock() >= self._next_line else ""
        if line:
            self._next_line = self._clock() + PAUSE
        return line

    def _words(self, thought: _Thought, now: float) -> str:
        where = f" in #{self._channel_name(thought.channel)}" if thought.channel is not None else ""
        return f"{thought.bot} is thinking{where}… {now - thought.since:.0f} s"


class WatchedModel:
    """A model whose calls are noted in `thinking` under the bot's name."""

    def __init__(self, model: Model, bot: str, thinking: Thinking) -> None:
        self._model, self._bot, self._thinking = model, bot, thinking

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def can_draw(self) -> bool:
        return self._model.can_draw

    @property
    def free(self) -> bool:
        return self._model.free

    async def complete(self, prompt: Prompt, history: Sequence[Message] = ()) -> Reply:
        with self._thinking.of(self._bot, prompt.conversation):
            return await self._model.complete(prompt, history)

    async def draw(self, prompt: str, *, timeout: float = 60.0) -> Drawing:  # noqa: ASYNC109 - the Model protocol's
        with self._thinking.of(self._bot, None):
            return await self._model.draw(prompt, timeout=timeout)

    async def aclose(self) -> None:
        await self._model.aclose()
