"""The tools of an installation, built in and of the owner's MCP servers, and the record of their use.

    ALLOWED_TOOLS > the servers' own lists (config/mcp.yaml) > the option `tools` of an agent in a channel

Each takes away from the one before and adds nothing. agent_runtime opens it once for all agents of a process; which
tools a turn has is asked anew, since servers come and go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

from agent_tools.call_log.records import ToolRecords
from agent_tools.protocol import RunnableTool, ToolSource
from agent_tools.toolbox import WEB_SEARCH, Toolbox, gathered, is_allowed

MOST_BOXES = 500


Own = Callable[[], Sequence[RunnableTool]]


log = logging.getLogger(__name__)


def nothing() -> Sequence[RunnableTool]:
    return ()


@dataclass(slots=True)
class Toolset:
    """`allowed` are the patterns of ALLOWED_TOOLS, `allowed_of` those of single agents; a tool that fits none is not
    the agent's."""

    built_in: Sequence[RunnableTool]
    servers: ToolSource
    records: ToolRecords
    allowed: Sequence[str]
    allowed_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _boxes: dict[tuple[str, tuple[str, ...], bool], tuple[Sequence[RunnableTool], Toolbox]] = field(
        default_factory=dict
    )  # with the tools that each was made of

    def toolbox(self, agent: str, patterns: tuple[str, ...], searches: bool, own: Own = nothing) -> Toolbox:
        """The agent's tools at this moment, as far as their names fit `patterns`, the channel's option `tools`. With
        `searches` its model searches the web by itself. `own` gives the tools that are made for this agent."""
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

    def names(self, agent: str) -> tuple[str, ...]:
        """All that the agent may ever use, as far as the servers are there."""
        tools = (*self.built_in, *self.servers.tools_for(agent))
        return tuple(sorted(tool.spec.name for tool in self._known(agent, tools)))

    def _known(self, agent: str, tools: Sequence[RunnableTool]) -> Sequence[RunnableTool]:
        box, problems = gathered(tools)
        allowed = self.allowed_of.get(agent, self.allowed)
        for problem in problems:
            if problem not in self._told:
                self._told.add(problem)
                log.warning("a tool is left out: %s", problem)
        found = (box.get(name) for name in box.names if is_allowed(name, allowed))
        return [tool for tool in found if tool is not None]
