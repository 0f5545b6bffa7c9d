"""The tools of one turn by name, in a stable order, because they are in the cached part of a prompt.

Patterns are those of a shell (`*`, `?`, `[ab]`), case-sensitive. One that begins with `!` removes names that earlier
patterns gave. A list can be narrowed but not widened: `allowed` never returns more than the box holds.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from agentic.llm.types import Tool
from agentic.tools.protocol import RunnableTool

WEB_FETCH = "web_fetch"
WEB_SEARCH = "web_search"  # providers offer the same under other names
# The names of functions that every provider accepts.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Toolbox:
    """Tools by name. Raises ValueError for a duplicate name, and for one that providers refuse."""

    def __init__(self, tools: Iterable[RunnableTool] = ()) -> None:
        found: dict[str, RunnableTool] = {}
        for tool in tools:
            problem = _problem(tool.spec.name, found)
            if problem is not None:
                raise ValueError(problem)
            found[tool.spec.name] = tool
        self._tools = dict(sorted(found.items()))

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[Tool, ...]:
        """The descriptions for the model, ordered by name."""
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> RunnableTool | None:
        return self._tools.get(name)

    def allowed(self, patterns: Sequence[str]) -> Toolbox:
        """Return the tools of this box that the patterns match."""
        return Toolbox(tool for name, tool in self._tools.items() if is_allowed(name, patterns))


def gathered(tools: Iterable[RunnableTool]) -> tuple[Toolbox, list[str]]:
    """Return a box of the valid tools, the first of each name, and one line for each of the others."""
    found: dict[str, RunnableTool] = {}
    problems = []
    for tool in tools:
        problem = _problem(tool.spec.name, found)
        if problem is None:
            found[tool.spec.name] = tool
        else:
            problems.append(problem)
    return Toolbox(found.values()), problems


def _problem(name: str, taken: Container[str]) -> str | None:
    if not NAME.fullmatch(name):
        return f"not a tool's name: {name!r}"
    return f"two tools are named {name}" if name in taken else None


def is_allowed(name: str, patterns: Sequence[str]) -> bool:
    """Whether the last pattern that matches the name allows it."""
    return _is_allowed(name, tuple(patterns))


@lru_cache(maxsize=4096)  # every turn asks for the same few
def _is_allowed(name: str, patterns: tuple[str, ...]) -> bool:
    given = False
    for pattern in patterns:
        taken = pattern.startswith("!")
        if fnmatchcase(name, pattern[1:] if taken else pattern):
            given = not taken
    return given
