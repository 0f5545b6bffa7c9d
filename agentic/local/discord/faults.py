"""Faults on demand: slow answers, errors, cut connections. Everything here may be changed while the server runs."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request as seen by hooks and faults. path begins after /api/v10; route is its pattern; bot is a key or None."""

    method: str
    path: str
    route: str
    bot: str | None
    headers: dict[str, str]


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

    def fits(self, info: RequestInfo) -> bool:
        return (
            self.times != 0
            and self.method in ("*", info.method)
            and self.bot in (None, info.bot)
            and re.search(self.path, info.path) is not None
        )

    def use(self) -> None:
        self.hits += 1
        if self.times is not None:
            self.times -= 1


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

    def alter(self, event: str, data: dict[str, Any]) -> Any:
        return self.altered[event](data) if event in self.altered else data

    def add(self, fault: RestFault) -> RestFault:
        self.rules.append(fault)
        return fault

    def take(self, info: RequestInfo) -> RestFault | None:
        """Find the first rule that fits, and count its use."""
        for fault in self.rules:
            if fault.fits(info):
                fault.use()
                return fault
        return None

    def clear(self) -> None:
        self.rest_delay, self.on_request, self.duplicate_events, self.replayed = 0.0, None, False, 0
        self.close_gateway = None
        self.altered.clear()
        self.rules.clear()
