"""The interface of a tool: a description that the model reads, and a function that runs a call.

A tool's output is data. It may come from a page, a file or another program, so nothing in it is an instruction, names a
speaker or changes a setting. The loop says so to the model (`loop.py`), and `call_runner.py` limits its size.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentic.llm.types import Picture, Tool

FitPicture = Callable[[Picture], Awaitable[Picture | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The turn that a tool runs in.

    `asked_by`: the user id of the person whom the turn answers or who caused it, None if there is none. `trusted`: this
    person has more rights than others. `asked`: what this person wrote lately. `deadline`: in unix seconds.
    `after_message_id`: the newest message that the model has seen; later contexts show the results after it.
    `first_message_id`: the oldest one, 0 if unknown. `fit` scales a picture for the model and returns None if that
    fails.
    """

    agent: str
    channel_id: int
    guild_id: int | None = None
    asked_by: int | None = None
    trusted: bool = False
    asked: str = field(default="", repr=False)
    deadline: float
    turn_id: str = ""
    after_message_id: int = 0
    first_message_id: int = 0
    fit: FitPicture | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a call. If `is_error`, the text is one line, without paths, keys or tracebacks.

    `ends_turn`: do not ask the model again, because it chose to be silent or its call said everything. `was_refused`:
    the call was not made and brought nothing new. `people` are those whose words it has, `messages` the ids of messages
    that it quotes.
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False
    ends_turn: bool = False
    was_refused: bool = False
    people: frozenset[int] = frozenset()
    messages: tuple[int, ...] = ()

    @classmethod
    def failed(cls, reason: str) -> ToolOutput:
        return cls(reason, is_error=True)

    @classmethod
    def refused(cls, reason: str) -> ToolOutput:
        return cls(reason, is_error=True, was_refused=True)


class RunnableTool(Protocol):
    """A tool that can be run."""

    @property
    def spec(self) -> Tool: ...

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Run a call. Raises nothing but CancelledError, and obeys that one; errors are outputs."""
        ...


class ToolSource(Protocol):
    """A source of tools that may come and go, such as servers."""

    def tools_for(self, agent: str) -> Sequence[RunnableTool]:
        """Return the tools that this agent may use now."""
        ...

    async def tried(self) -> None:
        """Wait until each server has started or failed to start once."""
        ...

    async def ready(self, agent: str) -> None:
        """Wait for the servers that this agent may use, for a limited time after the start of the program."""
        ...
