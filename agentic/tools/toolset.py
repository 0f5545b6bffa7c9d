"""Collect all tools of an installation: the built-in tools, and tools of the owner's MCP servers.

    ALLOWED_TOOLS > the servers' own lists (config/mcp.yaml) > the option `tools` of an agent in a channel

Each level can only remove tools that the level before allows. agentic.runtime opens one Toolset for all agents of a
process. Each turn looks up its tools, because servers start and end.
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
    """Searches that need no key: functions of the ddgs package, or test doubles."""

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
    """Yield the built-in tools, and the search for pictures, which is None without `keyless`.

    `search_keys`: engine → key. These engines are asked in order over `session`, then `keyless`. `search_bases`: other
    addresses for engines. `pages` fetches pages. `redact` removes secrets from queries. Raises ValueError if an engine
    is unknown.
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
    """The tools of a process. `allowed`: the patterns of ALLOWED_TOOLS, for agents without patterns in `allowed_of`.
    `pictures` finds a picture for an answer with a search; None if it's off."""

    built_in: Sequence[RunnableTool]
    servers: McpServers
    records: ToolRecords
    allowed: tuple[str, ...]
    allowed_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pictures: PictureSearch | None = None
    _reported: set[str] = field(default_factory=set)
    # Each box with the tools that it was made from.
    _boxes: dict[tuple[str, tuple[str, ...], bool], tuple[Sequence[RunnableTool], Toolbox]] = field(
        default_factory=dict
    )

    def toolbox(self, agent: str, patterns: tuple[str, ...], searches: bool, own: Own = tuple) -> Toolbox:
        """Return the agent's current tools whose names match `patterns`, the option `tools` in the channel.

        `searches`: the agent's model searches the web by itself. `own` returns tools made for this agent.
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

    def _known(self, agent: str, tools: Sequence[RunnableTool]) -> Toolbox:
        box, problems = collect_tools(tools)
        for problem in problems:
            if problem not in self._reported:
                self._reported.add(problem)
                log.warning("loading a tool failed: %s; it is skipped", problem)
        return {name: tool for name, tool in box.items() if self.allows(agent, name)}
