"""The tools of one turn, by name, in an order that stays the same: they stand in the part of a prompt that is cached.

Patterns are those of a shell (`*`, `?`, `[ab]`), compared with case; one that begins with `!` takes away what those
before it gave. Someone may be allowed to narrow a list but not to widen it: `allowed` of a box never has more than the
box.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from agent_llm.types import Tool
from agent_tools.protocol import RunnableTool

WEB_SEARCH = "web_search"  # also what the models' makers offer under other names
# What every provider takes as a function's name.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Toolbox:
    """Tools by name. Raises ValueError for a name that providers refuse, or that two tools have."""

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
        """What the model reads, in the order of names."""
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> RunnableTool | None:
        return self._tools.get(name)

    def allowed(self, patterns: Sequence[str]) -> Toolbox:
        """The tools of this box that the patterns name; none where there is no pattern."""
        return Toolbox(tool for name, tool in self._tools.items() if is_allowed(name, patterns))


def gathered(tools: Iterable[RunnableTool]) -> tuple[Toolbox, list[str]]:
    """A box of those that fit, the first of a name, and one line for each that does not: for tools of other makers."""
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
    """Whether the last pattern that speaks of the name gives it."""
    return _is_allowed(name, tuple(patterns))


@lru_cache(maxsize=4096)  # the same few are asked for at every turn
def _is_allowed(name: str, patterns: tuple[str, ...]) -> bool:
    given = False
    for pattern in patterns:
        taken = pattern.startswith("!")
        if fnmatchcase(name, pattern[1:] if taken else pattern):
            given = not taken
    return given
