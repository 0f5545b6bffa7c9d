"""Requests to signal-cli-rest-api in its mode json-rpc (bbernhard/signal-cli-rest-api, src/api/api.go), and its files.

SignalError       the base class; no error message contains a whole phone number
  Unreachable     no connection, or no answer in time; the request may have been carried out
    NotConnected  nothing was sent: the connection was refused, or the server itself isn't connected
  Unreadable      the answer has an unexpected shape
  Refused         an error status; 429 if Signal requires a captcha

The server is the owner's own and may be on loopback or in a private network, so agentic.net's rules for foreign
addresses don't apply. Only the server's own paths are requested, and redirects are not followed.

The server may restart at any time. A request that never reached it, or that it refused while starting, is repeated
until it succeeds. So is a message that it refuses for a passing reason: its connection to Signal, or its signal-cli,
may be gone for a minute. A message whose request broke after it was sent may be on its way, so it is never sent again.
A reaction or a deletion is repeated, because doing it twice changes nothing.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

import aiohttp
from cachetools import LRUCache
from yarl import URL

from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.net.fetch import MAX_BYTES, read_body
from agentic.net.images import as_picture
from agentic.services.signal.envelopes import ATTACHMENT, ListedContact, ListedGroup, mask_address, read_list

CONNECT_SECONDS = 5.0
COLD_START = 60.0  # seconds that the server may need to work after it starts
RESTART_SECONDS = 120.0  # that a message waits for an unavailable server; a turn's deadline may come first
ABOUT_PAUSE = 1.0
SEND_TIMEOUT = 60.0  # a picture is uploaded, encrypted for each device, before the server answers
QUICK_TIMEOUT = 10.0  # of all other requests
RETRIES = 3
FIRST_PAUSE = 0.5  # seconds before a request is repeated; doubled each time
MAX_PAUSE = 2.0
HEARTBEAT = 30.0  # seconds between pings on the WebSocket; a connection without a pong is closed

MAX_FRAME = 4_000_000  # bytes
MAX_ANSWER = 4_000_000  # bytes of an answer other than an attachment
MAX_SAID = 300  # characters of the server's own words
CACHE_BYTES = 24_000_000  # of posted pictures
UP = frozenset({200, 204, 404})  # 404: an older server that is up but has no /v1/about
NOT_SENT = 0  # the status of a message that was no longer wanted

_OWN = "signal:posted/"
_ADDRESS = re.compile(r"\+\d{6,15}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORTH_ANOTHER_TRY = ("SocketException", "UnexpectedErrorException")
_FINAL = re.compile(
    r"unregistered|not registered|untrusted|invalid|not a valid|not a (?:group )?member|not found|does not exist"
    r"|no message|attachment|captcha|proof required|rate limit",
    re.IGNORECASE,
)

T = TypeVar("T")

log = logging.getLogger(__name__)


class SignalError(Exception):
    """A request to Signal's server failed."""


class Unreachable(SignalError):
    """No connection, or no answer in time."""


class NotConnected(Unreachable):
    """Nothing was sent: the connection was refused, or the server can't carry anything out."""


class Unreadable(SignalError):
    """The answer has an unexpected shape."""


class Refused(SignalError):
    """An error status. `said` are the server's words without addresses; `is_json`: they had the form of its API."""

    def __init__(self, status: int, said: str, *, is_json: bool = False) -> None:
        self.status, self.said, self.is_json = status, said, is_json
        super().__init__(f"HTTP {status}: {said}" if said else f"HTTP {status}")

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed a moment later: signal-cli's connection to Signal broke."""
        return self.status == 400 and any(sign in self.said for sign in _WORTH_ANOTHER_TRY)

    @property
    def is_final(self) -> bool:
        """Whether another try would get the same answer, because the problem is the message or its recipient."""
        if self.status == 400:
            return _FINAL.search(self.said) is not None and not self.is_passing
        return self.status < 500 and self.status != 404  # a server that answers 404 can't send messages yet

    @property
    def is_uncertain(self) -> bool:
        """Whether the message may have been sent anyway: something failed in the server or behind a proxy."""
        return self.status >= 500 and self.status != 503


@dataclass(frozen=True, slots=True)
class MessageRef:
    """A message as requests name it: its author's address and its time in milliseconds."""

    author: str
    timestamp: int


@dataclass(frozen=True, slots=True)
class Quoted:
    """The message that is replied to, and the text to show of it."""

    message: MessageRef
    text: str


class SignalClient:
    """Owns its session: `async with SignalClient(url) as client`. Every method may raise a SignalError.

    `number` is the phone number of one of our accounts; `recipient` is a phone number, an account id, or a group id.
    """

    def __init__(
        self,
        url: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        send_timeout: float = SEND_TIMEOUT,
        quick_timeout: float = QUICK_TIMEOUT,
        heartbeat: float = HEARTBEAT,
        patience: float = RESTART_SECONDS,
    ) -> None:
        self._base, self._sleep, self._patience = URL(url.rstrip("/")), sleep, patience
        self._send_timeout, self._quick_timeout, self._heartbeat = send_timeout, quick_timeout, heartbeat
        self._session: aiohttp.ClientSession | None = None
        self._challenges: tuple[str, ...] = ()
        self._lost_at: float | None = None

    async def __aenter__(self) -> Self:
        no_redirects = aiohttp.TraceConfig()
        no_redirects.on_request_redirect.append(_refuse_redirect)
        self._session = aiohttp.ClientSession(
            # One connection per request: if a restart closed a kept connection, the request's error wouldn't say
            # whether the server got it.
            connector=aiohttp.TCPConnector(force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            trace_configs=[no_redirects],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def about(self) -> bool:
        url = self._url("v1", "about")
        try:
            async with asyncio.timeout(self._quick_timeout), self._open.get(url, allow_redirects=False) as answer:
                return answer.status in UP
        except (aiohttp.ClientError, OSError, TimeoutError, Unreachable):
            self.note_lost()
            return False

    async def identify(self, number: str) -> str | None:
        """Return the server's MODE, such as json-rpc, "" if it is too old to tell, or None for another web server.

        An old server has no /v1/about, but lists an account's groups or refuses in the form of its API. Raises
        Unreachable.
        """
        try:
            about = await self._request("GET", self._url("v1", "about"), None, seconds=self._quick_timeout, number="")
            if not isinstance(about, dict) or {"versions", "mode", "build"}.isdisjoint(about):
                return None
            return str(about.get("mode") or "")
        except Refused as error:
            if error.status != 404:
                return None
        except Unreadable:
            return None
        try:
            return "" if isinstance(await self._call("GET", "groups", number), list) else None
        except Refused as error:
            return "" if error.status == 400 and error.is_json else None

    async def ready(self, seconds: float = COLD_START) -> None:
        """Wait until the server answers. Raises Unreachable after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                tries = 0
                while not await self.about():
                    if (tries := tries + 1) == 1:
                        log.info("Signal: waiting up to %.0f s for the server at SIGNAL_API_URL", seconds)
                    await self._sleep(ABOUT_PAUSE)
        except TimeoutError:
            raise Unreachable(f"it did not answer within {seconds:.0f} s") from None

    async def contacts(self, number: str) -> list[ListedContact]:
        return read_list(await self._call("GET", "contacts", number), ListedContact)

    async def groups(self, number: str) -> list[ListedGroup]:
        return read_list(await self._call("GET", "groups", number), ListedGroup)

    async def receive(self, number: str) -> aiohttp.ClientWebSocketResponse:
        """Open the WebSocket that delivers the account's envelopes, one per frame. The caller closes it.

        Raises Refused if the server answers without a WebSocket, as it does if its mode isn't json-rpc.
        """
        try:
            async with asyncio.timeout(self._quick_timeout):
                return await self._open.ws_connect(
                    self._url("v1", "receive", number), heartbeat=self._heartbeat, max_msg_size=MAX_FRAME
                )
        except aiohttp.WSServerHandshakeError as error:
            raise Refused(error.status, "") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.note_lost()
            raise broken_connection(error) from error

    def note_lost(self) -> None:
        """Note that the server went down: until it sends a message, or for COLD_START, its refusals mean "not yet"."""
        self._lost_at = asyncio.get_running_loop().time()

    async def send(
        self,
        number: str,
        recipient: str,
        text: str,
        *,
        pictures: Sequence[Picture] = (),
        file: tuple[str, str] | None = None,
        quoted: Quoted | None = None,
        may_send: Callable[[], bool] = lambda: True,
    ) -> int:
        """Send a message of styled text and return its time in milliseconds. `file` is a JSON file's name and text.

        `may_send` is called before each try; if it returns False, Refused with the status NOT_SENT is raised. Raises
        NotConnected if the server never got the message.
        """
        body: dict[str, object] = {"number": number, "recipients": [recipient], "message": text, "text_mode": "styled"}
        files = [(picture.media_type, picture_name(picture), picture.data) for picture in pictures]
        files += [("application/json", file[0], file[1].encode())] if file is not None else []
        if files:
            body["base64_attachments"] = [
                f"data:{kind};filename={name};base64,{base64.b64encode(data).decode()}" for kind, name, data in files
            ]
        if quoted is not None:
            body |= {"quote_timestamp": quoted.message.timestamp, "quote_author": quoted.message.author}
            body["quote_message"] = quoted.text
        url = self._url("v2", "send")

        async def post() -> object:
            try:
                return await self._request("POST", url, body, seconds=self._send_timeout, number=number)
            except Refused as error:
                if error.is_final or error.is_passing:
                    raise
                self.note_lost()  # signal-cli may be restarting behind the REST API
                if error.is_uncertain:
                    raise
                raise NotConnected(str(error)) from error

        found = await self._until_done(post, "a message", repeatable=False, is_wanted=may_send)
        self._lost_at = None  # it has started completely
        timestamp = found.get("timestamp") if isinstance(found, dict) else None  # written as a text
        if isinstance(timestamp, (str, int)) and not isinstance(timestamp, bool) and str(timestamp).isdecimal():
            return int(timestamp)
        raise Unreadable("an answer without the message's time")

    async def remote_delete(self, number: str, recipient: str, timestamp: int) -> None:
        body = {"recipient": recipient, "timestamp": timestamp}
        await self._call_until_done("DELETE", "remote-delete", number, body)

    async def typing(self, number: str, recipient: str, *, shown: bool) -> None:
        """Show or hide that the account is typing. Signal's apps hide it after 15 s on their own."""
        await self._call("PUT" if shown else "DELETE", "typing-indicator", number, {"recipient": recipient})

    async def react(self, number: str, recipient: str, message: MessageRef, emoji: str) -> None:
        """React to a message; this replaces the account's earlier reaction."""
        target = {"target_author": message.author, "timestamp": message.timestamp}
        body = {"recipient": recipient, "reaction": emoji, **target}
        await self._call_until_done("POST", "reactions", number, body)

    def file_url(self, attachment: str) -> str:
        """Return the URL of an attachment. Only `file` may read it, because it points to the owner's own machine."""
        return str(self._url("v1", "attachments", attachment))

    async def file(self, url: str, max_bytes: int, *, seconds: float | None = None) -> bytes:
        """Read an attachment by its `file_url`. Raises FetchRefused for any other URL, for a file that's gone or larger
        than `max_bytes`, and if the server doesn't answer."""
        name = url.rpartition("/")[2]
        if not ATTACHMENT.fullmatch(name) or url != self.file_url(name):
            raise FetchRefused("not an attachment of Signal's")

        async def read() -> bytes:
            try:
                async with (
                    asyncio.timeout(seconds or self._quick_timeout),
                    self._open.get(URL(url), allow_redirects=False) as answer,
                ):
                    if answer.status != 200:
                        raise Refused(answer.status, "")
                    return await read_body(answer, max_bytes)
            except TimeoutError:
                raise FetchRefused("it took too long") from None
            except (aiohttp.ClientError, OSError) as error:
                self.note_lost()
                raise broken_connection(error) from error

        try:
            patience = COLD_START if seconds is None else seconds
            return await self._until_done(read, "a request for a file", repeatable=True, seconds=patience)
        except Refused as error:
            raise FetchRefused(f"HTTP {error.status}") from error
        except Unreachable as error:
            raise FetchRefused("no connection") from error

    async def _until_done(
        self,
        attempt: Callable[[], Awaitable[T]],
        what: str,
        *,
        repeatable: bool,
        is_wanted: Callable[[], bool] = lambda: True,
        seconds: float = RESTART_SECONDS,
    ) -> T:
        """Make a request; repeat it for up to `seconds` while the server restarts, or RETRIES times if its own
        connection to Signal broke. A request that may have been carried out is repeated only if it is `repeatable`."""
        clock = asyncio.get_running_loop().time
        end, pause, tries = clock() + min(seconds, self._patience), FIRST_PAUSE, 0
        while True:
            if not is_wanted():
                raise Refused(NOT_SENT, "no longer wanted")
            if self._session is not None and self._session.closed:
                raise Unreachable("the program ends")
            error: SignalError = SignalError("it has not started yet")
            # the server was down a moment ago and hasn't sent a message since
            is_starting = self._lost_at is not None and clock() < self._lost_at + COLD_START
            try:
                if not is_starting or await self.about():
                    return await attempt()
            except Unreachable as unreachable:
                if not (isinstance(unreachable, NotConnected) or repeatable):
                    raise
                error = unreachable
            except Refused as refused:
                tries += refused.is_passing
                is_not_yet = is_starting and (refused.status in (400, 404) or refused.status >= 500)
                if tries > RETRIES or not (refused.is_passing or is_not_yet):
                    raise
                error = refused
            if clock() + pause > end:
                raise error if isinstance(error, Unreachable | Refused) else NotConnected(str(error))
            log.info("Signal: sending %s failed: %s; trying again in %.1f s", what, error, pause)
            await self._sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)

    async def _call_until_done(self, method: str, path: str, number: str, body: Mapping[str, object]) -> None:
        """Make a request that may be repeated, waiting while the server restarts."""
        call = partial(self._call, method, path, number, body)
        await self._until_done(call, f"a request of {path}", repeatable=True, seconds=COLD_START)

    async def _call(self, method: str, path: str, number: str, body: Mapping[str, object] | None = None) -> object:
        url = self._url("v1", path, number)
        return await self._request(method, url, body, seconds=self._quick_timeout, number=number)

    async def _request(
        self, method: str, url: URL, body: Mapping[str, object] | None, *, seconds: float, number: str
    ) -> object:
        """Return the answer's JSON, or None if it has none. `number` is the account, for the log."""
        try:
            async with (
                asyncio.timeout(seconds),
                self._open.request(method, url, json=body, allow_redirects=False) as answer,
            ):
                data = await read_body(answer, MAX_ANSWER)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if not isinstance(error, TimeoutError):
                self.note_lost()
            raise broken_connection(error) from error
        except FetchRefused as error:
            raise Unreadable(error.reason) from error
        found: Any = None
        with suppress(ValueError, RecursionError):  # or it has no JSON
            found = json.loads(data)
        if 200 <= answer.status < 300:
            return found
        is_json = isinstance(found, dict)
        said = found.get("error") if is_json else data.decode("utf-8", "replace")
        words = without_addresses(str(said or ""))
        if answer.status != 429:
            raise Refused(answer.status, words, is_json=is_json and "error" in found)
        given = found.get("challenge_tokens") if is_json else None
        challenges = tuple(str(one)[:100] for one in given) if isinstance(given, list) else ()
        if challenges != self._challenges or not challenges:
            self._challenges = challenges
            log.warning(
                "Signal accepts no more messages from the account %s for now: solve the captcha at "
                "https://signalcaptchas.org/challenge/generate.html and submit it for the challenge token %s "
                "(docs/signal.md), or wait a day",
                mask_address(number),
                " or ".join(challenges) or "(no token was given)",
            )
        raise Refused(429, words)

    @property
    def _open(self) -> aiohttp.ClientSession:
        """The session. Raises Unreachable once it is closed: a reaction may come late."""
        assert self._session is not None, "entered with `async with`"
        if self._session.closed:
            raise Unreachable("the program ends")
        return self._session

    def _url(self, *path: str) -> URL:
        return self._base.joinpath(*path)


async def _refuse_redirect(*_: object) -> None:
    """Raise Unreachable: aiohttp can't be told not to follow a WebSocket's redirect, and the URL contains the account's
    number."""
    raise Unreachable("it redirects to another address: SIGNAL_API_URL must be the server's own")


def without_addresses(text: str) -> str:
    """Return the server's words on one line, with all but two characters of phone numbers and account ids removed."""
    return _ADDRESS.sub(lambda found: mask_address(found[0]), " ".join(text.split()))[:MAX_SAID]


def broken_connection(error: Exception) -> Unreachable:
    """Return the error to raise for a connection that broke; its text has the kind of `error` for the log."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotConnected(type(error).__name__)
    return Unreachable("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


def picture_name(picture: Picture) -> str:
    return f"picture.{picture.media_type.rpartition('/')[2]}"


class SignalFetcher:
    """A Fetcher (agentic.chat.attachments) that reads only the server's attachments; a picture's type is detected from
    its bytes. The server has no URL for sent files, so this keeps posted pictures for a while."""

    def __init__(self, client: SignalClient) -> None:
        self._client = client
        self._posted: LRUCache[str, bytes] = LRUCache(CACHE_BYTES, len)

    def keep(self, picture: Picture) -> str:
        """Keep a posted picture and return a URL by which `fetch` finds it."""
        url = _OWN + hashlib.sha256(picture.data).hexdigest()[:32]
        with suppress(ValueError):  # larger than the whole cache
            self._posted[url] = picture.data
        return url

    async def fetch(self, url: str) -> Picture:
        return as_picture(await self.fetch_bytes(url, MAX_BYTES))

    async def fetch_bytes(self, url: str, max_bytes: int) -> bytes:
        """Return the file at this URL. Raises FetchRefused if it can't be read or is larger than `max_bytes`."""
        if not url.startswith(_OWN):
            return await self._client.file(url, max_bytes)
        if (kept := self._posted.get(url)) is None:
            raise FetchRefused("no longer kept")
        return kept
