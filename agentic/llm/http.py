"""HTTP for the providers' SDKs: client options, plain calls, server-sent events, errors, and size limits.

The SDKs of OpenAI and Anthropic come from the same generator (Stainless), and both use httpx2. The generated methods
(`responses.create`) check every field of a request, which blocks the event loop for 15 ms with a history of forty
messages, and their response models take 60 ms to import. So only the SDKs' clients are used, for authentication and
errors; requests and answers are plain JSON.

The SDKs read a whole answer at once and only limit the time. Here decompressed bytes are counted, so that an endless
answer can't fill the memory: a hundred kilobytes of compressed blanks are a hundred megabytes.

This module imports no SDK: errors are classified by their attributes and the names of their classes.
"""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentic.llm.errors import BadAnswer, ConnectionFailed, ModelError, TimedOut, error_of_status, not_made
from agentic.llm.model import CONNECT_SECONDS, KEEP_ALIVE_SECONDS
from agentic.llm.schemas import json_object, part, text

if TYPE_CHECKING:
    import httpx2

MAX_BYTES = 64 * 1024 * 1024  # of an answer; the longest good ones are pictures of some ten megabytes in base64
# Of a whole stream, and of one line, whose parsing blocks the event loop.
MAX_STREAM_BYTES = 16 * 1024 * 1024
MAX_LINE_BYTES = 2 * 1024 * 1024
REST_SECONDS = 0.2
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=dict)
# The SDKs' headers about this machine, which take more time than the rest of a request.
_PLATFORM = ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")
ENCODINGS = "gzip, deflate"
_DECOMPRESSED_AT_ONCE = 256 * 1024  # bytes
_GZIP_OR_DEFLATE = 47  # zlib's window bits for both


class TooLong(ValueError):
    """The answer exceeds MAX_BYTES."""


# --- clients and calls ----------------------------------------------------------------------------------------------


@functools.cache
def ssl_context() -> ssl.SSLContext:
    """Return the TLS context shared by all clients: building one takes 15 ms and a megabyte."""
    import httpx2

    return httpx2.create_ssl_context()


def on_loopback(address: str) -> bool:
    """Return whether a URL leads to this machine. A proxy would look for the server on the proxy's machine."""
    host = urlsplit(address).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def http_options(address: str | None, *on_request: Callable[[httpx2.Request], Awaitable[None]]) -> dict[str, Any]:
    """Return options for the SDKs' HTTP clients: the SDKs' own limits, with connections kept alive from turn to turn.

    `address`: the base URL, or None for the SDK's default. `on_request` hooks get each request before it is sent.
    """
    import httpx2

    return {
        "verify": ssl_context(),
        "limits": httpx2.Limits(
            max_connections=1000, max_keepalive_connections=100, keepalive_expiry=KEEP_ALIVE_SECONDS
        ),
        "event_hooks": {"request": [*on_request], "response": [size_limit(httpx2.AsyncByteStream)]},
        "headers": {"accept-encoding": ENCODINGS},
        "trust_env": not on_loopback(address or ""),
    }


def platform_headers(omit: Any) -> dict[str, Any]:
    """Return default headers that remove an SDK's headers about this machine. `omit`: the SDK's Omit()."""
    return {f"X-Stainless-{name}": omit for name in _PLATFORM}


def _call_options(seconds: float) -> dict[str, Any]:
    import httpx2

    return {"timeout": httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))}


async def get(client: Any, path: str, seconds: float) -> None:
    """Make a GET with an SDK's client. Only its success matters."""
    import httpx2

    await client.get(path, cast_to=httpx2.Response, options=_call_options(seconds))


async def post(
    client: Any, path: str, request: Mapping[str, Any], seconds: float, *, as_text: bool = True
) -> httpx2.Response:
    """Return the raw response to a POST with an SDK's client. Raises the SDK's errors.

    `as_text`: pass the body as JSON text, because the client would copy each field first.
    """
    import httpx2

    body: dict[str, Any] = {"content": _JSON.encode(request).encode()} if as_text else {"body": request}
    response: httpx2.Response = await client.post(path, cast_to=httpx2.Response, options=_call_options(seconds), **body)
    return response


@asynccontextmanager
async def stream(
    client: Any, path: str, request: Mapping[str, Any], seconds: float
) -> AsyncGenerator[httpx2.Response, None]:
    """Yield the response to a POST whose body, a stream of events, is still to be read."""
    import httpx2

    response: httpx2.Response = await client.post(
        path, cast_to=httpx2.Response, body={**request, "stream": True}, options=_call_options(seconds), stream=True
    )
    try:
        yield response
    finally:
        await response.aclose()


# --- server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html -------------------------------


async def objects_in(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the JSON objects in a response's body, up to [DONE] or its end. Raises BadAnswer for other data."""
    decoder = Decoder()
    async for chunk in chunks:
        for data in decoder.feed(chunk):
            if data == "[DONE]":
                await read_rest(chunks)
                return
            yield json_object(data)


async def read_rest(chunks: AsyncIterator[Any]) -> None:
    """Read to the end, so that the connection can be reused. The answer is complete, so errors don't matter."""
    with suppress(BadAnswer, *transport_errors()):
        async with asyncio.timeout(REST_SECONDS):
            async for _ in chunks:
                pass


class Decoder:
    """Turns bytes, split anywhere, into the data of whole events. Skips names, ids, and comments (keep-alives). Raises
    BadAnswer above MAX_STREAM_BYTES and MAX_LINE_BYTES."""

    def __init__(self) -> None:
        self._unread = b""
        self._seen = 0
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the data of the events that this chunk completes."""
        self._seen += len(chunk)
        if self._seen > MAX_STREAM_BYTES:
            raise BadAnswer("a stream without end")
        *lines, self._unread = (self._unread + chunk).replace(b"\r\n", b"\n").split(b"\n")
        if len(self._unread) > MAX_LINE_BYTES:
            raise BadAnswer("a line without end")
        for line in lines:
            said = line.decode("utf-8", "replace").rstrip("\r")
            field, _, value = said.partition(":")
            if field == "data":
                self._data.append(value.removeprefix(" "))
            elif not said and self._data:
                yield "\n".join(self._data)
                self._data.clear()


# --- limits of size -------------------------------------------------------------------------------------------------


class _Meter:
    """Decompresses one answer and counts its bytes."""

    def __init__(self, compressed: bool = False) -> None:
        self._left = MAX_BYTES
        self._decompressor: Any = zlib.decompressobj(_GZIP_OR_DEFLATE) if compressed else None

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield decompressed bytes. Raises TooLong, and ValueError for invalid data."""
        for plain in self._decompress(piece) if self._decompressor else (piece,):
            self._left -= len(plain)
            if self._left < 0:
                raise TooLong
            yield plain

    def _decompress(self, piece: bytes) -> Iterator[bytes]:
        try:
            while plain := self._decompressor.decompress(piece, _DECOMPRESSED_AT_ONCE):
                yield plain
                piece = self._decompressor.unconsumed_tail
        except zlib.error as error:
            raise ValueError("not compressed as declared") from error


@functools.cache  # creating a class costs more than the rest of the hook
def size_limit(base: Any) -> Callable[[Any], Awaitable[None]]:
    """Return an event hook that limits and decompresses a response's body before it is read.

    `base`: AsyncByteStream of httpx or httpx2. A body with an encoding that wasn't requested stays compressed.
    """

    class Bounded(base):  # type: ignore[misc]
        def __init__(self, source: Any, compressed: bool) -> None:
            self._source, self._meter = source, _Meter(compressed)

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._source:
                for plain in self._meter.feed(piece):
                    yield plain

        async def aclose(self) -> None:
            await self._source.aclose()

    async def limit(response: Any) -> None:
        compressed = response.headers.pop("content-encoding", "identity") in ENCODINGS.split(", ")
        response.stream = Bounded(response.stream, compressed)

    return limit


async def bound_middleware(request: Any, handler: Any) -> Any:
    """Limit the body of a response: a client middleware of aiohttp, whose `ClientResponse.read` reads all of
    `content`."""
    response = await handler(request)
    response.content = _BoundedContent(response.content)
    return response


class _BoundedContent:
    """A StreamReader that limits `read()`."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def read(self, n: int = -1) -> bytes:
        if n >= 0:
            return bytes(await self._content.read(n))
        meter = _Meter()
        return b"".join([plain async for piece in self._content.iter_any() for plain in meter.feed(piece)])


# --- errors ---------------------------------------------------------------------------------------------------------


def transport_errors() -> tuple[type[Exception], ...]:
    """Return the errors that may come in addition to the SDK's: of the HTTP clients, the socket, and invalid JSON."""
    import aiohttp
    import httpx2

    http = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, aiohttp.ClientError)
    return (*http, OSError, ValueError, RecursionError)


def explain(error: Any, request_id_header: str) -> ModelError:
    """Return our error for an error of an SDK or its HTTP client."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return explain_connection(error)
    if status < 300:
        return BadAnswer("not what the API promises", status=status)
    headers = error.response.headers
    body = error.body if isinstance(error.body, dict) else {}
    details = part(body, "error") or body
    return error_of_status(
        status,
        error.body,
        code=text(details, "code") or text(details, "type"),
        headers=headers,
        request_id=headers.get(request_id_header),
    )


def explain_connection(error: BaseException) -> ModelError:
    """Return our error for a connection error. aiohttp, httpx, and httpx2 use similar names."""
    causes = [error]  # aiohttp's original error says more than the SDK's and httpx2's wrappers
    while isinstance(cause := causes[-1].__cause__, Exception):
        causes.append(cause)
    names = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    if "TooLong" in names:
        answer = BadAnswer("too long")
        answer.made = True
        return answer
    if names & {"ConnectionTimeoutError", "ConnectTimeout", "PoolTimeout"}:
        return not_made(ConnectionFailed("no answer to the connection"))
    if names & {"TimeoutException", "TimeoutError"}:
        return TimedOut()
    if "ClientResponseError" in names:
        return BadAnswer("not HTTP")
    is_aiohttp = any(kind.__name__ == "ClientError" for kind in type(error).__mro__)
    if isinstance(error, (ValueError, RecursionError)) and not is_aiohttp:
        return BadAnswer("not JSON")
    # The operating system's words for a failed connection, if there are any.
    words = (cause.strerror for cause in reversed(causes) if isinstance(cause, OSError))
    failed = ConnectionFailed(next(filter(None, words), ""))
    return not_made(failed) if names & {"ClientConnectorError", "ConnectError"} else failed
