"""Fetches over HTTP with limits, and pages and files only from the public Internet.

Redirects are checked like the first URL, and bytes are counted as they arrive. The server's claims aren't trusted: its
length is checked, and a compressed answer, which could expand without limit, is refused.

    URL → addresses.py: allowed? → the name is resolved here → each IP address is checked → connection → bytes

The connection goes to the checked IP address: this resolver is the connector's only one, so a name that resolves
differently the second time (rebinding) gains nothing. The machine's proxies and cookies aren't used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agentic.net.addresses import PORTS, FetchRefused, IPAddress, is_public, public_url

MAX_BYTES = 8_000_000
MAX_AT_ONCE = 8
MAX_REDIRECTS = 3
TIMEOUT_SECONDS = 10.0  # for one fetch, redirects included

_REDIRECTS = (301, 302, 303, 307, 308)
_ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,image/*;q=0.5,*/*;q=0.1"
# Many sites don't answer a User-Agent that names a library.
_AGENT = "Mozilla/5.0 (compatible; agentic-discord/1.0)"


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A body. `content_type` is the server's claim, `address` the URL after all redirects."""

    data: bytes = field(repr=False)
    content_type: str
    address: URL


@asynccontextmanager
async def fetching_within(seconds: float) -> AsyncIterator[None]:
    """Limit the time, and raise FetchRefused for connection errors and timeouts."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise FetchRefused("it took too long") from None
    except (aiohttp.ClientError, OSError) as error:
        raise FetchRefused("no connection") from error


async def download(
    session: aiohttp.ClientSession,
    address: URL,
    *,
    allowed: Callable[[str], URL],
    max_bytes: int,
    accept: str,
    agent: str | None = None,
) -> Downloaded:
    """Download an already checked `address`. Raises FetchRefused and aiohttp's errors.

    `allowed` checks a redirect's target and raises FetchRefused. `agent`: the User-Agent, None for aiohttp's own.
    """
    headers = {"Accept-Encoding": "identity", "Accept": accept, **({"User-Agent": agent} if agent else {})}
    for _ in range(MAX_REDIRECTS + 1):
        async with session.get(address, headers=headers, allow_redirects=False) as response:
            if response.status not in _REDIRECTS:
                if response.status != 200:
                    raise FetchRefused(f"HTTP {response.status}")
                if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                    raise FetchRefused("a compressed answer")
                data = await read_body(response, max_bytes)
                return Downloaded(data, response.headers.get("Content-Type", ""), address)
            try:
                target = str(address.join(URL(response.headers.get("Location", ""))))
            except ValueError:
                raise FetchRefused("a redirect without a valid address") from None
            address = allowed(target)
    raise FetchRefused("too many redirects")


async def read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Read an answer. Raises FetchRefused for more than `max_bytes`, counted as they arrive."""
    if (response.content_length or 0) > max_bytes:
        raise FetchRefused("too large")
    data = bytearray()
    async for chunk in response.content.iter_chunked(65_536):
        data += chunk
        if len(data) > max_bytes:
            raise FetchRefused("too large")
    return bytes(data)


class PublicFetcher:
    """Fetches from the public Internet. Owns its session: `async with PublicFetcher() as files`.

    `timeout`: seconds for a whole fetch, including redirects. `ports`, `resolver`, and `may_connect` default to the
    rules in addresses.py; tests pass their own.
    """

    def __init__(
        self,
        *,
        max_bytes: int = MAX_BYTES,
        timeout: float = TIMEOUT_SECONDS,
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

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            await self._resolver.close()  # the connector only closes a resolver that it created

    async def fetch_page(self, url: str) -> Downloaded:
        """Return the content of this URL, of any type; the caller checks it (agentic/tools/web_fetch.py). Raises
        FetchRefused, including for connection errors and timeouts."""
        assert self._session is not None, "entered with `async with`"
        allowed = partial(public_url, ports=self._ports)
        address = allowed(url)
        async with fetching_within(self._timeout), self._at_once:
            return await download(
                self._session, address, allowed=allowed, max_bytes=self._max_bytes, accept=_ACCEPT, agent=_AGENT
            )


class CheckedResolver(AbstractResolver):
    """Resolves a name only if connections to all of its IP addresses are allowed."""

    def __init__(self, inner: AbstractResolver | None = None, may_connect: Callable[[IPAddress], bool] = is_public):
        self._inner = inner or aiohttp.ThreadedResolver()
        self._may_connect = may_connect

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name. Raises FetchRefused if any IP address isn't public: a partly good answer is a trap."""
        found = await self._inner.resolve(host, port, family)
        for result in found:
            if not self._may_connect(ipaddress.ip_address(result["host"])):
                raise FetchRefused("a name that leads to an address that isn't public")
        return found

    async def close(self) -> None:
        await self._inner.close()
