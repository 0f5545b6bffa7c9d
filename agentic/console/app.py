"""Builds and serves the console: an aiohttp application with the page's files and the JSON that they request.

    request → headers of every response → errors as one line → security (who, from where) → a route

The page's files contain no data and need no token: the page itself asks for the token.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from agent_config import Settings
from agentic.console.api import actions, agents, conversations, costs, live, members, overview, shared, turns
from agentic.console.api.live_feed import LiveFeed
from agentic.console.parts import ConsoleContext
from agentic.console.requests import errors_as_json
from agentic.console.security import Security, add_headers
from agentic.console.static_files import file_routes, read_files
from agentic.net.http_server import Connections, serve_if_free

MAX_BYTES = 262_144  # of a request's body: a persona file's text, whose characters may be escaped
PORTS_TRIED = 50

log = logging.getLogger(__name__)


def console_app(parts: ConsoleContext, *more: web.RouteDef) -> web.Application:
    """Build the console. `more` are routes of other packages."""
    security = Security(parts.settings, parts.monotonic)
    app = web.Application(middlewares=[errors_as_json, security.check], client_max_size=MAX_BYTES)
    app.on_response_prepare.append(add_headers)
    app.add_routes(list(file_routes(read_files("live" if parts.is_local else "overview"))))
    app.add_routes(security.routes())
    for module in (overview, members, turns, conversations, costs, agents, actions, shared):
        app.add_routes(module.routes(parts))
    app.add_routes(more)
    feed = LiveFeed(parts)
    app.cleanup_ctx.append(feed.running)
    app.on_shutdown.append(feed.close)
    app.add_routes(live.reading_routes(parts, feed))
    app.add_routes(live.person_routes(parts, feed))
    return app


@asynccontextmanager
async def serve_app(app: web.Application, settings: Settings, connections: Connections) -> AsyncIterator[bool]:
    """Serve during the `with` block. Yields whether it is served."""
    host, port, about = settings.console_host, settings.console_port, {"consequence": "the console is off"}
    async with serve_if_free(app, host, port, connections, setting="CONSOLE_PORT", **about) as is_served:
        if is_served:
            log.info("console: %s", settings.console_link)
        yield is_served


def free_port(host: str, port: int) -> int:
    """Return the first free port from `port` on, or `port` itself if there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for tried in range(port, min(port + PORTS_TRIED, 65_536)):
        try:
            with socket.create_server((host, tried), family=family):
                return tried
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return port
    return port
