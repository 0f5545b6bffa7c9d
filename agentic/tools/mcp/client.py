"""The MCP servers of an installation, started and stopped together: a source of tools.

    servers, problems = read_servers(Path("config/mcp.yaml"), settings)
    async with McpServers(servers, environment=settings) as mcp:
        mcp.tools_for("claude")

Entering starts the servers concurrently and waits for none. A turn waits for them (`ready`), but only until
READY_SECONDS after the start: without their tools its prompt would begin differently from all later ones, and the
cached part would be lost. The tools of a slower server appear when it is up. The SDK is
imported in a thread, and only if a server is configured, since that takes most of a second. Leaving ends each
connection in its own task, waits a limited time, and leaves no process behind.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import cast

from agentic.tools.mcp.config import ServerConfig
from agentic.tools.mcp.server import PAUSES, Connect, McpServer
from agentic.tools.mcp.tools import McpTool, tools_of

STOP_SECONDS = 10.0
READY_SECONDS = 10.0

log = logging.getLogger(__name__)


class McpServers:
    """A ToolSource. `environment`: programs get only those of its variables that `process.INHERITED` names.

    `clock` is in unix seconds; `connect` opens a connection (by default with the SDK); `pauses` are in seconds.
    """

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        *,
        environment: Mapping[str, str],
        clock: Callable[[], float] = time.time,
        connect: Connect | None = None,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._servers = [McpServer(server, clock=clock, pauses=pauses) for server in servers]
        self._environment, self._connect = environment, connect
        self._running: asyncio.Task[None] | None = None
        self._ready_until = 0.0  # on the loop's clock

    async def __aenter__(self) -> McpServers:
        if self._servers:
            self._ready_until = asyncio.get_running_loop().time() + READY_SECONDS
            self._running = asyncio.create_task(self._run(), name="mcp servers")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is None:
            return
        for server in self._servers:
            server.stop()
        try:
            await asyncio.wait({self._running}, timeout=STOP_SECONDS)
        finally:
            self._running.cancel()  # no effect if it has ended; otherwise its processes are killed
            await asyncio.gather(self._running, return_exceptions=True)

    def tools_for(self, agent: str) -> tuple[McpTool, ...]:
        """Return the tools that this agent may use, including those of a server that was running and is not now: a
        list that comes and goes would break the cached part of every prompt."""
        allowed = (server for server in self._servers if server.config.may_be_used_by(agent))
        return tuple(tool for server in allowed for tool in tools_of(server))

    async def tried(self) -> None:
        """Wait until every server has started or failed once, which takes as long as the slowest."""
        await asyncio.gather(*(server.tried() for server in self._servers))

    async def ready(self, agent: str) -> None:
        """Wait until every server of this agent has started or failed once, at most until READY_SECONDS after the
        start of all."""
        waits = [server.tried() for server in self._servers if server.config.may_be_used_by(agent)]
        try:
            async with asyncio.timeout_at(self._ready_until):
                await asyncio.gather(*waits)
        except TimeoutError:
            return

    def status(self) -> dict[str, str]:
        """Return each server's name → running, starting or stopped."""
        return {server.config.name: _state(server) for server in self._servers}

    def reasons(self) -> dict[str, str]:
        """Return each server's name → why its last start or connection ended, "" if none did."""
        return {server.config.name: server.reason for server in self._servers}

    async def _run(self) -> None:
        try:
            opened = self._connect
            if opened is None:
                opened = await asyncio.to_thread(_sdk_connector, self._environment)
        except ImportError as error:
            log.error("MCP servers: none can be used, the package mcp cannot be imported: %s", error)
            for server in self._servers:
                server.give_up()
            return
        async with asyncio.TaskGroup() as group:
            for server in self._servers:
                group.create_task(server.run(opened), name=f"mcp {server.config.name}")


def _sdk_connector(environment: Mapping[str, str]) -> Connect:
    module = importlib.import_module("agentic.tools.mcp.connection")
    return cast(Connect, module.connector(environment))


def _state(server: McpServer) -> str:
    if server.is_over:
        return "stopped"
    return "running" if server.is_up else "starting"
