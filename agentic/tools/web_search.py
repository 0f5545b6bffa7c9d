"""Search the web: web_search for models without a search of their own, and pictures that fit a query.

web_search asks engines in order until one finds something: engines with a key, then ddgs, which needs no key. An engine
that rejects a search is skipped for two minutes. Results are cached, and equal searches wait for the first, because
several bots in a conversation search for the same thing. Keys are sent in headers, not in addresses, and redirects
aren't followed, so no other server sees a key. Private details are removed from queries (private_details.py).
"""

from __future__ import annotations

import asyncio
import html
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakValueDictionary

import aiohttp
from cachetools import TTLCache

from agentic.llm.types import Picture, Source, Tool
from agentic.net.addresses import FetchRefused
from agentic.net.fetch import PublicFetcher, read_body
from agentic.net.images import as_picture
from agentic.tools.private_details import Redact, without_private
from agentic.tools.tool import WEB_SEARCH, ToolContext, ToolOutput, tool_spec

KEPT_SEARCHES = 256
KEPT_SECONDS = 900.0
REST_SECONDS = 120.0
MAX_BYTES = 2_000_000
MAX_SNIPPET = 600  # characters
DEFAULT_COUNT = 6
MAX_COUNT = 10
MAX_QUERY = 400
MAX_PICTURE_QUERY = 200
PICTURE_COUNT = 8  # pictures to search for
MAX_PICTURES_TRIED = 4  # found pictures to download until a usable picture
NO_QUERY = "without private details, nothing is left of the query"

Search = Callable[[str, int, float], list[dict[str, Any]]]  # query, count, seconds

_LINK = re.compile(r"https?://\S+")
_SHOWN = re.compile(r"^title: (?P<title>.*)\nurl: (?P<url>https?://\S+)$", re.MULTILINE)

log = logging.getLogger(__name__)

SPEC = tool_spec(
    WEB_SEARCH,
    "Search the web. Returns titles, addresses, and a few words of each page. Keep private details out of the query.",
    {
        "query": {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "description": "what to search for"},
        "count": {"type": "integer", "minimum": 1, "maximum": MAX_COUNT, "description": f"default: {DEFAULT_COUNT}"},
    },
    ("query",),
)


@dataclass(frozen=True, slots=True)
class SearchResult:
    title: str
    url: str
    snippet: str


class SearchFailed(Exception):
    """A search engine failed. `reason`: one short line without keys. `rests`: don't ask this engine for a while."""

    def __init__(self, reason: str, *, rests: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.rests = reason, rests


class SearchEngine(Protocol):
    @property
    def name(self) -> str: ...

    async def search(self, query: str, count: int) -> list[SearchResult]:
        """Return at most `count` pages, best first. Raises only SearchFailed."""
        ...


@dataclass(slots=True)
class WebSearch:
    """`engines`: in the order to ask them. `clock`: in seconds. `redact` removes secrets from queries."""

    engines: Sequence[SearchEngine]
    clock: Callable[[], float]
    redact: Redact = str
    spec: Tool = SPEC
    _kept: TTLCache[tuple[str, int], list[SearchResult]] = field(init=False)
    _rests_until: dict[str, float] = field(default_factory=dict)
    _locks: WeakValueDictionary[tuple[str, int], asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def __post_init__(self) -> None:
        self._kept = TTLCache(KEPT_SEARCHES, KEPT_SECONDS, timer=self.clock)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        query = without_private(str(arguments["query"]), self.redact, asked=context.asked)
        if not query:
            return ToolOutput.refused(NO_QUERY)
        count = int(arguments.get("count") or DEFAULT_COUNT)
        key = (query.casefold(), count)
        try:
            async with self._locks.setdefault(key, asyncio.Lock()):
                found = self._kept.get(key)
                if found is None:
                    found = self._kept[key] = await self._search(query, count)
        except SearchFailed as failed:
            return ToolOutput.failed(f"the search failed: {failed.reason}")
        shown = (f"title: {page.title}\nurl: {page.url}\nsnippet: {page.snippet}" for page in found)
        return ToolOutput("\n\n".join(shown) or "Nothing found.")

    async def _search(self, query: str, count: int) -> list[SearchResult]:
        """Ask the engines in order, skipping resting engines unless all rest. Raises SearchFailed with all reasons."""
        awake = [engine for engine in self.engines if self._rests_until.get(engine.name, 0.0) <= self.clock()]
        reasons = []
        found: list[SearchResult] | None = None
        for engine in awake or self.engines:
            try:
                found = await engine.search(query, count)
            except SearchFailed as failed:
                log.info("web_search failed: %s", failed.reason)
                reasons.append(failed.reason)
                if failed.rests:
                    self._rests_until[engine.name] = self.clock() + REST_SECONDS
            if found:
                break
        if found is None:
            raise SearchFailed("; ".join(reasons))
        return found


def pages_in(output: str) -> list[Source]:
    """Return the pages in an output of `WebSearch.execute`, best first."""
    return [Source(match["title"], match["url"]) for match in _SHOWN.finditer(output)]


# --- engines: docs.tavily.com/api-reference, api-dashboard.search.brave.com/app/documentation,
# --- docs.perplexity.ai/api-reference, exa.ai/docs/reference/search


@dataclass(frozen=True, slots=True)
class _Api:
    """The API of an engine. `results`: the path of the list in its answer. `snippet`: keys to try, in order."""

    base: str
    path: str
    body: Callable[[str, int], dict[str, Any]]
    results: tuple[str, ...] = ("results",)
    snippet: tuple[str, ...] = ("content",)
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    method: str = "POST"


ENGINES: Mapping[str, _Api] = {
    "tavily": _Api("https://api.tavily.com", "/search", lambda query, count: {"query": query, "max_results": count}),
    "brave": _Api(
        "https://api.search.brave.com",
        "/res/v1/web/search",
        lambda query, count: {"q": query[:400], "count": str(count), "text_decorations": "false"},
        results=("web", "results"),
        snippet=("description",),
        key_header="X-Subscription-Token",
        key_prefix="",
        method="GET",
    ),
    "perplexity": _Api(
        "https://api.perplexity.ai",
        "/search",
        lambda query, count: {"query": query, "max_results": count, "max_tokens_per_page": 256},
        snippet=("snippet",),
    ),
    "exa": _Api(
        "https://api.exa.ai",
        "/search",
        lambda query, count: {"query": query, "numResults": count, "contents": {"highlights": True}},
        snippet=("highlights", "summary", "text"),
        key_header="x-api-key",
        key_prefix="",
    ),
}


@dataclass(frozen=True, slots=True)
class KeyedEngine:
    """A search engine of ENGINES. `base` replaces its address. `timeout`: in seconds."""

    name: str
    key: str = field(repr=False)
    session: aiohttp.ClientSession = field(repr=False)
    base: str = ""
    timeout: float = 8.0

    async def search(self, query: str, count: int) -> list[SearchResult]:
        api = ENGINES[self.name]
        headers = {api.key_header: api.key_prefix + self.key, "Accept": "application/json"}
        sent: dict[str, Any] = {"params" if api.method == "GET" else "json": api.body(query, count)}
        url = (self.base or api.base).rstrip("/") + api.path
        try:
            async with (
                asyncio.timeout(self.timeout),
                self.session.request(api.method, url, headers=headers, allow_redirects=False, **sent) as response,
            ):
                if response.status != 200:
                    rests = response.status in (401, 402, 403, 429, 432, 433)
                    raise SearchFailed(f"{self.name} answered HTTP {response.status}", rests=rests)
                answer = json.loads(await read_body(response, MAX_BYTES))
        except FetchRefused:
            raise SearchFailed(f"the answer of {self.name} is too long") from None
        except TimeoutError:
            raise SearchFailed(f"{self.name} took too long") from None
        except (aiohttp.ClientError, OSError) as error:
            raise SearchFailed(f"no connection to {self.name}") from error
        except (ValueError, RecursionError):
            raise SearchFailed(f"{self.name} did not answer with JSON") from None
        for step in api.results:
            answer = answer.get(step) if isinstance(answer, Mapping) else None
        return _read_results(answer, api.snippet)[:count]


def ddgs_text(query: str, count: int, seconds: float) -> list[dict[str, Any]]:
    """Search with the ddgs package. Blocks; raises the errors of ddgs."""
    from ddgs import DDGS  # imported here: it loads several engines and lxml, which not every process needs

    return DDGS(timeout=max(1, int(seconds))).text(query, max_results=count)


def ddgs_images(query: str, count: int, seconds: float) -> list[dict[str, Any]]:
    """Search for pictures with the ddgs package, only at DuckDuckGo: its other engine ignores `safesearch`."""
    from ddgs import DDGS

    found = DDGS(timeout=max(1, int(seconds))).images(query, safesearch="on", backend="duckduckgo", max_results=count)
    return list(found)


class _Ddgs:
    """Calls ddgs, which needs no key but is often rejected. It blocks, so it has two threads of its own. A thread
    can't be canceled: it runs until the timeout of ddgs, even if nobody waits for it."""

    name = "ddgs"

    def __init__(self, blocking_search: Search, timeout: float) -> None:
        self._blocking_search, self._timeout = blocking_search, timeout
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ddgs")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(self, query: str, count: int, seconds: float) -> list[dict[str, Any]]:
        """Return the items found. Raises SearchFailed, and TimeoutError after `seconds`."""
        asked = asyncio.get_running_loop().run_in_executor(
            self._threads, self._blocking_search, query, count, self._timeout
        )
        try:
            async with asyncio.timeout(seconds):
                return await asked
        except TimeoutError:
            raise
        except Exception as error:
            # ddgs raises the errors of its engines. Only their text shows that nothing was found.
            if "no results" in str(error).lower():
                return []
            raise SearchFailed("ddgs failed", rests=True) from error


class KeylessEngine(_Ddgs):
    def __init__(self, *, timeout: float = 6.0, text: Search = ddgs_text) -> None:
        super().__init__(text, timeout)

    async def search(self, query: str, count: int) -> list[SearchResult]:
        try:
            return _read_results(await self._ask(query, count, self._timeout * 2), ("body",), url="href")[:count]
        except TimeoutError:
            raise SearchFailed("ddgs took too long") from None


def _read_results(answer: Any, snippet: tuple[str, ...], url: str = "url") -> list[SearchResult]:
    found = []
    for item in answer if isinstance(answer, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get(url), str) and _LINK.fullmatch(item[url]):
            text = next((value for key in snippet if (value := item.get(key))), "")
            text = " … ".join(map(str, text)) if isinstance(text, list) else str(text)
            found.append(
                SearchResult(_plain(str(item.get("title") or ""))[:200], item[url][:2000], _plain(text)[:MAX_SNIPPET])
            )
    return found


def _plain(text: str) -> str:
    """Return the text on one line, without tags."""
    return " ".join(html.unescape(re.sub(r"</?[a-zA-Z][^<>]{0,200}>", "", text)).split())


# --- pictures -------------------------------------------------------------------------------------------------------


class PictureSearch(_Ddgs):
    """Finds pictures. `timeout`: seconds for the engine; a whole search takes at most twice as long."""

    def __init__(
        self,
        pages: PublicFetcher,
        clock: Callable[[], float],
        *,
        images: Search = ddgs_images,
        redact: Redact = str,
        timeout: float = 6.0,
    ) -> None:
        super().__init__(images, timeout)
        self._pages, self._clock, self._redact = pages, clock, redact
        self._kept: TTLCache[str, list[str]] = TTLCache(KEPT_SEARCHES, KEPT_SECONDS, timer=clock)
        self._rests_until = 0.0

    async def find(self, query: str) -> Picture | None:
        """Return a picture for the query; None if none is found in time. Raises only CancelledError."""
        asked = without_private(query, self._redact, asked=query)[:MAX_PICTURE_QUERY].strip()
        if not asked or self._clock() < self._rests_until:
            return None
        try:
            async with asyncio.timeout(self._timeout * 2):
                for address in (await self._addresses(asked))[:MAX_PICTURES_TRIED]:
                    try:
                        found = await self._pages.fetch_page(address)
                        return await asyncio.to_thread(as_picture, found.data)
                    except FetchRefused as refused:
                        log.debug("loading a found picture failed: %s", refused.reason)
        except TimeoutError:
            log.info("a picture search took too long; the answer has no picture")
        except SearchFailed as failed:
            error = type(failed.__cause__).__name__
            log.info("searching for pictures failed: %s; no more searches for %.0f s", error, REST_SECONDS)
            self._rests_until = self._clock() + REST_SECONDS
        return None

    async def _addresses(self, query: str) -> list[str]:
        """Return the addresses of found pictures, https first."""
        key = query.casefold()
        known = self._kept.get(key)
        if known is None:
            found = await self._ask(query, PICTURE_COUNT, self._timeout)
            items = found if isinstance(found, list) else []
            images = (item.get("image") for item in items if isinstance(item, dict))
            usable = dict.fromkeys(image for image in images if isinstance(image, str) and image.startswith("http"))
            known = self._kept[key] = sorted(usable, key=lambda address: not address.startswith("https:"))
        return known
