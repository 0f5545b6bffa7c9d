"""A stand-in for signal-cli-rest-api in its mode json-rpc, on loopback: its WebSocket and the part of its REST surface
that a chat needs, written from the project's own description of that surface.

Tests push envelopes and read what was requested. `fail` makes the next requests of a kind go wrong.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import WSMsgType, web

ACCOUNT = "+4915100000001"
ANNA, BEN, EVE = "+4915111111111", "+4915122222222", "+4915133333333"
ANNA_ID, BEN_ID, EVE_ID = (f"{number}0000000-0000-4000-8000-000000000000" for number in (1, 2, 3))
NAMES = {ANNA: "Anna", BEN: "Ben", EVE: "Eve"}
IDS = {ANNA: ANNA_ID, BEN: BEN_ID, EVE: EVE_ID}
NOW = 1_795_000_000_000  # milliseconds

Answer = Callable[[], web.Response]


def group_id(internal: str) -> str:
    """A group's id as requests name it."""
    return "group." + base64.b64encode(internal.encode()).decode()


@dataclass(slots=True)
class Sent:
    """One message that the program sent."""

    number: str
    recipient: str
    text: str
    timestamp: int
    body: Mapping[str, Any] = field(repr=False)

    @property
    def pictures(self) -> list[bytes]:
        given = self.body.get("base64_attachments", [])
        return [base64.b64decode(text.partition("base64,")[2] or text) for text in given]

    @property
    def quotes(self) -> tuple[str, int] | None:
        """Author and time of the quoted message."""
        if "quote_timestamp" not in self.body:
            return None
        return self.body["quote_author"], self.body["quote_timestamp"]


class SignalServer:
    """`async with SignalServer() as server`; `server.url` is its address. `port` 0 is any that is free."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self.sent: list[Sent] = []
        self.typing: list[tuple[str, bool]] = []  # recipient, shown
        self.reactions: list[dict[str, Any]] = []  # with "method": POST or DELETE
        self.deleted: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.contacts: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self.about_status = 200
        self.answers_pings = True
        self.requests: list[str] = []
        self._failures: dict[str, list[Answer]] = defaultdict(list)
        self._sockets: dict[str, list[web.WebSocketResponse]] = defaultdict(list)
        self._clock = NOW + 1_000_000
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._hold: tuple[int, bool, asyncio.Event] | None = None
        self.holds = False  # a send waits as `hold_send` wants it
        self.hanging = asyncio.Event()  # a request that hangs ends when this is set
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64_000_000, middlewares=[self._noted])
        app.add_routes(
            [
                web.get("/v1/about", self._about),
                web.get("/v1/receive/{number}", self._receive),
                web.get("/v1/contacts/{number}", self._contacts),
                web.get("/v1/groups/{number}", self._groups),
                web.post("/v2/send", self._send),
                web.put("/v1/typing-indicator/{number}", self._typing),
                web.delete("/v1/typing-indicator/{number}", self._typing),
                web.post("/v1/reactions/{number}", self._react),
                web.delete("/v1/reactions/{number}", self._react),
                web.delete("/v1/remote-delete/{number}", self._delete),
                web.get("/v1/attachments/{id}", self._file),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hanging.set()
        await self.stop()
        assert self._runner is not None
        await self._runner.cleanup()

    async def start(self) -> None:
        """Listens, after a stop at the same address."""
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await self._site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        """Refuses connections from now on, as a server that is gone; what was open is cut."""
        if self._site is None:
            return
        site, self._site = self._site, None
        await site.stop()
        await self.close_sockets()

    # -- what tests do ------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Waits until something that was requested makes the condition true."""
        async with asyncio.timeout(seconds):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def connected(self, number: str = ACCOUNT) -> None:
        await self.until(lambda: self._sockets[number])

    def is_connected(self, number: str = ACCOUNT) -> bool:
        return bool(self._sockets[number])

    async def push(self, envelope: Mapping[str, Any], number: str = ACCOUNT) -> None:
        """Sends an envelope to all who receive for the account."""
        await self.push_raw(json.dumps({"envelope": envelope, "account": number}), number)

    async def push_raw(self, frame: str, number: str = ACCOUNT) -> None:
        await self.connected(number)
        for socket in self._sockets[number]:
            await socket.send_str(frame)

    async def say(self, text: str | None, who: str = ANNA, *, number: str = ACCOUNT, **more: Any) -> int:
        """A person writes; `more` is as in `data_message`. Returns the message's time."""
        timestamp = more.pop("timestamp", None) or self.tick()
        await self.push(said(who, timestamp, text, **more), number)
        return timestamp

    async def edit(self, timestamp: int, text: str, who: str = ANNA, *, number: str = ACCOUNT, **more: Any) -> int:
        """A person edits their message of that time."""
        now = self.tick()
        change = {"targetSentTimestamp": timestamp, "dataMessage": data_message(now, text, **more)}
        await self.push({**sender(who, now), "editMessage": change}, number)
        return now

    async def close_sockets(self, number: str | None = None) -> None:
        """Closes the connections of an account, or all."""
        for one in [number] if number is not None else [*self._sockets]:
            for socket in [*self._sockets[one]]:
                await socket.close()

    @property
    def is_stopped(self) -> bool:
        return self._site is None

    def cut(self) -> None:
        """Cuts all open connections, as a server that is killed does."""
        assert self._runner is not None
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    def fail(self, kind: str, *answers: Answer) -> None:
        """The next requests of a kind get these answers: send, react, typing, delete, file, contacts, groups, about."""
        self._failures[kind] += answers

    def hold_send(self, number: int, *, taken: bool, until: asyncio.Event) -> None:
        """The send with this number, from 0, has no answer until then; `taken`: its message is sent all the same."""
        self._hold = number, taken, until

    def connections(self, number: str = ACCOUNT) -> int:
        return len(self._sockets[number])

    def begin_at(self, timestamp: int) -> None:
        """Times from now on are later than this one, in milliseconds."""
        self._clock = timestamp

    def tick(self) -> int:
        """A new time, later than every one before."""
        self._clock += 1000
        return self._clock

    # -- what the program asks for ------------------------------------------------------------------------------------

    @web.middleware
    async def _noted(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        try:
            return await handler(request)  # type: ignore[no-any-return]
        finally:
            self._changed.set()

    async def _failure(self, kind: str) -> web.Response | None:
        if not self._failures[kind]:
            return None
        answer = self._failures[kind].pop(0)
        if answer is hang:
            await self.hanging.wait()
        return answer()

    async def _about(self, request: web.Request) -> web.Response:
        if (failure := await self._failure("about")) is not None:
            return failure
        body = {"versions": ["v1", "v2"], "mode": "json-rpc"} if self.about_status == 200 else {}
        return web.json_response(body, status=self.about_status)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        if (failure := await self._failure("receive")) is not None:
            return failure
        socket = web.WebSocketResponse(autoping=self.answers_pings)
        await socket.prepare(request)
        number = request.match_info["number"]
        self._sockets[number].append(socket)
        self._changed.set()
        try:
            async for message in socket:
                if message.type is WSMsgType.ERROR:
                    break
        finally:
            self._sockets[number].remove(socket)
        return socket

    async def _contacts(self, request: web.Request) -> web.Response:
        return await self._failure("contacts") or web.json_response(self.contacts)

    async def _groups(self, request: web.Request) -> web.Response:
        return await self._failure("groups") or web.json_response(self.groups)

    async def _send(self, request: web.Request) -> web.Response:
        body = await request.json()
        if (failure := await self._failure("send")) is not None:
            return failure
        missing = [name for name in ("number", "recipients", "message") if name not in body]
        if missing or len(body["recipients"]) != 1 or body.get("text_mode") not in (None, "normal", "styled"):
            return refused(f"cannot process request: {missing}")
        if not body["message"] and not body.get("base64_attachments"):
            return refused("no message and no attachment")
        number, taken, until = self._hold or (-1, True, self.hanging)
        held = number == len(self.sent)
        if held:
            self._hold = None
        if held and not taken:
            await self._held(until)
            return refused("too late", 500)
        timestamp = self.tick()
        self.sent.append(Sent(body["number"], body["recipients"][0], body["message"], timestamp, body))
        if held:
            await self._held(until)
        return web.json_response({"timestamp": str(timestamp)}, status=201)

    async def _held(self, until: asyncio.Event) -> None:
        self.holds = True
        self._changed.set()
        await until.wait()

    async def _typing(self, request: web.Request) -> web.Response:
        if (failure := await self._failure("typing")) is not None:
            return failure
        self.typing.append(((await request.json())["recipient"], request.method == "PUT"))
        return web.Response(status=204)

    async def _react(self, request: web.Request) -> web.Response:
        if (failure := await self._failure("react")) is not None:
            return failure
        self.reactions.append({**await request.json(), "method": request.method})
        return web.Response(status=204)

    async def _delete(self, request: web.Request) -> web.Response:
        if (failure := await self._failure("delete")) is not None:
            return failure
        body = await request.json()
        self.deleted.append(body)
        return web.json_response({"timestamp": str(self.tick())}, status=201)

    async def _file(self, request: web.Request) -> web.Response:
        if (failure := await self._failure("file")) is not None:
            return failure
        data = self.files.get(request.match_info["id"])
        return web.Response(body=data) if data is not None else refused("no attachment with that name found", 404)


# -- envelopes --------------------------------------------------------------------------------------------------------


def sender(who: str, timestamp: int, *, hides_number: bool = False) -> dict[str, Any]:
    """The head of a person's envelope. Who hides their number is known by account id alone."""
    account = IDS.get(who)
    number = None if hides_number else who
    return {
        "source": number or account,
        "sourceNumber": number,
        "sourceUuid": account,
        "sourceName": NAMES.get(who, ""),
        "sourceDevice": 1,
        "timestamp": timestamp,
        "serverReceivedTimestamp": timestamp + 20,
        "serverDeliveredTimestamp": timestamp + 30,
    }


def data_message(timestamp: int, text: str | None, *, group: str | None = None, **more: Any) -> dict[str, Any]:
    found = {"timestamp": timestamp, "message": text, "expiresInSeconds": 0, "viewOnce": False, **more}
    if group is not None:
        found["groupInfo"] = {"groupId": group, "groupName": "The group", "revision": 3, "type": "DELIVER"}
    return found


def said(who: str, timestamp: int, text: str | None, *, hides_number: bool = False, **more: Any) -> dict[str, Any]:
    """An envelope with a message."""
    return {
        **sender(who, timestamp, hides_number=hides_number),
        "dataMessage": data_message(timestamp, text, **more),
    }


def quoting(author: str, timestamp: int, text: str = "") -> dict[str, Any]:
    account = IDS.get(author)
    return {"id": timestamp, "author": author, "authorNumber": author, "authorUuid": account, "text": text}


def reacting(emoji: str, author: str, timestamp: int, *, remove: bool = False) -> dict[str, Any]:
    return {
        "emoji": emoji,
        "targetAuthor": author,
        "targetAuthorNumber": author,
        "targetAuthorUuid": IDS.get(author),
        "targetSentTimestamp": timestamp,
        "isRemove": remove,
    }


# -- answers that say no ----------------------------------------------------------------------------------------------


def refused(text: str, status: int = 400) -> web.Response:
    return web.json_response({"error": text}, status=status)


def connection_broke() -> web.Response:
    return refused("Failed to send message: SocketException: Broken pipe (SocketException)")


def unexpected() -> web.Response:
    return refused(f"Failed to send message to {ANNA}: UnexpectedErrorException")


def captcha_wanted() -> web.Response:
    body = {
        "error": f"CAPTCHA proof required for sending to {ANNA}",
        "challenge_tokens": ["token-1"],
        "account": ACCOUNT,
    }
    return web.json_response(body, status=429)


def hang() -> web.Response:
    """Comes only when the server ends."""
    return refused("too late", 500)
