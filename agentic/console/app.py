"""Builds and serves the console: an aiohttp application with the page's files and the JSON that they request.

    request → headers of every response → errors as one line → security (who, from where) → a route

The page's files contain no data and need no token: the page itself asks for the token.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from agent_config import Settings
from agentic.console.api import actions, agents, conversations, costs, live, turns
from agentic.console.api.live_feed import LiveFeed
from agentic.console.parts import ConsoleContext
from agentic.console.requests import errors_as_json
from agentic.console.security import Security, add_headers
from agentic.net.http_server import Connections, serve_http

MAX_BYTES = 65_536  # of a request's body
PORTS_TRIED = 50
FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}

log = logging.getLogger(__name__)


def console_app(parts: ConsoleContext, *more: web.RouteDef) -> web.Application:
    """Build the console. `more` are routes of other packages."""
    security = Security(parts.settings, parts.monotonic)
    app = web.Application(middlewares=[errors_as_json, security.check], client_max_size=MAX_BYTES)
    app.on_response_prepare.append(add_headers)
    app.add_routes(list(file_routes(read_files())))
    app.add_routes(security.routes())
    for module in (turns, conversations, costs, agents, actions):
        app.add_routes(module.routes(parts))
    app.add_routes(more)
    feed = LiveFeed(parts)
    app.cleanup_ctx.append(feed.running)
    app.on_shutdown.append(feed.close)
    app.add_routes(live.routes(parts, feed))
    return app


@asynccontextmanager
async def serve_app(app: web.Application, settings: Settings, connections: Connections) -> AsyncIterator[bool]:
    """Serve during the `with` block. Yields whether it is served: a port in use is only a warning, because the bots
    can run without the console."""
    host, port, is_served = settings.console_host, settings.console_port, False
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serve_http(app, host, port, connections))
            is_served = True
            log.info("console: %s", settings.console_link)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                text = "CONSOLE_PORT %d is in use by another program, so there is no console; choose another port"
                log.warning(text, port)
            else:
                reason = error.strerror or error
                log.warning("listening on CONSOLE_HOST %s failed: %s; there is no console", host, reason)
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


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    compressed: bytes
    media_type: str
    etag: str


def read_files() -> Mapping[str, StaticFile]:
    """Read all files of known types as path → file. Only these paths exist, so none leads out of the folder."""
    found: dict[str, StaticFile] = {}
    for path in FOLDER.rglob("*"):
        if path.suffix in TYPES:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            file = StaticFile(content, gzip.compress(content, mtime=0), TYPES[path.suffix], etag)
            found[f"/{path.relative_to(FOLDER).as_posix()}"] = file
    return {**found, "/": found.pop("/index.html")}


def file_routes(files: Mapping[str, StaticFile]) -> Iterator[web.RouteDef]:
    """Yield a route for each file. The browser caches the files, and asks each time whether they have changed."""

    async def serve(request: web.Request) -> web.Response:
        file = files[request.path]
        headers = {
            "Content-Type": file.media_type,
            "ETag": file.etag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
        }
        if file.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=file.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=file.content, headers=headers)

    for address in files:
        yield web.get(address, serve)
