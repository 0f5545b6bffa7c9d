"""The tools of an installation, built in and of the owner's MCP servers, and the record of their use.

    ALLOWED_TOOLS > the servers' own lists (config/mcp.yaml) > the option `tools` of an agent in a channel

Each takes away from the one before and adds nothing. agent_runtime opens it once for all agents of a process; which
tools a turn has is asked anew, since servers come and go.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from operator import is_

import aiohttp

from agent_config import Settings
from agent_context.options import Options
from agent_net.public import PublicFetcher
from agent_tools.builtin import ToolSettings, built_in_tools
from agent_tools.mcp_client import McpServers
from agent_tools.protocol import RunnableTool, ToolSource
from agent_tools.records import ToolRecords
from agent_tools.servers import read_servers
from agent_tools.toolbox import WEB_SEARCH, Toolbox, gathered, is_allowed

MOST_BOXES = 500

Own = Callable[[], Sequence[RunnableTool]]

log = logging.getLogger(__name__)


def nothing() -> Sequence[RunnableTool]:
    return ()


@dataclass(slots=True)
class ToolHouse:
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

    def toolbox(self, agent: str, options: Options, searches: bool, own: Own = nothing) -> Toolbox:
        """What the agent may use now in a channel with these options. `searches`: its model does so by itself. `own`
        gives the tools that are made for this agent."""
        tools = (*self.built_in, *own(), *self.servers.tools_for(agent))
        key = (agent, options.tools, searches)
        before = self._boxes.get(key)
        if before is not None and len(before[0]) == len(tools) and all(map(is_, before[0], tools)):
            return before[1]
        box = Toolbox(
            tool
            for tool in self._known(agent, tools)
            if is_allowed(tool.spec.name, options.tools) and not (searches and tool.spec.name == WEB_SEARCH)
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


@asynccontextmanager
async def open_tools(
    settings: Settings,
    session: aiohttp.ClientSession,
    *,
    environment: Mapping[str, str],
    redact: Callable[[str], str],
    clock: Callable[[], float],
    pages: Callable[[], PublicFetcher] = PublicFetcher,
) -> AsyncIterator[ToolHouse]:
    """The tools for as long as the context lasts; servers start meanwhile, nobody waits for them.

    `session` asks search engines, `pages` makes what reads addresses from anywhere, `environment` is what servers may
    see a part of, `redact` takes secrets out of what is recorded. Raises OSError where the records cannot be read.
    """
    servers, problems = read_servers(settings.config_files_dir / "mcp.yaml", settings.named_texts)
    for problem in problems:
        log.warning("an MCP server is left out: %s", problem)
    wanted = ToolSettings(search_keys=settings.search_keys, keyless=settings.web_search)
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(ToolRecords(settings.tools_dir, redact=redact))
        fetcher = await stack.enter_async_context(pages())
        built_in = await stack.enter_async_context(built_in_tools(wanted, session, fetcher, clock=clock))
        running = await stack.enter_async_context(McpServers(servers, environment=environment, clock=clock))
        allowed_of = {agent: settings.tools_of(agent) for agent in settings.agents}
        yield ToolHouse(built_in, running, records, settings.allowed_tools, allowed_of)
