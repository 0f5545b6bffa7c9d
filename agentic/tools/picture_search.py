"""A picture from the web that fits a query, beside a search for pages.

    query → without private details → ddgs, in a thread → addresses → the public fetcher → the first that is a picture

The addresses are strangers': only the fetcher that checks them is used, which limits bytes and pixels and takes a
picture's kind from its first bytes. Whatever fails, there is no picture, and the text that it would have stood beside
is posted without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cachetools import TTLCache

from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.net.images import as_picture
from agentic.tools.query_privacy import Redact, unchanged, without_private
from agentic.tools.web_fetch import PageFetcher

COUNT = 8  # pictures that are asked for
MOST_TRIED = 4  # of them
MAX_QUERY = 200
KEPT_SEARCHES = 256
KEPT_SECONDS = 900.0
REST_SECONDS = 120.0

ImageSearch = Callable[[str, int, float], list[dict[str, Any]]]

log = logging.getLogger(__name__)


def ddgs_images(query: str, count: int, seconds: float) -> list[dict[str, Any]]:
    """Search for pictures with the ddgs package. Blocks; raises what ddgs raises.

    DuckDuckGo alone is asked, since ddgs's other engine for pictures ignores that explicit ones are not wanted.
    """
    from ddgs import DDGS  # here, since it loads several engines and lxml, and not every process searches

    found = DDGS(timeout=max(1, int(seconds))).images(query, safesearch="on", backend="duckduckgo", max_results=count)
    return list(found)


class PictureSearch:
    """Finds pictures. `timeout`: seconds for the engine; the whole takes twice as long at most. `clock` is in seconds.

    A thread cannot be cancelled: an abandoned one runs until its own timeout.
    """

    def __init__(
        self,
        pages: PageFetcher,
        clock: Callable[[], float],
        *,
        images: ImageSearch = ddgs_images,
        redact: Redact = unchanged,
        timeout: float = 6.0,
    ) -> None:
        self._pages, self._clock, self._images, self._redact, self._timeout = pages, clock, images, redact, timeout
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ddgs pictures")
        self._kept: TTLCache[str, list[str]] = TTLCache(KEPT_SEARCHES, KEPT_SECONDS, timer=clock)
        self._rests_until = 0.0

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def find(self, query: str) -> Picture | None:
        """Return a picture for the query; None where there is none in time. Raises nothing but CancelledError."""
        asked = without_private(query, self._redact, asked=query)[:MAX_QUERY].strip()
        if not asked or self._clock() < self._rests_until:
            return None
        try:
            async with asyncio.timeout(self._timeout * 2):
                for address in (await self._addresses(asked))[:MOST_TRIED]:
                    picture = await self._picture(address)
                    if picture is not None:
                        return picture
        except TimeoutError:
            log.info("a picture search took too long, the answer has no picture")
        return None

    async def _addresses(self, query: str) -> list[str]:
        key = query.casefold()
        known = self._kept.get(key)
        if known is not None:
            return known
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout):
                found = await loop.run_in_executor(self._threads, self._images, query, COUNT, self._timeout)
            addresses = _addresses_in(found)
        except TimeoutError:
            raise
        except Exception as error:
            # ddgs raises what its engines raise; only the words of an error say that nothing was found.
            if "no results" not in str(error).lower():
                log.info("ddgs found no pictures, it rests for %.0f s: %s", REST_SECONDS, type(error).__name__)
                self._rests_until = self._clock() + REST_SECONDS
                return []
            addresses = []
        self._kept[key] = addresses
        return addresses

    async def _picture(self, address: str) -> Picture | None:
        try:
            found = await self._pages.fetch_page(address)
            picture = await asyncio.to_thread(as_picture, found.data)
        except FetchRefused as refused:
            log.debug("a found picture was not taken: %s", refused.reason)
            return None
        return Picture(picture.data, picture.media_type)


def _addresses_in(found: Any) -> list[str]:
    """The addresses in an answer, https ones first; a result of another shape is left out."""
    items = found if isinstance(found, list) else []
    images = (item.get("image") for item in items if isinstance(item, dict))
    usable = dict.fromkeys(image for image in images if isinstance(image, str) and image.startswith("http"))
    return sorted(usable, key=lambda address: not address.startswith("https:"))
