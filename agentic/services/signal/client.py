"""Requests to signal-cli-rest-api in its mode json-rpc (bbernhard/signal-cli-rest-api, src/api/api.go).

The server may restart at any time. A request that it never got, or refused while it was starting, is made again until
it works. So is a message that the server refuses for a reason that isn't final: its own connection to Signal, or its
signal-cli, may be gone for a minute. A message whose request broke after it was sent may be on its way, so it is never
sent again; a reaction or a deletion is, because a second one changes nothing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from yarl import URL

from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.services.signal.errors import NotConnected, Refused, SignalError, Unreachable, Unreadable, broken
from agentic.services.signal.models import ATTACHMENT, ListedContact, ListedGroup, read_list
from agentic.services.signal.session import COLD_START, RestApi, read_body

RESTART_SECONDS = 120.0  # for which a message waits for a server that is away; a turn's deadline may come first
ABOUT_PAUSE = 1.0
SEND_TIMEOUT = 60.0  # a picture is uploaded, encrypted for each device, before there is an answer
SIGN_TIMEOUT = 10.0  # for everything else
RETRIES = 3
FIRST_PAUSE = 0.5  # seconds before a request is made again; doubled each time
LONGEST_PAUSE = 2.0
HEARTBEAT = 30.0  # seconds between pings on the WebSocket; a connection without a pong is closed
MAX_FRAME = 4_000_000  # bytes
UP = frozenset({200, 204, 404})  # an older server knows no /v1/about, and is up all the same
NOT_SENT = 0  # the status of a send that was no longer wanted

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MessageRef:
    """A message as requests name it: by its author's address and its time in milliseconds."""

    author: str
    timestamp: int


@dataclass(frozen=True, slots=True)
class Quoted:
    """The message that is answered, with the text that is shown of it."""

    message: MessageRef
    text: str


class SignalClient:
    """Owns its session: `async with SignalClient(url) as client`. Every method raises errors of rest_api.errors.

    `number` is the phone number of an account of ours, `recipient` a phone number, an account id or a group's id.
    """

    def __init__(
        self,
        url: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        send_timeout: float = SEND_TIMEOUT,
        sign_timeout: float = SIGN_TIMEOUT,
        heartbeat: float = HEARTBEAT,
        patience: float = RESTART_SECONDS,
    ) -> None:
        self._api, self._sleep, self._patience = RestApi(url), sleep, patience
        self._send_timeout, self._sign_timeout, self._heartbeat = send_timeout, sign_timeout, heartbeat

    async def __aenter__(self) -> Self:
        await self._api.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._api.__aexit__(kind, error, trace)

    # -- the server ---------------------------------------------------------------------------------------------------

    async def about(self) -> bool:
        """Whether the server answers now."""
        return await self._api.status(self._api.url("v1", "about"), self._sign_timeout) in UP

    async def identify(self, number: str) -> str | None:
        """The server's MODE, such as json-rpc, empty if it is too old to say; None if it is another web server.

        An old one has no /v1/about, but lists an account's groups, or refuses in the form of its API. Raises
        Unreachable."""
        url = self._api.url("v1", "about")
        try:
            about = await self._api.request("GET", url, None, seconds=self._sign_timeout, number="")
            if not isinstance(about, dict) or {"versions", "mode", "build"}.isdisjoint(about):
                return None
            return str(about.get("mode") or "")
        except Refused as error:
            if error.status != 404:
                return None
        except Unreadable:
            return None
        try:
            return "" if isinstance(await self._sign("GET", "groups", number), list) else None
        except Refused as error:
            return "" if error.status == 400 and error.is_json else None

    async def ready(self, seconds: float = COLD_START) -> None:
        """Waits until the server answers. Raises Unreachable after that time."""
        try:
            async with asyncio.timeout(seconds):
                tries = 0
                while not await self.about():
                    if (tries := tries + 1) == 1:
                        log.info("Signal: the server at SIGNAL_API_URL does not answer yet, it has %.0f s", seconds)
                    await self._sleep(ABOUT_PAUSE)
        except TimeoutError:
            raise Unreachable(f"it did not answer within {seconds:.0f} s") from None

    async def contacts(self, number: str) -> list[ListedContact]:
        """The people whom the account knows."""
        return read_list(await self._sign("GET", "contacts", number), ListedContact)

    async def groups(self, number: str) -> list[ListedGroup]:
        """The groups in which the account is."""
        return read_list(await self._sign("GET", "groups", number), ListedGroup)

    async def receive(self, number: str) -> aiohttp.ClientWebSocketResponse:
        """The WebSocket on which the account's envelopes come, one a frame. The caller closes it.

        Raises Refused where the server answers, but with no WebSocket: so in another mode than json-rpc.
        """
        url = self._api.url("v1", "receive", number)
        try:
            async with asyncio.timeout(self._sign_timeout):
                return await self._api.session.ws_connect(url, heartbeat=self._heartbeat, max_msg_size=MAX_FRAME)
        except aiohttp.WSServerHandshakeError as error:
            raise Refused(error.status, "") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._api.note_lost()
            raise broken(error) from error

    def note_lost(self) -> None:
        """The connection for envelopes broke, so the server may be restarting."""
        self._api.note_lost()

    # -- messages -----------------------------------------------------------------------------------------------------

    async def send(
        self,
        number: str,
        recipient: str,
        text: str,
        *,
        pictures: Sequence[Picture] = (),
        quoted: Quoted | None = None,
        may_send: Callable[[], bool] = lambda: True,
    ) -> int:
        """Sends a message of styled text, and returns its time in milliseconds. `may_send` is asked before each try; if
        it says no, Refused has the status NOT_SENT. Raises NotConnected if the server never got the message."""
        body: dict[str, object] = {
            "number": number,
            "recipients": [recipient],
            "message": text,
            "text_mode": "styled",
        }
        if pictures:
            body["base64_attachments"] = [_as_data(picture) for picture in pictures]
        if quoted is not None:
            body["quote_timestamp"] = quoted.message.timestamp
            body["quote_author"] = quoted.message.author
            body["quote_message"] = quoted.text
        url = self._api.url("v2", "send")

        async def post() -> object:
            try:
                return await self._api.request("POST", url, body, seconds=self._send_timeout, number=number)
            except Refused as error:
                if error.is_final or error.is_passing:
                    raise
                self._api.note_lost()  # signal-cli may be restarting behind the REST API
                if error.is_uncertain:
                    raise
                raise NotConnected(str(error)) from error

        found = await self._until_done(post, "a message", repeatable=False, is_wanted=may_send)
        self._api.note_working()
        return _timestamp(found)

    async def _until_done(
        self,
        attempt: Callable[[], Awaitable[T]],
        what: str,
        *,
        repeatable: bool,
        is_wanted: Callable[[], bool] = lambda: True,
        seconds: float = RESTART_SECONDS,
    ) -> T:
        """Make a request, and make it again for up to `seconds` while the server restarts, or RETRIES times if its own
        connection to Signal broke. One that may have been carried out is made again only if it is `repeatable`."""
        clock = asyncio.get_running_loop().time
        end, pause, tries = clock() + min(seconds, self._patience), FIRST_PAUSE, 0
        while True:
            if not is_wanted():
                raise Refused(NOT_SENT, "not wanted any more")
            if self._api.is_closed:
                raise Unreachable("the program ends")
            is_starting, error = self._api.is_starting, SignalError("it has not started yet")
            try:
                if not is_starting or await self.about():
                    return await attempt()
            except Unreachable as unreachable:
                if not (isinstance(unreachable, NotConnected) or repeatable):
                    raise
                error = unreachable
            except Refused as refused:
                tries += refused.is_passing
                if tries > RETRIES or not (refused.is_passing or (is_starting and refused.is_not_yet)):
                    raise
                error = refused
            if clock() + pause > end:
                raise error if isinstance(error, Unreachable | Refused) else NotConnected(str(error))
            log.info("Signal: %s was not sent, it is sent again in %.1f s: %s", what, pause, error)
            await self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def remote_delete(self, number: str, recipient: str, timestamp: int) -> None:
        """Deletes a message of the account for everybody."""
        body = {"recipient": recipient, "timestamp": timestamp}
        await self._patient_sign("DELETE", "remote-delete", number, body)

    # -- signs --------------------------------------------------------------------------------------------------------

    async def typing(self, number: str, recipient: str, *, shown: bool) -> None:
        """Shows that the account is typing, or no longer. Signal's apps hide it after 15 s by themselves."""
        await self._sign("PUT" if shown else "DELETE", "typing-indicator", number, {"recipient": recipient})

    async def react(
        self, number: str, recipient: str, message: MessageRef, emoji: str, *, remove: bool = False
    ) -> None:
        """Gives a reaction to a message, in place of the account's former one, or takes it back."""
        body = {
            "recipient": recipient,
            "reaction": emoji,
            "target_author": message.author,
            "timestamp": message.timestamp,
        }
        await self._patient_sign("DELETE" if remove else "POST", "reactions", number, body)

    async def _patient_sign(self, method: str, path: str, number: str, body: Mapping[str, object]) -> None:
        """Make a request that may be made twice, and wait for a server that restarts."""
        await self._until_done(
            lambda: self._sign(method, path, number, body), f"a request of {path}", repeatable=True, seconds=COLD_START
        )

    async def _sign(self, method: str, path: str, number: str, body: Mapping[str, object] | None = None) -> object:
        url = self._api.url("v1", path, number)
        return await self._api.request(method, url, body, seconds=self._sign_timeout, number=number)

    # -- files --------------------------------------------------------------------------------------------------------

    def file_url(self, attachment: str) -> str:
        """The address of an attachment. Only `file` reads it: it leads to the owner's own machine."""
        return str(self._api.url("v1", "attachments", attachment))

    async def file(self, url: str, max_bytes: int, *, seconds: float | None = None) -> bytes:
        """The attachment at an address of `file_url`. Raises FetchRefused: for every other address, for a file that is
        gone or larger than `max_bytes`, and where the server does not answer."""
        name = url.rpartition("/")[2]
        if not ATTACHMENT.fullmatch(name) or url != self.file_url(name):
            raise FetchRefused("not an attachment of Signal's")

        async def read() -> bytes:
            try:
                async with (
                    asyncio.timeout(seconds or self._sign_timeout),
                    self._api.session.get(URL(url), allow_redirects=False) as answer,
                ):
                    if answer.status != 200:
                        raise Refused(answer.status, "")
                    return await read_body(answer, max_bytes)
            except TimeoutError:
                raise FetchRefused("it took too long") from None
            except (aiohttp.ClientError, OSError) as error:
                self._api.note_lost()
                raise broken(error) from error

        try:
            patience = COLD_START if seconds is None else seconds
            return await self._until_done(read, "a request for a file", repeatable=True, seconds=patience)
        except Refused as error:
            raise FetchRefused(f"HTTP {error.status}") from error
        except Unreachable as error:
            raise FetchRefused("no connection") from error


def _timestamp(found: object) -> int:
    """The time of a message that was sent; the server writes it as a text."""
    given = found.get("timestamp") if isinstance(found, dict) else None
    if isinstance(given, (str, int)) and not isinstance(given, bool) and str(given).isdecimal():
        return int(given)
    raise Unreadable("an answer without the message's time")


def _as_data(picture: Picture) -> str:
    suffix = picture.media_type.rpartition("/")[2]
    data = base64.b64encode(picture.data).decode()
    return f"data:{picture.media_type};filename=picture.{suffix};base64,{data}"
