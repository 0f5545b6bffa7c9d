"""A server without the SDK, for the life of servers; and how a test calls a tool."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agentic.llm.types import Tool
from agentic.tools.mcp.config import ServerConfig
from agentic.tools.mcp.servers import McpConnection, McpFailure, McpServers, Offer, Watch
from agentic.tools.tool import ToolContext, ToolOutput

ANY = {"type": "object", "properties": {}}


def asking(**more: Any) -> ToolContext:
    """For whom a tool runs."""
    return ToolContext(**{"agent": "claude", "channel_id": 7, "deadline": time.time() + 30, **more})


def tool(name: str) -> Tool:
    return Tool(name, f"does {name}", ANY)


class FakeServer:
    """Connects as it is told: `starts` are done one after the other, the last one again and again.

    A start is an error to raise, or a function that is awaited; None is one that goes well.
    """

    def __init__(self, *starts: Any, offer: Offer | None = None) -> None:
        self.starts = list(starts) or [None]
        self.offered = offer or Offer((tool("say"),))
        self.watches: list[Watch] = []
        self.closed = 0
        self.answer: Callable[[str, Mapping[str, Any]], Any] = lambda name, arguments: f"{name} {dict(arguments)}"

    @asynccontextmanager
    async def __call__(self, config: ServerConfig, watch: Watch) -> AsyncIterator[McpConnection]:
        self.watches.append(watch)
        start = self.starts.pop(0) if len(self.starts) > 1 else self.starts[0]
        if isinstance(start, BaseException):
            raise start
        if start is not None:
            await start()
        try:
            yield FakeConnection(self)
        finally:
            self.closed += 1


class FakeConnection:
    def __init__(self, server: FakeServer) -> None:
        self.server = server

    async def offer(self) -> Offer:
        return self.server.offered

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        found = self.server.answer(name, arguments)
        if hasattr(found, "__await__"):
            found = await found
        if isinstance(found, McpFailure):
            raise found
        return ToolOutput(found)

    async def list_resources(self) -> ToolOutput:
        return ToolOutput("notes://a")

    async def read_resource(self, uri: str) -> ToolOutput:
        return ToolOutput(f"contents of {uri}")


def command(name: str = "s", **more: Any) -> ServerConfig:
    """An entry; values that the file may not have are taken too, such as a short time."""
    return ServerConfig(name=name, command="unused").model_copy(update=more)


def names(servers: McpServers, agent: str = "claude") -> list[str]:
    return [tool.spec.name for tool in servers.tools_for(agent)]


async def call(
    servers: McpServers, name: str, arguments: Mapping[str, Any] | None = None, **context: Any
) -> ToolOutput:
    found: Sequence[Any] = [tool for tool in servers.tools_for("claude") if tool.spec.name == name]
    assert len(found) == 1, names(servers)
    output = await found[0].execute(arguments or {}, asking(**context))
    assert isinstance(output, ToolOutput)
    return output
