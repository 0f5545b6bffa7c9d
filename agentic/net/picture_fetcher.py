"""Fetch pictures and text files that people attach in Discord.

Only a few exact hosts are requested, over https on the usual port, and a redirect must lead to one of them again
(download.py). A picture's kind is taken from its first bytes, and one with more pixels than any model takes is refused.
Addresses outside Discord go through public_fetcher.py.

Several bots look at the same message, so results are cached for a while, and concurrent requests for one address share
one fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import aiohttp
from cachetools import LRUCache
from yarl import URL

from agentic.net.addresses import FetchRefused, parsed_url
from agentic.net.download import download
from agentic.net.picture_headers import media_type_of, size_of

__all__ = ["DISCORD_HOSTS", "FetchRefused", "FetchedPicture", "PictureFetcher", "as_picture"]

DISCORD_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
MAX_BYTES = 8_000_000
MAX_SIDE = 8000  # pixels; Anthropic's limit, the lowest of the providers'
MAX_PIXELS = 40_000_000
MAX_AT_ONCE = 8
CACHE_BYTES = 24_000_000
TIMEOUT = 10.0  # seconds for one picture, redirects included

T = TypeVar("T")

_ACCEPT = "image/png,image/jpeg,image/gif,image/webp,text/*,*/*;q=0.1"


@dataclass(frozen=True, slots=True)
class FetchedPicture:
    """`media_type`, taken from the bytes: image/png, image/jpeg, image/gif or image/webp."""

    data: bytes = field(repr=False)
    media_type: str


class PictureFetcher:
    """Fetches pictures with a session that it does not own.

    `extra_origins` such as "http://127.0.0.1:8080" are trusted like the hosts, http included: for a stand-in on
    loopback. `timeout`: seconds for a whole fetch.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        allowed_hosts: Collection[str] = DISCORD_HOSTS,
        extra_origins: Collection[str] = (),
        max_bytes: int = MAX_BYTES,
        timeout: float = TIMEOUT,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._session = session
        self._hosts = frozenset(allowed_hosts)
        self._origins = frozenset(URL(origin).origin() for origin in extra_origins)
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._cache: LRUCache[str, bytes] = LRUCache(cache_bytes, len)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._at_once = asyncio.Semaphore(MAX_AT_ONCE)

    async def fetch(self, url: str) -> FetchedPicture:
        """Return the picture at this address. Raises FetchRefused, also for connection errors and timeouts."""
        return as_picture(await self.fetch_bytes(url, self._max_bytes))

    async def fetch_bytes(self, url: str, max_bytes: int) -> bytes:
        """Return the bytes at this address. Raises FetchRefused, also for more than `max_bytes`, for connection errors
        and timeouts."""
        address = self._allowed(url)
        return await self._in_time(self._fetch_once(url, address, max_bytes))

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                return await work
        except TimeoutError:
            raise FetchRefused("it took too long") from None
        except (aiohttp.ClientError, OSError) as error:
            raise FetchRefused("no connection") from error

    async def _fetch_once(self, url: str, address: URL, max_bytes: int) -> bytes:
        async with self._locks.setdefault(url, asyncio.Lock()):
            data = self._cache.get(url)
            if data is None:
                async with self._at_once:
                    data = await download(
                        self._session, address, allowed=self._allowed, max_bytes=max_bytes, accept=_ACCEPT
                    )
                with suppress(ValueError):  # larger than all that is kept
                    self._cache[url] = data
            elif len(data) > max_bytes:
                raise FetchRefused("too large")
            return data

    def _allowed(self, url: str) -> URL:
        address = parsed_url(url)
        try:
            origin = address.origin()
        except ValueError:  # a scheme without origins, such as data:
            raise FetchRefused("not an address") from None
        if origin in self._origins:
            return address
        if address.scheme != "https" or address.port != 443:
            raise FetchRefused("not https")
        if address.raw_host not in self._hosts:
            raise FetchRefused("not one of Discord's hosts")
        return address


def as_picture(data: bytes) -> FetchedPicture:
    """Check that the bytes are a picture that models take. Raises FetchRefused."""
    media_type = media_type_of(data)
    if media_type is None:
        raise FetchRefused("not a picture")
    width, height = size_of(data, media_type) or (0, 0)
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise FetchRefused("too many pixels")
    return FetchedPicture(data, media_type)
