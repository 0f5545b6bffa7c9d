"""All tools of an installation: built in, from the owner's MCP servers, and the log of their use.

    ALLOWED_TOOLS > the servers' own lists (config/mcp.yaml) > the option `tools` of an agent in a channel

Each level only removes tools from the one before. agentic.runtime opens one Toolset for all agents of a process; the
tools of a turn are looked up for each turn, because servers come and go.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from operator import is_
from types import MappingProxyType

import aiohttp

from agentic.net.fetch import PublicFetcher
from agentic.tools.call_log import ToolRecords
from agentic.tools.mcp.servers import McpServers
from agentic.tools.private_details import Redact
from agentic.tools.tool import WEB_SEARCH, RunnableTool, Toolbox, collect_tools, is_allowed
from agentic.tools.web_fetch import WebFetch
from agentic.tools.web_search import (
    ENGINES,
    KeyedEngine,
    KeylessEngine,
    PictureSearch,
    Search,
    SearchEngine,
    WebSearch,
    ddgs_images,
    ddgs_text,
)

NAMES = ("web_search", "web_fetch")
MAX_BOXES = 500

Own = Callable[[], Sequence[RunnableTool]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Keyless:
    """The searches without a key: those of the ddgs package, or doubles."""

    text: Search = ddgs_text
    images: Search = ddgs_images


KEYLESS = Keyless()


@asynccontextmanager
async def built_in_tools(
    session: aiohttp.ClientSession,
    pages: PublicFetcher,
    search_keys: Mapping[str, str],
    *,
    search_bases: Mapping[str, str] = MappingProxyType({}),
    keyless: Keyless | None = KEYLESS,
    clock: Callable[[], float] = time.time,
    redact: Redact = str,
) -> AsyncIterator[tuple[Sequence[RunnableTool], PictureSearch | None]]:
    """Open the tools, and the search for pictures; None if nothing may be asked without a key.

    `search_keys`: engine → key, asked in this order over `session`, then `keyless`; `search_bases`: other addresses of
    engines. `pages` reads addresses; `redact` removes secrets from queries. Raises ValueError for the key of an unknown
    engine.
    """
    unknown = search_keys.keys() - ENGINES.keys()
    if unknown:
        raise ValueError(f"not a search engine: {', '.join(sorted(unknown))}")
    engines: list[SearchEngine] = [
        KeyedEngine(name, key, session, search_bases.get(name, "")) for name, key in search_keys.items() if key
    ]
    with ExitStack() as stack:
        pictures = None
        if keyless is not None:
            engines.append(stack.enter_context(closing(KeylessEngine(text=keyless.text))))
            pictures = stack.enter_context(closing(PictureSearch(pages, clock, images=keyless.images, redact=redact)))
        fetch = WebFetch(pages, clock)
        yield ([WebSearch(engines, clock, redact), fetch] if engines else [fetch]), pictures


@dataclass(slots=True)
class Toolset:
    """`allowed`: the patterns of ALLOWED_TOOLS; `allowed_of`: those of single agents. An agent has only tools that
    match. `pictures` looks for a picture beside a search; None if it may not."""

    built_in: Sequence[RunnableTool]
    servers: McpServers
    records: ToolRecords
    allowed: tuple[str, ...]
    allowed_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pictures: PictureSearch | None = None
    _reported: set[str] = field(default_factory=set)
    # Each with the tools that it was made from.
    _boxes: dict[tuple[str, tuple[str, ...], bool], tuple[Sequence[RunnableTool], Toolbox]] = field(
        default_factory=dict
    )

    def toolbox(self, agent: str, patterns: tuple[str, ...], searches: bool, own: Own = tuple) -> Toolbox:
        """Return the agent's tools at this moment whose names match `patterns`, the channel's option `tools`.

        `searches`: its model searches the web by itself. `own` returns the tools made for this agent.
        """
        tools = (*self.built_in, *own(), *self.servers.tools_for(agent))
        key = (agent, patterns, searches)
        before = self._boxes.get(key)
        if before is not None and len(before[0]) == len(tools) and all(map(is_, before[0], tools)):
            return before[1]
        box = {
            name: tool
            for name, tool in self._known(agent, tools).items()
            if is_allowed(name, patterns) and not (searches and name == WEB_SEARCH)
        }
        if len(self._boxes) >= MAX_BOXES:
            self._boxes.clear()
        self._boxes[key] = (tools, box)
        return box

    def allows(self, agent: str, name: str) -> bool:
        """Whether ALLOWED_TOOLS lets the agent have a tool of this name."""
        return is_allowed(name, self.allowed_of.get(agent, self.allowed))

    def names(self, agent: str) -> tuple[str, ...]:
        """Return the names of all tools that the agent may use, as far as the servers are running."""
        tools = (*self.built_in, *self.servers.tools_for(agent))
        return tuple(self._known(agent, tools))

    def _known(self, agent: str, tools: Sequence[RunnableTool]) -> Toolbox:
        box, problems = collect_tools(tools)
        for problem in problems:
            if problem not in self._reported:
                self._reported.add(problem)
                log.warning("skipped a tool: %s", problem)
        return {name: tool for name, tool in box.items() if self.allows(agent, name)}
