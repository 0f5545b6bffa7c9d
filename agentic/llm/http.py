"""SDK clients, size limits, server-sent events.

Limit the size of answers, so that a server that keeps sending cannot fill the memory.

The SDKs read a whole answer at once and only limit the time. This counts decompressed bytes: a hundred kilobytes of
compressed blanks are a hundred megabytes. The longest good answers are pictures of some ten megabytes in base64.

HTTP by the OpenAI and Anthropic SDKs, which the same tool (Stainless) generates and which both use httpx2.

Errors are classified by their attributes, so this module imports neither SDK.

Server-sent events from the bytes of a response: https://html.spec.whatwg.org/multipage/server-sent-events.html

Only `data` matters here; event names, ids and comments (keep-alives) are skipped. Bytes may be split anywhere, also
within a character.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from agentic.llm.errors import BadAnswer, ConnectionFailed, ModelError, TimedOut, error_of_status, not_made
from agentic.llm.model import CONNECT_SECONDS, KEEP_ALIVE_SECONDS
from agentic.llm.schemas import json_object, part, text

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


@functools.cache
def ssl_context() -> ssl.SSLContext:
    """Return the TLS context shared by all clients: building one takes 15 ms and a megabyte."""
    import httpx2

    return httpx2.create_ssl_context()


def limits() -> httpx2.Limits:
    """The SDKs' limits, with connections kept alive from turn to turn."""
    import httpx2

    return httpx2.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=KEEP_ALIVE_SECONDS)


def on_loopback(address: str) -> bool:
    """Whether a URL leads to this machine. A proxy of the environment would look for it on its own."""
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def http_options(address: str | None, *on_request: Callable[[httpx2.Request], Awaitable[None]]) -> dict[str, Any]:
    """Options of the SDKs' HTTP clients for a base URL, None for the SDK's own. `on_request` hooks see each request
    before it is sent."""
    hooks = {"request": [*on_request], "response": [bound_response]}
    headers = {"accept-encoding": ENCODINGS}
    proxies = not on_loopback(address or "")
    return {
        "verify": ssl_context(),
        "limits": limits(),
        "event_hooks": hooks,
        "headers": headers,
        "trust_env": proxies,
    }


def timeout(seconds: float) -> httpx2.Timeout:
    import httpx2

    return httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))


class Client(Protocol):
    """The part of either SDK's client that is used here."""

    async def post(self, path: str, *, cast_to: Any, body: Any, options: Any) -> Any: ...

    async def get(self, path: str, *, cast_to: Any, options: Any) -> Any: ...


async def post(client: Client, path: str, request: Mapping[str, Any], seconds: float) -> httpx2.Response:
    """Return the raw response to a POST by the SDK's client, with its authentication and errors.

    The generated methods (`responses.create`) walk every field of the request by its type, which takes 15 ms of the
    event loop for a history of forty messages, and their response models load 60 ms of modules.
    """
    import httpx2

    response = await client.post(path, cast_to=httpx2.Response, body=request, options={"timeout": timeout(seconds)})
    if not isinstance(response, httpx2.Response):
        raise BadAnswer("no response")
    return response


async def begin(client: Any, path: str, request: Mapping[str, Any], seconds: float) -> httpx2.Response:
    """Return the response to a POST whose body, a stream of events, is to be read and closed by the caller."""
    import httpx2

    asked = {**request, "stream": True}
    response = await client.post(
        path, cast_to=httpx2.Response, body=asked, options={"timeout": timeout(seconds)}, stream=True
    )
    if not isinstance(response, httpx2.Response):
        raise BadAnswer("no stream")
    return response


async def get(client: Client, path: str, seconds: float) -> None:
    """Make a GET. Only its success matters."""
    import httpx2

    await client.get(path, cast_to=httpx2.Response, options={"timeout": timeout(seconds)})


def load() -> None:
    """Import and build what the first call needs."""
    import httpx2  # noqa: F401

    ssl_context()


def transport_errors() -> tuple[type[Exception], ...]:
    """The errors that may come besides the SDK's own: the HTTP clients', the socket's, and invalid JSON."""
    import aiohttp
    import httpx2

    http = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, aiohttp.ClientError)
    return (*http, OSError, ValueError, RecursionError)


def explain(error: Exception, request_id_header: str) -> ModelError:
    """Return our error for one that an SDK or its HTTP client raised."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 300:
        return _of_status(error, status, request_id_header)
    if isinstance(status, int):
        return BadAnswer("not what the API promises", status=status)
    return _of_connection(error, _causes(error))


def _causes(error: BaseException) -> list[BaseException]:
    """The error and its chain of causes: aiohttp's original error says more than the SDK's and httpx2's wrappers."""
    causes = [error]
    while isinstance(cause := causes[-1].__cause__, Exception):
        causes.append(cause)
    return causes


def _of_connection(error: Exception, causes: Sequence[BaseException]) -> ModelError:
    import aiohttp
    import httpx2

    def among(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if among(TooLong):
        answer = BadAnswer("too long")
        answer.made = True
        return answer
    if among(aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
        return not_made(ConnectionFailed("no answer to the connection"))
    if among(httpx2.TimeoutException, TimeoutError):
        return TimedOut()
    if among(aiohttp.ClientResponseError):
        return BadAnswer("not HTTP")
    if isinstance(error, (ValueError, RecursionError)) and not isinstance(error, aiohttp.ClientError):
        return BadAnswer("not JSON")
    failed = ConnectionFailed(_system_words(causes))
    return not_made(failed) if among(aiohttp.ClientConnectorError, httpx2.ConnectError) else failed


def _system_words(causes: Sequence[BaseException]) -> str:
    """The operating system's words for a failed connection, "" where there are none."""
    words = (cause.strerror for cause in reversed(causes) if isinstance(cause, OSError))
    return next(filter(None, words), "")


def _of_status(error: Any, status: int, request_id_header: str) -> ModelError:
    headers = error.response.headers
    body = error.body if isinstance(error.body, dict) else {}
    details = part(body, "error") or body
    code = text(details, "code") or text(details, "type")
    return error_of_status(
        status,
        error.body,
        code=code,
        headers=headers,
        request_id=headers.get(request_id_header),
    )


# Limits for a server that never stops: in all, and of one line, whose parsing blocks the event loop.
SSE_MOST_BYTES = 16 * 1024 * 1024
MOST_LINE_BYTES = 2 * 1024 * 1024
DONE = "[DONE]"
REST_SECONDS = 0.2


class Decoder:
    """Turns bytes into the data of whole events. Raises BadAnswer above MOST_BYTES and MOST_LINE_BYTES."""

    def __init__(self) -> None:
        self._unread = b""
        self._seen = 0
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the events that this chunk completes."""
        for line in self._lines(chunk):
            if line:
                self._read(line)
            elif self._data:
                yield "\n".join(self._data)
                self._data.clear()

    def _lines(self, chunk: bytes) -> Iterator[str]:
        self._seen += len(chunk)
        if self._seen > SSE_MOST_BYTES:
            raise BadAnswer("a stream without end")
        lines = (self._unread + chunk).replace(b"\r\n", b"\n").split(b"\n")
        self._unread = lines.pop()
        if len(self._unread) > MOST_LINE_BYTES:
            raise BadAnswer("a line without end")
        for line in lines:
            yield line.decode("utf-8", "replace").rstrip("\r")

    def _read(self, line: str) -> None:
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))


async def objects_in(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the JSON objects in a response's body, up to [DONE] or its end. Raises BadAnswer for other data."""
    decoder = Decoder()
    async for chunk in chunks:
        for data in decoder.feed(chunk):
            if data == DONE:
                await rest(chunks)
                return
            yield json_object(data)


async def rest(chunks: AsyncIterator[Any]) -> None:
    """Read past the last event: only a connection that was read to its end is reused.

    The answer is complete, so errors no longer matter.
    """
    with suppress(BadAnswer, *transport_errors()):
        async with asyncio.timeout(REST_SECONDS):
            async for _ in chunks:
                pass


async def objects(
    client: Any, path: str, request: Mapping[str, Any], seconds: float
) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the JSON objects that the answer to a POST streams.

    `client` is OpenAI's SDK client, for its authentication and errors; also raises what `sdk_http.post` raises. Close
    the generator (`contextlib.aclosing`) to release the connection.
    """
    response = await begin(client, path, request, seconds)
    try:
        async with aclosing(objects_in(response.aiter_bytes())) as events:
            async for event in events:
                yield event
    finally:
        await response.aclose()
