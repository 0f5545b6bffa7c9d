"""Fetch pages and files from the public Internet, and from nowhere else.

    address → addresses.py: allowed? → the name is resolved here → each IP address is checked → connection → bytes

The connection goes to the IP address that was checked: this resolver is the connector's only one, so a name that
resolves differently the second time (rebinding) gains nothing. The machine's proxies and cookies are not used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agentic.net.addresses import PORTS, FetchRefused, IPAddress, is_public, public_url
from agentic.net.fetch import Downloaded, downloaded
from agentic.net.images import MAX_AT_ONCE, MAX_BYTES, TIMEOUT

_ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,image/*;q=0.5,*/*;q=0.1"
# Many sites answer nothing that names itself as a library.
_AGENT = "Mozilla/5.0 (compatible; agentic-discord/1.0)"


class CheckedResolver(AbstractResolver):
    """Resolves a name, and only returns IP addresses that may all be connected to."""

    def __init__(self, inner: AbstractResolver | None = None, may_connect: Callable[[IPAddress], bool] = is_public):
        self._inner = inner or aiohttp.ThreadedResolver()
        self._may_connect = may_connect

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises FetchRefused if any IP address is not public: a partly good answer is a trap."""
        found = await self._inner.resolve(host, port, family)
        for result in found:
            if not self._may_connect(ipaddress.ip_address(result["host"])):
                raise FetchRefused("a name that leads to an address that is not public")
        return found

    async def close(self) -> None:
        await self._inner.close()


class PublicFetcher:
    """Owns its session: `async with PublicFetcher() as files`.

    `timeout`: seconds for a whole fetch, redirects included. `ports`, `resolver` and `may_connect` default to the rules
    of addresses.py; tests pass their own.
    """

    def __init__(
        self,
        *,
        max_bytes: int = MAX_BYTES,
        timeout: float = TIMEOUT,
        ports: Collection[int] = PORTS,
        resolver: AbstractResolver | None = None,
        may_connect: Callable[[IPAddress], bool] = is_public,
    ) -> None:
        self._max_bytes, self._timeout, self._ports = max_bytes, timeout, ports
        self._resolver = CheckedResolver(resolver, may_connect)
        self._at_once = asyncio.Semaphore(MAX_AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            await self._resolver.close()  # the connector closes only one of its own making

    async def fetch_page(self, url: str) -> Downloaded:
        """Return what is at this address, of whatever kind; the caller checks it (agentic/tools/web_fetch.py).
        Raises FetchRefused, also for connection errors and timeouts."""
        assert self._session is not None, "entered with `async with`"
        address, allowed = self._allowed(url), self._allowed
        try:
            async with asyncio.timeout(self._timeout), self._at_once:
                return await downloaded(
                    self._session, address, allowed=allowed, max_bytes=self._max_bytes, accept=_ACCEPT, agent=_AGENT
                )
        except TimeoutError:
            raise FetchRefused("it took too long") from None
        except (aiohttp.ClientError, OSError) as error:
            raise FetchRefused("no connection") from error

    def _allowed(self, url: str) -> URL:
        return public_url(url, self._ports)
