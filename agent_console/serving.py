"""Serves the console at its address. A port that is in use is a warning: the bots matter more."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from agent_config import Settings

PORTS_TRIED = 50
MOST_CONNECTIONS = 500  # at once, idle ones too: beyond them the bots might find no free file descriptor
END_SECONDS = 1.0  # for open requests, when the program ends

log = logging.getLogger(__name__)


@asynccontextmanager
async def serving_console(
    app: web.Application, settings: Settings, *, most_connections: int = MOST_CONNECTIONS
) -> AsyncIterator[bool]:
    """Serve while entered; yields whether it is served."""
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=END_SECONDS, auto_decompress=False
    )
    await runner.setup()
    listener = await _listener(runner, settings, most_connections)
    try:
        yield listener is not None
    finally:
        if listener is not None:
            listener.close()
        await runner.cleanup()


async def _listener(runner: web.AppRunner, settings: Settings, most_connections: int) -> asyncio.Server | None:
    server, host, port = runner.server, settings.console_host, settings.console_port
    assert server is not None, "the runner is set up"

    def protocol() -> asyncio.Protocol:
        return server() if len(server.connections) < most_connections else _Refusing()

    try:
        listener = await asyncio.get_running_loop().create_server(protocol, host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            log.warning("CONSOLE_PORT %d is in use by another program, so there is no console; choose another", port)
        else:
            reason = error.strerror or error
            log.warning("could not listen on CONSOLE_HOST %s, so there is no console: %s", host, reason)
        return None
    log.info("console: %s", settings.console_link)
    return listener


class _Refusing(asyncio.Protocol):
    """Ends a connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


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
