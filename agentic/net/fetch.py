"""One GET with limits; public fetcher.

One GET with limits: redirects are checked like first addresses, bytes are counted as they arrive.

The server's claims are not trusted: its length is checked, and a compressed answer, which could expand without limit,
is refused. Its content type is passed on as a claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from agentic.net.addresses import FetchRefused

MAX_REDIRECTS = 3

_READ_SIZE = 65_536
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A body. `content_type`: the server's claim. `address`: after all redirects."""

    data: bytes = field(repr=False)
    content_type: str
    address: URL


async def download(
    session: aiohttp.ClientSession, address: URL, *, allowed: Callable[[str], URL], max_bytes: int, accept: str
) -> bytes:
    """Return the body at an already checked `address`. Raises FetchRefused, and what aiohttp raises.

    `allowed` checks the target of a redirect and raises FetchRefused.
    """
    found = await downloaded(session, address, allowed=allowed, max_bytes=max_bytes, accept=accept)
    return found.data


async def downloaded(
    session: aiohttp.ClientSession,
    address: URL,
    *,
    allowed: Callable[[str], URL],
    max_bytes: int,
    accept: str,
    agent: str | None = None,
) -> Downloaded:
    """The same, with the server's claims. `agent`: the User-Agent, by default aiohttp's own."""
    headers = {"Accept-Encoding": "identity", "Accept": accept, **({"User-Agent": agent} if agent else {})}
    for _ in range(MAX_REDIRECTS + 1):
        async with session.get(address, headers=headers, allow_redirects=False) as response:
            if response.status not in _REDIRECTS:
                data = await _body(response, max_bytes)
                return Downloaded(data, response.headers.get("Content-Type", ""), address)
            address = allowed(_target(address, response.headers.get("Location", "")))
    raise FetchRefused("too many redirects")


def _target(address: URL, location: str) -> str:
    try:
        return str(address.join(URL(location)))
    except ValueError:
        raise FetchRefused("a redirect without a valid address") from None


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    if response.status != 200:
        raise FetchRefused(f"HTTP {response.status}")
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise FetchRefused("a compressed answer")
    if (response.content_length or 0) > max_bytes:
        raise FetchRefused("too large")
    data = bytearray()
    async for chunk in response.content.iter_chunked(_READ_SIZE):
        data += chunk
        if len(data) > max_bytes:
            raise FetchRefused("too large")
    return bytes(data)
