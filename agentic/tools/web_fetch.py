"""Give models the tool web_fetch: a public page as readable text, in pieces.

The address comes from a model, which may have it from anyone, so pages are fetched only by the fetcher that checks
addresses (agentic/net/fetch.py). A page is cached for ten minutes, so the next piece doesn't need another download.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cachetools import TTLCache

from agentic.llm.types import Picture, Tool
from agentic.net.addresses import FetchRefused
from agentic.net.fetch import Downloaded, PublicFetcher
from agentic.net.images import as_picture, media_type_of
from agentic.net.page_text import HTML, media_type, page_text, readable_page
from agentic.tools.tool import WEB_FETCH, ToolContext, ToolOutput, tool_spec

MAX_HTML = 1_000_000  # characters of a page's source that are read
KEPT_PAGES = 32
KEPT_CHARACTERS = 500_000  # of a page
KEPT_SECONDS = 600.0

SPEC = tool_spec(
    WEB_FETCH,
    "Read a public web page or picture. Long pages come in pieces: call again with a higher offset.",
    {
        "url": {"type": "string", "description": "starts with https:// or http://"},
        "offset": {"type": "integer", "minimum": 0, "description": "characters to skip; 0 at first"},
    },
    ("url",),
)


@dataclass(frozen=True, slots=True)
class _CachedPage:
    text: str = ""
    title: str = ""
    address: str = ""
    picture: Picture | None = None


@dataclass(slots=True)
class WebFetch:
    """`clock`: in seconds. `characters`: the size of a piece."""

    fetcher: PublicFetcher
    clock: Callable[[], float]
    characters: int = 8000
    spec: Tool = SPEC
    _pages: TTLCache[str, _CachedPage] = field(init=False)

    def __post_init__(self) -> None:
        self._pages = TTLCache(KEPT_PAGES, KEPT_SECONDS, timer=self.clock)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        url, offset = str(arguments["url"]).strip(), int(arguments.get("offset") or 0)
        try:
            page = self._pages.get(url)
            if page is None:
                found = await self.fetcher.fetch_page(url)
                page = self._pages[url] = await asyncio.to_thread(_read, found)
        except FetchRefused as refused:
            return ToolOutput.failed(f"could not read the page: {refused.reason}")
        if page.picture is not None:
            return ToolOutput(f"a picture from {page.address}", (page.picture,))
        whole = len(page.text)
        if not whole:
            return ToolOutput(f"{page.address} has no text")
        if offset >= whole:
            return ToolOutput.failed(f"the page has only {whole} characters")
        end = min(whole, offset + self.characters)
        if end < whole:  # cut between lines, if a line ends in the second half of the piece
            end = page.text.rfind("\n", offset + self.characters // 2, end) + 1 or end
        head = f"address: {page.address}\n" + (f"title: {page.title}\n" if page.title else "")
        more = f"; read on with offset {end}" if end < whole else ""
        if offset or more:
            head += f"characters {offset} to {end} of {whole}{more}\n"
        return ToolOutput(f"{head}\n{page.text[offset:end]}")


def _read(found: Downloaded) -> _CachedPage:
    """Parse a download. It may take long, so call it in a thread."""
    address = str(found.address)
    if media_type_of(found.data) is not None:
        return _CachedPage(address=address, picture=as_picture(found.data))
    text = page_text(found.data, found.content_type)
    if media_type(found.content_type) not in HTML:
        return _CachedPage(text[:KEPT_CHARACTERS].strip(), address=address)
    title, text = readable_page(text[:MAX_HTML], address)
    return _CachedPage(text[:KEPT_CHARACTERS], title, address)
