"""web_search: one tool over several engines, for models without a search of their own.

Engines are asked in order until one finds something. One that refuses is skipped for a while. Results are cached for
some minutes, and equal searches wait for the first: several bots search for the same thing in the same conversation.
Private details are taken out of each query before any engine sees it (query_privacy.py).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from agentic.llm.types import Source, Tool
from agentic.tools.protocol import ToolContext, ToolOutput
from agentic.tools.query_privacy import Redact, unchanged, without_private
from agentic.tools.search_engines import SearchEngine, SearchFailed, SearchResult

COUNT = 6
MAX_COUNT = 10
MAX_QUERY = 400
KEPT_SEARCHES = 256
KEPT_SECONDS = 900.0
REST_SECONDS = 120.0

SPEC = Tool(
    "web_search",
    "Searches the web. Returns titles, addresses and a few words of each page. A query holds no private details of"
    " anybody.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "description": "what to look for"},
            "count": {"type": "integer", "minimum": 1, "maximum": MAX_COUNT, "description": f"{COUNT} by default"},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
)

NO_QUERY = "nothing is left of the query without private details"

log = logging.getLogger(__name__)

_Question = tuple[str, int]
_SHOWN = re.compile(r"^title: (?P<title>.*)\nurl: (?P<url>https?://\S+)$", re.MULTILINE)


@dataclass(slots=True)
class WebSearch:
    """`engines` in the order in which they are asked; `clock` in seconds; `redact` removes secrets from queries."""

    engines: Sequence[SearchEngine]
    clock: Callable[[], float]
    redact: Redact = unchanged
    spec: Tool = SPEC
    _kept: OrderedDict[_Question, tuple[float, list[SearchResult]]] = field(default_factory=OrderedDict)
    _rests_until: dict[str, float] = field(default_factory=dict)
    _locks: WeakValueDictionary[_Question, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        query = without_private(str(arguments["query"]), self.redact, asked=context.asked)
        if not query:
            return ToolOutput.refused(NO_QUERY)
        question = (query.casefold(), int(arguments.get("count") or COUNT))
        try:
            async with self._locks.setdefault(question, asyncio.Lock()):
                found = self._known(question)
                if found is None:
                    found = await self._search(query, question)
        except SearchFailed as failed:
            return ToolOutput.failed(f"the search failed: {failed.reason}")
        return ToolOutput("\n\n".join(map(_shown, found)) or "Nothing was found.")

    def _known(self, question: _Question) -> list[SearchResult] | None:
        at, found = self._kept.get(question, (0.0, None))
        return found if 0 <= self.clock() - at < KEPT_SECONDS else None

    async def _search(self, query: str, question: _Question) -> list[SearchResult]:
        """Ask the engines that are not being skipped, or all if all are. Raises SearchFailed with every engine's
        reason."""
        awake = [engine for engine in self.engines if self._rests_until.get(engine.name, 0.0) <= self.clock()]
        reasons = []
        found: list[SearchResult] | None = None
        for engine in awake or self.engines:
            try:
                found = await engine.search(query, question[1])
            except SearchFailed as failed:
                log.info("web_search: %s", failed.reason)
                reasons.append(failed.reason)
                if failed.rests:
                    self._rests_until[engine.name] = self.clock() + REST_SECONDS
            if found:
                break
        if found is None:
            raise SearchFailed("; ".join(reasons) or "no engine is set up")
        self._keep(question, found)
        return found

    def _keep(self, question: _Question, found: list[SearchResult]) -> None:
        self._kept[question] = (self.clock(), found)
        self._kept.move_to_end(question)
        while len(self._kept) > KEPT_SEARCHES:
            self._kept.popitem(last=False)


def _shown(found: SearchResult) -> str:
    return f"title: {found.title}\nurl: {found.url}\nsnippet: {found.snippet}"


def pages_in(output: str) -> list[Source]:
    """The pages that an output of `execute` shows, best first."""
    return [Source(match["title"], match["url"]) for match in _SHOWN.finditer(output)]
