"""The stand-in: one HTTP server for REST, gateway and files."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Self, TypeVar

from aiohttp import web

from agentic.local.discord.api import RestApi
from agentic.local.discord.backend import Backend
from agentic.local.discord.control import People
from agentic.local.discord.events import Event
from agentic.local.discord.faults import Faults
from agentic.local.discord.gateway import Gateway
from agentic.local.discord.limits import Limiter, RateLimits
from agentic.local.discord.waiting import wait_for
from agentic.local.discord.world import World
from agentic.net.http_server import Connections, connection_limit, serve_http

T = TypeVar("T")
Subscriber = Callable[[str, dict[str, Any]], None]

LOOPBACK = "127.0.0.1"
_MAX_REQUEST_BYTES = 64 * 1024 * 1024


class DiscordStandIn(People):
    """Serves a world on loopback while entered. port 0 takes any free one; limits None enforces none.

    faults may be changed at any time. What people do is in People (control.py).
    """

    def __init__(
        self, world: World, *, port: int = 0, limits: RateLimits | None = None, history_limit: int = 2000
    ) -> None:
        super().__init__(Backend(world, history_limit=history_limit))
        self.world = world
        self.faults = Faults()
        self.gateway = Gateway(self.backend, self.faults)
        self.rest = RestApi(self.backend, Limiter(limits, world.clock), self.faults)
        self.extra_routes: list[web.RouteDef] = []  # added when the server starts
        self._port = port
        self._subscribers: list[Subscriber] = []
        self._serving = AsyncExitStack()
        self.backend.listeners.append(self._notify_subscribers)

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=_MAX_REQUEST_BYTES)
        self._add_routes(app)
        # Of its own: all bots of the process are its clients.
        connections = Connections(2 * connection_limit())
        self._port = await self._serving.enter_async_context(serve_http(app, LOOPBACK, self._port, connections))
        self.world.cdn = f"http://{LOOPBACK}:{self._port}"
        self.gateway.url = self.rest.gateway_url = f"ws://{LOOPBACK}:{self._port}/gateway"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gateway.close()
        await self._serving.aclose()

    def _add_routes(self, app: web.Application) -> None:
        self.rest.add_to(app)
        app.router.add_routes(self.extra_routes)
        app.router.add_get("/gateway", self.gateway.serve)
        app.router.add_get("/gateway/", self.gateway.serve)
        app.router.add_get("/attachments/{channel_id}/{attachment_id}/{filename}", self._attachment)

    async def _attachment(self, request: web.Request) -> web.Response:
        number = request.match_info["attachment_id"]
        found = self.backend.attachments.get(int(number)) if number.isdecimal() else None
        if found is None:
            raise web.HTTPNotFound
        return web.Response(body=found.content, headers={"Content-Type": found.media_type})

    @property
    def port(self) -> int:
        return self._port

    @property
    def api_base(self) -> str:
        """The value for py-cord's Route.API_BASE_URL, with its literal placeholder."""
        return f"http://{LOOPBACK}:{self._port}/api/v{{API_VERSION}}"

    @property
    def counts(self) -> dict[str, int]:
        """Counts so far: "requests", each status ("429"), each "METHOD route"."""
        return self.rest.counts

    @property
    def online(self) -> set[str]:
        """Keys of the bots that are connected to the gateway."""
        return self.gateway.online

    @property
    def limits(self) -> RateLimits | None:
        return self.rest.limiter.limits

    @limits.setter
    def limits(self, limits: RateLimits | None) -> None:
        self.rest.limiter.limits = limits

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call callback(event name, data) for each event, soon after it, from the loop; return a function that ends
        this."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _notify_subscribers(self, event: Event) -> None:
        loop = asyncio.get_running_loop() if self._subscribers else None
        for callback in self._subscribers:
            if loop is not None:
                loop.call_soon(callback, event.name, event.data)

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 30) -> T:  # noqa: ASYNC109
        """Wait until the predicate is true and return its value; waiting.py says when it is evaluated.

        Raises TimeoutError after timeout seconds, with a description of the situation.
        """
        return await wait_for(self.backend, predicate, timeout, self._situation)

    def _situation(self) -> str:
        recent = "; ".join(f"{r.bot} {r.method} {r.path} {r.status}" for r in list(self.rest.requests)[-8:])
        newest = [m for c in self.world.channels() for m in list(c.messages.values())[-3:]]
        said = "; ".join(f"{m.author.display_name}: {m.content[:60]!r}" for m in newest[-8:])
        return f"Online: {sorted(self.online) or 'none'}. Last requests: {recent or 'none'}. Messages: {said or 'none'}"


@contextmanager
def routed_to(server: DiscordStandIn) -> Iterator[None]:
    """Point py-cord at the server, for the whole process, and back afterwards."""
    from discord.http import Route

    before = Route.API_BASE_URL
    Route.API_BASE_URL = server.api_base
    try:
        yield
    finally:
        Route.API_BASE_URL = before
