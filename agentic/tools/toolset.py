"""All tools of an installation, built in and from the owner's MCP servers, and the log of their use.

    ALLOWED_TOOLS > the servers' own lists (config/mcp.yaml) > the option `tools` of an agent in a channel

Each level only removes tools from the one before. agentic.runtime opens one Toolset for all agents of a process; the
tools of a turn are looked up for each turn, because servers come and go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

from agentic.tools.picture_search import PictureSearch
from agentic.tools.protocol import RunnableTool, ToolSource
from agentic.tools.records import ToolRecords
from agentic.tools.toolbox import WEB_SEARCH, Toolbox, gathered, is_allowed

MOST_BOXES = 500
Own = Callable[[], Sequence[RunnableTool]]

log = logging.getLogger(__name__)


def nothing() -> Sequence[RunnableTool]:
    return ()


@dataclass(slots=True)
class Toolset:
    """`allowed`: the patterns of ALLOWED_TOOLS; `allowed_of`: those of single agents. An agent has only tools that
    match. `pictures` looks for a picture beside a search; None where it may not."""

    built_in: Sequence[RunnableTool]
    servers: ToolSource
    records: ToolRecords
    allowed: Sequence[str]
    allowed_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pictures: PictureSearch | None = None
    _reported: set[str] = field(default_factory=set)
    _boxes: dict[tuple[str, tuple[str, ...], bool], tuple[Sequence[RunnableTool], Toolbox]] = field(
        default_factory=dict
    )  # each with the tools that it was made from

    def toolbox(self, agent: str, patterns: tuple[str, ...], searches: bool, own: Own = nothing) -> Toolbox:
        """Return the agent's tools at this moment whose names match `patterns`, the channel's option `tools`.

        `searches`: its model searches the web by itself. `own` returns the tools made for this agent.
        """
        tools = (*self.built_in, *own(), *self.servers.tools_for(agent))
        key = (agent, patterns, searches)
        before = self._boxes.get(key)
        if before is not None and len(before[0]) == len(tools) and all(map(is_, before[0], tools)):
            return before[1]
        box = Toolbox(
            tool
            for tool in self._known(agent, tools)
            if is_allowed(tool.spec.name, patterns) and not (searches and tool.spec.name == WEB_SEARCH)
        )
        if len(self._boxes) >= MOST_BOXES:
            self._boxes.clear()
        self._boxes[key] = (tools, box)
        return box

    def allows(self, agent: str, name: str) -> bool:
        """Whether ALLOWED_TOOLS lets the agent have a tool of this name."""
        return is_allowed(name, self.allowed_of.get(agent, self.allowed))

    def names(self, agent: str) -> tuple[str, ...]:
        """Return the names of all tools that the agent may use, as far as the servers are running."""
        tools = (*self.built_in, *self.servers.tools_for(agent))
        return tuple(sorted(tool.spec.name for tool in self._known(agent, tools)))

    def _known(self, agent: str, tools: Sequence[RunnableTool]) -> Sequence[RunnableTool]:
        box, problems = gathered(tools)
        for problem in problems:
            if problem not in self._reported:
                self._reported.add(problem)
                log.warning("skipped a tool: %s", problem)
        found = (box.get(name) for name in box.names if self.allows(agent, name))
        return [tool for tool in found if tool is not None]
