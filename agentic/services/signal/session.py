"""The session with signal-cli-rest-api: one request, its answer as JSON, its failures as
agentic.services.signal.errors.

The server is the owner's own: it may be on loopback or in a private network, so the rules of agentic.net for addresses
from outside do not hold here, and nothing but its own paths is ever requested. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
from yarl import URL

from agentic.net.addresses import FetchRefused
from agentic.services.signal.errors import (
    RateLimited,
    Refused,
    SignalError,
    Unreachable,
    Unreadable,
    broken,
    without_addresses,
)
from agentic.services.signal.ids import masked

COLD_START = 60.0  # seconds that the server may take until it works after it was away
CONNECT_SECONDS = 5.0
MAX_ANSWER = 4_000_000  # bytes, of an answer that is no attachment

_CHUNK = 65_536

log = logging.getLogger(__name__)


class RestApi:
    """Owns its session: `async with RestApi(url) as api`. Every method raises one of agentic.services.signal.errors."""

    def __init__(self, url: str) -> None:
        self.base = URL(url.rstrip("/"))
        self._session: aiohttp.ClientSession | None = None
        self._challenges: tuple[str, ...] = ()
        self._lost_at: float | None = None

    async def __aenter__(self) -> Self:
        no_redirects = aiohttp.TraceConfig()
        no_redirects.on_request_redirect.append(_refuse_redirect)
        self._session = aiohttp.ClientSession(
            # One connection per request: a request on a kept connection that a restart has closed breaks in a way that
            # doesn't say whether the server got it.
            connector=aiohttp.TCPConnector(force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            trace_configs=[no_redirects],
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session. Raises Unreachable after its end: a sign may come late."""
        assert self._session is not None, "entered with `async with`"
        if self._session.closed:
            raise Unreachable("the program ends")
        return self._session

    @property
    def is_closed(self) -> bool:
        """Whether the program ends."""
        return self._session is not None and self._session.closed

    @property
    def is_starting(self) -> bool:
        """Whether the server was away a moment ago and hasn't sent a message since."""
        return self._lost_at is not None and asyncio.get_running_loop().time() < self._lost_at + COLD_START

    def note_lost(self) -> None:
        """The server went away: its refusals mean "not yet" until it sends a message, or for COLD_START seconds."""
        self._lost_at = asyncio.get_running_loop().time()

    def note_working(self) -> None:
        """The server sent a message, so it has started completely."""
        self._lost_at = None

    def url(self, *path: str) -> URL:
        """An address below the server's own, each part quoted."""
        url = self.base
        for part in path:
            url /= part
        return url

    async def status(self, url: URL, seconds: float) -> int | None:
        """The status of an answer; None for none in that time."""
        try:
            async with asyncio.timeout(seconds), self.session.get(url, allow_redirects=False) as answer:
                return answer.status
        except (aiohttp.ClientError, OSError, TimeoutError, Unreachable):
            self.note_lost()
            return None

    async def request(
        self, method: str, url: URL, body: Mapping[str, object] | None, *, seconds: float, number: str
    ) -> object:
        """The JSON of the answer; None where it has none. `number` is the account, for the log."""
        try:
            async with (
                asyncio.timeout(seconds),
                self.session.request(method, url, json=body, allow_redirects=False) as answer,
            ):
                data = await read_body(answer, MAX_ANSWER)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if not isinstance(error, TimeoutError):
                self.note_lost()
            raise broken(error) from error
        except FetchRefused as error:
            raise Unreadable(error.reason) from error
        found = _json(data)
        if 200 <= answer.status < 300:
            return found
        raise self._refusal(answer.status, found, data, number)

    def _refusal(self, status: int, found: Any, data: bytes, number: str) -> SignalError:
        said = found.get("error") if isinstance(found, dict) else data.decode("utf-8", "replace")
        words = without_addresses(str(said or ""))
        if status != 429:
            return Refused(status, words, is_json=isinstance(found, dict) and "error" in found)
        given = found.get("challenge_tokens") if isinstance(found, dict) else None
        challenges = tuple(str(one)[:100] for one in given) if isinstance(given, list) else ()
        if challenges != self._challenges or not challenges:
            self._challenges = challenges
            _report_limit(number, challenges)
        return RateLimited(words, challenges)


async def _refuse_redirect(*_: object) -> None:
    """aiohttp follows those of a WebSocket, and has no option for it: the account's number is in the address."""
    raise Unreachable("it redirects to another address: SIGNAL_API_URL must be the server's own")


def _report_limit(number: str, challenges: tuple[str, ...]) -> None:
    log.warning(
        "Signal takes no more messages of the account %s for now: solve the captcha at "
        "https://signalcaptchas.org/challenge/generate.html and submit it for the challenge token %s (docs/signal.md), "
        "or wait a day",
        masked(number),
        " or ".join(challenges) or "(none was given)",
    )


async def read_body(answer: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Raises FetchRefused for more bytes than that, counted as they arrive, whatever the server claims."""
    if (answer.content_length or 0) > max_bytes:
        raise FetchRefused("too large")
    data = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        data += chunk
        if len(data) > max_bytes:
            raise FetchRefused("too large")
    return bytes(data)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data) if data.strip() else None
    except (ValueError, RecursionError):
        return None
