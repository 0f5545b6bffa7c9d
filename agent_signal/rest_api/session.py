"""The session with signal-cli-rest-api: one request, its answer as JSON, its failures as agent_signal.rest_api.errors.

The server is the owner's own: it may be on loopback or in a private network, so the rules of agent_net for addresses
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

from agent_net.addresses import FetchRefused
from agent_signal.ids import masked
from agent_signal.rest_api.errors import (
    RateLimited,
    Refused,
    SignalError,
    Unreachable,
    Unreadable,
    broken,
    without_addresses,
)

MAX_ANSWER = 4_000_000  # bytes, of an answer that is no attachment

_CHUNK = 65_536

log = logging.getLogger(__name__)


class RestApi:
    """Owns its session: `async with RestApi(url) as api`. Every method raises one of agent_signal.rest_api.errors."""

    def __init__(self, url: str) -> None:
        self.base = URL(url.rstrip("/"))
        self._session: aiohttp.ClientSession | None = None
        self._challenges: tuple[str, ...] = ()

    async def __aenter__(self) -> Self:
        no_redirects = aiohttp.TraceConfig()
        no_redirects.on_request_redirect.append(_refuse_redirect)
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
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
            return Refused(status, words)
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
