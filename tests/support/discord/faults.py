"""Faults of the stand-in on demand: slow answers, errors, cut connections, a gateway that repeats itself."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from agentic.local.discord.gateway import PRESENCE, Gateway, GatewaySocket, Session
from agentic.local.discord.world import Event, World


@dataclass(slots=True)
class RequestInfo:
    """A request as seen by hooks and faults. path begins after /api/v10; route is its pattern; bot is a key or None.

    status, time, and payload (the JSON body if the handler read one) are set once it is answered.
    """

    method: str
    path: str
    route: str
    bot: str | None
    headers: dict[str, str]
    status: int = 0
    time: float = 0.0
    payload: Any = None


@dataclass(slots=True)
class RestFault:
    """A fault of requests with this method ("*" for any), path (a regular expression, searched) and bot.

    status None leaves the answer unchanged (for a delay alone). times is how often it still happens, None for always.
    delay in seconds. cut drops the connection instead of answering: "before" the request is carried out (also True), or
    "after" it. late: the request is carried out, and still answered with the status.
    """

    method: str = "*"
    path: str = ""
    status: int | None = 500
    times: int | None = 1
    body: Any = None
    delay: float = 0.0
    cut: Literal["before", "after"] | bool = False
    late: bool = False
    bot: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    hits: int = 0


Hook = Callable[[RequestInfo], "web.Response | Awaitable[web.Response | None] | None"]


@dataclass(slots=True)
class Faults:
    """The faults that are active.

    rest_delay (seconds) delays every REST answer, half of it before the request is carried out. rules are tried in
    order; on_request may answer requests that fit none of them. duplicate_events sends each event twice. replayed is
    how many events that a client has received already each resume sends again. close_gateway is the code with which
    each new gateway connection is closed immediately. altered replaces the first events of a session (READY,
    GUILD_CREATE) by name.
    """

    rest_delay: float = 0.0
    on_request: Hook | None = None
    rules: list[RestFault] = field(default_factory=list)
    duplicate_events: bool = False
    replayed: int = 0
    close_gateway: int | None = None
    altered: dict[str, Callable[[dict[str, Any]], Any]] = field(default_factory=dict)

    def add(self, fault: RestFault) -> RestFault:
        self.rules.append(fault)
        return fault

    def take(self, info: RequestInfo) -> RestFault | None:
        """Find the first rule that fits, and count its use."""
        for fault in self.rules:
            method, bot = fault.method in ("*", info.method), fault.bot in (None, info.bot)
            if fault.times != 0 and method and bot and re.search(fault.path, info.path):
                fault.hits += 1
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def clear(self) -> None:
        self.rest_delay, self.on_request, self.duplicate_events, self.replayed = 0.0, None, False, 0
        self.close_gateway = None
        self.altered.clear()
        self.rules.clear()


class FaultyGateway(Gateway):
    """`presences` are the bots' by key, as they sent them."""

    def __init__(self, world: World, faults: Faults) -> None:
        super().__init__(world)
        self._faults = faults
        self.presences: dict[str, dict[str, Any]] = {}

    def publish(self, event: Event) -> None:
        super().publish(event)
        if self._faults.duplicate_events:
            super().publish(event)

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        if self._faults.close_gateway is None:
            return await super().serve(request)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await ws.close(code=self._faults.close_gateway)
        return ws

    async def _on_frame(self, connection: GatewaySocket, text: str) -> None:
        await super()._on_frame(connection, text)
        if connection.session is not None and (frame := json.loads(text))["op"] == PRESENCE:
            self.presences[connection.session.app.key] = frame["d"]

    async def _identify(self, connection: GatewaySocket, data: dict[str, Any]) -> None:
        await super()._identify(connection, data)
        if connection.session is not None and "presence" in data:
            self.presences[connection.session.app.key] = data["presence"]

    def _first_events(self, session: Session) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, body in super()._first_events(session):
            yield name, self._faults.altered.get(name, dict)(body)

    def _resume(self, connection: GatewaySocket, data: dict[str, Any]) -> None:
        seq = max(0, int(data.get("seq") or 0) - self._faults.replayed)
        super()._resume(connection, {**data, "seq": seq})
