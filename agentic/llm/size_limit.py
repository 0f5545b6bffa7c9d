"""Limit the size of answers, so that a server that keeps sending cannot fill the memory.

The SDKs read a whole answer at once and only limit the time. This counts decompressed bytes: a hundred kilobytes of
compressed blanks are a hundred megabytes. The longest good answers are pictures of some ten megabytes in base64.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx
    import httpx2

MOST_BYTES = 64 * 1024 * 1024
ENCODINGS = "gzip, deflate"
_AT_A_TIME = 256 * 1024  # bytes decompressed before they are counted
_EITHER_HEAD = 47  # zlib's window bits for gzip and deflate alike


class TooLong(ValueError):
    """The answer exceeds MOST_BYTES."""


class Meter:
    """Counts one answer's bytes."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def count(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise TooLong
        return piece


async def bound_response(response: httpx2.Response) -> None:
    """Limit and decompress a response's body: an event hook of httpx2, called after the head and before the body.

    Content with an encoding that was not asked for stays compressed.
    """
    import httpx2

    _bound(response, httpx2.AsyncByteStream)


async def bound_httpx_response(response: httpx.Response) -> None:
    """As `bound_response`, for httpx."""
    import httpx

    _bound(response, httpx.AsyncByteStream)


def _bound(response: Any, base: type) -> None:
    packed = response.headers.pop("content-encoding", "identity") in ENCODINGS.split(", ")
    response.stream = _bounded_stream(base)(response.stream, packed)


@cache
def _bounded_stream(base: Any) -> Any:
    """Return the stream class for one of the two libraries, created once it is imported: creating a class costs more
    than the rest of the hook."""

    class Bounded(base):  # type: ignore[misc]
        def __init__(self, source: Any, packed: bool) -> None:
            self._source, self._meter, self._packed = source, Meter(), packed

        async def __aiter__(self) -> AsyncIterator[bytes]:
            unpack = zlib.decompressobj(_EITHER_HEAD) if self._packed else None
            async for piece in self._source:
                for plain in _unpacked(piece, unpack) if unpack else (piece,):
                    yield self._meter.count(plain)

        async def aclose(self) -> None:
            await self._source.aclose()

    return Bounded


def _unpacked(piece: bytes, unpack: Any) -> Iterator[bytes]:
    """Decompress in pieces. Raises ValueError for invalid data."""
    try:
        while plain := unpack.decompress(piece, _AT_A_TIME):
            yield plain
            piece = unpack.unconsumed_tail
    except zlib.error as error:
        raise ValueError("not compressed as declared") from error


async def bound_middleware(request: Any, handler: Any) -> Any:
    """A client middleware of aiohttp, whose `ClientResponse.read` reads all of `content`."""
    response = await handler(request)
    response.content = _BoundedContent(response.content)
    return response


class _BoundedContent:
    """A StreamReader whose read of everything is limited."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def read(self, n: int = -1) -> bytes:
        if n >= 0:
            return bytes(await self._content.read(n))
        meter = Meter()
        return b"".join([meter.count(piece) async for piece in self._content.iter_any()])
