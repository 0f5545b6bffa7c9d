"""What a tool is: a description that the model reads, and a function that runs what it asks for.

Whatever a tool brings back is data. It may come from a page, a file or another program, so nothing in it is an order,
names a speaker or changes a setting; the loop says so to the model (`loop.py`) and bounds it (`running.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_llm.types import Picture, Tool

FitPicture = Callable[[Picture], Awaitable[Picture | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """For whom and where a tool runs.

    `asked_by` is the user id of the person whom the turn answers, or whose words brought it about, None where nobody
    asked; `trusted` says that this person may have more done than anybody else. `deadline` is in unix seconds.
    `after_message_id` is the newest message of the channel that the model has seen: what the tools bring stands behind
    it when the context is built again. `fit` makes a picture such that the model can look at it, None where it cannot.
    """

    agent: str
    channel_id: int
    guild_id: int | None = None
    asked_by: int | None = None
    trusted: bool = False
    deadline: float
    turn_id: str = ""
    after_message_id: int = 0
    fit: FitPicture | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What came of a call. `is_error`: one line that says what went wrong, without paths, keys or tracebacks.

    `ends_turn`: the model is not asked again (it chose to be silent, or has said everything by its call).
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False
    ends_turn: bool = False

    @classmethod
    def failed(cls, reason: str) -> ToolOutput:
        return cls(reason, is_error=True)


class RunnableTool(Protocol):
    """A tool that can be run."""

    @property
    def spec(self) -> Tool: ...

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Runs it. Raises nothing but CancelledError, and obeys that one: errors are outputs."""
        ...


class ToolSource(Protocol):
    """Something that has tools, which may come and go: a server, a folder."""

    def tools_for(self, agent: str) -> Sequence[RunnableTool]:
        """The tools that this agent may use now."""
        ...

    async def tried(self) -> None:
        """Wait until each server has come up, or failed to, once."""
        ...
