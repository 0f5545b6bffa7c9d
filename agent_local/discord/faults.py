"""Bad days on demand: slow answers, errors, cut lines. Everything here may be changed while the server runs."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A request as hooks and faults see it. path begins after /api/v10; route is its pattern; bot is a key or None."""

    method: str
    path: str
    route: str
    bot: str | None
    headers: dict[str, str]


@dataclass(slots=True)
class RestFault:
    """What goes wrong with requests that fit method ("*" for any), path (a regular expression, searched) and bot.

    status None leaves the answer as it is (for a delay alone). times is how often it still happens, None without end.
    delay in seconds. cut drops the connection instead of answering: "before" the work is done (also True), or "after"
    it. late: the work is done, and answered with the status all the same.
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
    """rest_delay (seconds) is how much longer every REST answer takes: one half before the work, one half after it.

    rules are tried in order; on_request may answer what none of them fits. duplicate_events sends each event twice.
    replayed is how many events that a client has heard already each resume tells it again. close_gateway is the code
    with which each new gateway connection is closed at once. altered makes of what a session begins with (READY,
    GUILD_CREATE, by name) what is sent instead.
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
        """The first rule that fits, counted as used."""
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
