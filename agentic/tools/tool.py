"""Define the interface of a tool, and the tools of a turn.

A tool has a description for the model, and a function that runs a call. Its output is data, perhaps from a page, a
file, or another program, so nothing in it is an instruction, names a speaker, or changes a setting. loop.py tells the
model so, and call_runner.py limits the size.

A turn's tools have a stable order, because they are in the cached part of a prompt. Patterns select tools by name, as
in a shell (`*`, `?`, `[ab]`), case-sensitively. A pattern that begins with `!` removes names that earlier patterns
selected.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Protocol

from agentic.llm.types import Picture, Tool

WEB_FETCH = "web_fetch"
WEB_SEARCH = "web_search"  # models that search by themselves don't get it
# Function names that every provider accepts.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The turn that a tool runs in.

    `asked_by`: the user id of the person that the turn answers or who caused it, or None. `asked`: the person's latest
    messages. `deadline`: in unix seconds. `after_message_id`: the newest message that the model has seen; later
    contexts show the tool's results after it. `first_message_id`: the oldest message that the model sees, 0 if unknown.
    `fit` scales a picture for the model, and returns None if that fails.
    """

    agent: str
    channel_id: int
    guild_id: int | None = None
    asked_by: int | None = None
    asked: str = field(default="", repr=False)
    deadline: float
    turn_id: str = ""
    after_message_id: int = 0
    first_message_id: int = 0
    fit: Callable[[Picture], Awaitable[Picture | None]] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a call. If `is_error`, the text is one line, without paths, keys, or tracebacks.

    `ends_turn`: don't ask the model again, because it chose silence or its call is the whole answer. `was_refused`: the
    call wasn't made. `people`: whose words the output contains. `messages`: the ids of the messages that it quotes.
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
    @property
    def spec(self) -> Tool: ...

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Run a call. Errors are returned as outputs; only CancelledError is raised."""


def tool_spec(name: str, description: str, properties: Mapping[str, Any], required: Sequence[str] = ()) -> Tool:
    """Return the description of a tool that takes these arguments and no others."""
    schema = {"type": "object", "properties": dict(properties), "required": list(required)}
    return Tool(name, description, {**schema, "additionalProperties": False})


Toolbox = Mapping[str, RunnableTool]
"""Tools by name, in the order of their names."""


def collect_tools(tools: Iterable[RunnableTool]) -> tuple[Toolbox, list[str]]:
    """Return the tools with valid names, the first of equal ones, and a line for each other tool."""
    found: dict[str, RunnableTool] = {}
    problems = []
    for tool in tools:
        name = tool.spec.name
        if not NAME.fullmatch(name):
            problems.append(f"not a tool's name: {name!r}")
        elif name in found:
            problems.append(f"two tools are named {name}")
        else:
            found[name] = tool
    return dict(sorted(found.items())), problems


def specs_of(box: Toolbox) -> tuple[Tool, ...]:
    return tuple(tool.spec for tool in box.values())


@lru_cache(maxsize=4096)  # every turn asks for the same few names
def is_allowed(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether the last pattern that matches the name allows it."""
    matching = (pattern for pattern in reversed(patterns) if fnmatchcase(name, pattern.removeprefix("!")))
    return not next(matching, "!").startswith("!")
