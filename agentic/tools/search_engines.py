"""Search engines: ddgs without a key, four others with one; each has a name and `search`.

ENGINES says how to ask each and how to read its answer. Sources: docs.tavily.com/api-reference,
api-dashboard.search.brave.com/app/documentation, docs.perplexity.ai/api-reference, exa.ai/docs/reference/search. A key
is sent in a header, never in an address, and redirects are not followed, so that no other server sees it.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp

MAX_BYTES = 2_000_000
MAX_SNIPPET = 600  # characters

_LINK = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A page that a search found."""

    title: str
    url: str
    snippet: str


class SearchFailed(Exception):
    """An engine failed. `reason`: one short line without keys. `rests`: do not ask this engine for a while."""

    def __init__(self, reason: str, *, rests: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.rests = reason, rests


class SearchEngine(Protocol):
    @property
    def name(self) -> str: ...

    async def search(self, query: str, count: int) -> list[SearchResult]:
        """Return at most `count` pages, best first, [] if there are none. Raises SearchFailed and nothing else."""
        ...


@dataclass(frozen=True, slots=True)
class _Asking:
    """The API of an engine. `results`: path of the list in its answer. `snippet`: keys to try, in order."""

    base: str
    path: str
    body: Callable[[str, int], dict[str, Any]]
    results: tuple[str, ...] = ("results",)
    snippet: tuple[str, ...] = ("content",)
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    method: str = "POST"


ENGINES: Mapping[str, _Asking] = {
    "tavily": _Asking("https://api.tavily.com", "/search", lambda query, count: {"query": query, "max_results": count}),
    "brave": _Asking(
        "https://api.search.brave.com",
        "/res/v1/web/search",
        lambda query, count: {"q": query[:400], "count": str(count), "text_decorations": "false"},
        results=("web", "results"),
        snippet=("description",),
        key_header="X-Subscription-Token",
        key_prefix="",
        method="GET",
    ),
    "perplexity": _Asking(
        "https://api.perplexity.ai",
        "/search",
        lambda query, count: {"query": query, "max_results": count, "max_tokens_per_page": 256},
        snippet=("snippet",),
    ),
    "exa": _Asking(
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
    """One of ENGINES. `base` replaces its own address; `timeout` is in seconds."""

    name: str
    key: str = field(repr=False)
    session: aiohttp.ClientSession = field(repr=False)
    base: str = ""
    timeout: float = 8.0

    async def search(self, query: str, count: int) -> list[SearchResult]:
        asking = ENGINES[self.name]
        try:
            async with asyncio.timeout(self.timeout):
                answer = await self._ask(asking, asking.body(query, count))
        except TimeoutError:
            raise SearchFailed(f"{self.name} took too long") from None
        except (aiohttp.ClientError, OSError) as error:
            raise SearchFailed(f"no connection to {self.name}") from error
        for step in asking.results:
            answer = answer.get(step) if isinstance(answer, Mapping) else None
        return _founds(answer, asking.snippet)[:count]

    async def _ask(self, asking: _Asking, body: Mapping[str, Any]) -> Any:
        headers = {asking.key_header: asking.key_prefix + self.key, "Accept": "application/json"}
        sent: dict[str, Any] = {"params": body} if asking.method == "GET" else {"json": body}
        url = (self.base or asking.base).rstrip("/") + asking.path
        async with self.session.request(asking.method, url, headers=headers, allow_redirects=False, **sent) as response:
            if response.status != 200:
                rests = response.status in (401, 402, 403, 429, 432, 433)
                raise SearchFailed(f"{self.name} answered HTTP {response.status}", rests=rests)
            data = bytearray()
            async for chunk in response.content.iter_chunked(65_536):
                data += chunk
                if len(data) > MAX_BYTES:
                    raise SearchFailed(f"the answer of {self.name} is too long")
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise SearchFailed(f"{self.name} did not answer with JSON") from None


TextSearch = Callable[[str, int, float], list[dict[str, Any]]]


def ddgs_text(query: str, count: int, seconds: float) -> list[dict[str, Any]]:
    """Search with the ddgs package. Blocks; raises what ddgs raises."""
    from ddgs import DDGS  # here, since it loads several engines and lxml, and not every process searches

    return DDGS(timeout=max(1, int(seconds))).text(query, max_results=count)


class KeylessEngine:
    """ddgs: no key, but often refused. Its calls block, so they have two threads of their own.

    A thread cannot be cancelled: an abandoned one runs until its own timeout.
    """

    name = "ddgs"

    def __init__(self, *, timeout: float = 6.0, text: TextSearch = ddgs_text) -> None:
        self._timeout, self._text = timeout, text
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ddgs")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def search(self, query: str, count: int) -> list[SearchResult]:
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(self._threads, self._text, query, count, self._timeout)
        try:
            async with asyncio.timeout(self._timeout * 2):
                return _founds(await asked, ("body",), url="href")[:count]
        except TimeoutError:
            raise SearchFailed("ddgs took too long") from None
        except Exception as error:
            # ddgs raises what its engines raise; only the words of an error say that nothing was found.
            if "no results" in str(error).lower():
                return []
            raise SearchFailed("ddgs failed", rests=True) from error


def _founds(answer: Any, snippet: tuple[str, ...], url: str = "url") -> list[SearchResult]:
    """Return the readable results of an answer."""
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
