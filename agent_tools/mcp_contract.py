"""What of the tool contract the MCP client needs: the one place where it names what `agent_tools.protocol` defines.

The shapes are those of the contract, field by field, so this module can become three imports from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from agent_llm.types import Picture


class ToolContext(Protocol):
    """For whom a tool runs, and until when (unix seconds)."""

    @property
    def agent(self) -> str: ...

    @property
    def deadline(self) -> float: ...


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What came of a call. `is_error`: one line that says what went wrong, without paths, keys or tracebacks."""

    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False
    ends_turn: bool = False

    @classmethod
    def failed(cls, reason: str) -> ToolOutput:
        return cls(reason, is_error=True)


def is_allowed(name: str, patterns: Sequence[str]) -> bool:
    """Whether the last pattern that speaks of the name gives it; one that begins with `!` takes it away."""
    given = False
    for pattern in patterns:
        taken = pattern.startswith("!")
        if fnmatchcase(name, pattern[1:] if taken else pattern):
            given = not taken
    return given
