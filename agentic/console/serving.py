"""Serves the console at its address. A port that is in use is a warning: the bots matter more."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from agent_config import Settings
from agentic.net.http_server import Connections, serve_http

PORTS_TRIED = 50

log = logging.getLogger(__name__)


@asynccontextmanager
async def serving_console(app: web.Application, settings: Settings, connections: Connections) -> AsyncIterator[bool]:
    """Serve while entered; yields whether it is served."""
    host, port, is_served = settings.console_host, settings.console_port, False
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serve_http(app, host, port, connections))
            is_served = True
            log.info("console: %s", settings.console_link)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                log.warning(
                    "CONSOLE_PORT %d is in use by another program, so there is no console; choose another", port
                )
            else:
                reason = error.strerror or error
                log.warning("could not listen on CONSOLE_HOST %s, so there is no console: %s", host, reason)
        yield is_served


def free_port(host: str, port: int) -> int:
    """The first port from `port` on that is free; `port` itself where none is."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for tried in range(port, min(port + PORTS_TRIED, 65_536)):
        try:
            with socket.create_server((host, tried), family=family):
                return tried
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return port
    return port
