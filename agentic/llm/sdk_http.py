"""HTTP by the OpenAI and Anthropic SDKs, which the same tool (Stainless) generates and which both use httpx2.

Errors are classified by their attributes, so this module imports neither SDK.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from agentic.llm.errors import BadAnswer, ConnectionFailed, ModelError, TimedOut, not_made
from agentic.llm.http_errors import error_of_status
from agentic.llm.lenient_json import part, text
from agentic.llm.model import CONNECT_SECONDS, KEEP_ALIVE_SECONDS
from agentic.llm.size_limit import ENCODINGS, TooLong, bound_response

if TYPE_CHECKING:
    import httpx2


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
