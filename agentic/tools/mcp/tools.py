"""The tools of MCP servers under names that providers accept.

Providers accept letters, digits, `_` and `-`, 64 at most. Servers name their tools freely, and two servers may use the
same name. So a tool is called `server__tool`, with other characters replaced. If that is too long or not unique, it
ends in a short hash of the full name, which never changes. A server's resources are two more tools.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentic.llm.types import Tool
from agentic.tools.mcp.server import McpConnection, McpServer
from agentic.tools.tool import ToolContext, ToolOutput, is_allowed

LONGEST_NAME = 64
LIST, READ = "list_resources", "read_resource"
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_MARK_CHARACTERS = 6

Operation = Callable[[McpConnection, Mapping[str, Any]], Awaitable[ToolOutput]]


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of a server, or one of the two that read its resources."""

    spec: Tool
    server: McpServer
    operation: Operation

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Run a call. Raises nothing but CancelledError; errors are outputs."""
        return await self.server.use(lambda connection: self.operation(connection, arguments), context)


def tools_of(server: McpServer) -> tuple[McpTool, ...]:
    """Return the tools that the server offers and its entry allows, by name."""
    offered = [(tool, _calling(tool.name)) for tool in server.offer.tools]
    if server.offer.resources:
        offered += _resource_tools(server.config.name)
    allowed = [(tool, operation) for tool, operation in offered if is_allowed(tool.name, server.config.tools)]
    names = provider_names(server.config.name, [tool.name for tool, _ in allowed])
    tools = (
        McpTool(Tool(name, tool.description, tool.parameters), server, operation)
        for name, (tool, operation) in zip(names, allowed, strict=True)
    )
    return tuple(sorted(tools, key=lambda tool: tool.spec.name))


def provider_names(server: str, tools: Sequence[str]) -> list[str]:
    """Return a unique name for each tool of a server, in order, as every provider accepts them.

    They do not depend on the order, and those of two servers are never equal.
    """
    plain = [f"{server}__{_ODD.sub('_', tool)}" for tool in tools]
    counted = Counter(plain)
    seen: Counter[str] = Counter()
    names = []
    for name, tool in zip(plain, tools, strict=True):
        if counted[name] > 1 or len(name) > LONGEST_NAME:
            seen[tool] += 1
            mark = hashlib.sha256(f"{server}\0{tool}\0{seen[tool]}".encode("utf-8", "replace")).hexdigest()
            name = f"{name[: LONGEST_NAME - _MARK_CHARACTERS - 1]}_{mark[:_MARK_CHARACTERS]}"
        names.append(name)
    return names


def _calling(name: str) -> Operation:
    return lambda connection, arguments: connection.call(name, arguments)


def _resource_tools(server: str) -> list[tuple[Tool, Operation]]:
    listing = Tool(
        LIST,
        f"Lists the resources of {server}, one a line, with their addresses.",
        {"type": "object", "properties": {}, "additionalProperties": False},
    )
    reading = Tool(
        READ,
        f"Reads one resource of {server} by its address.",
        {
            "type": "object",
            "properties": {"uri": {"type": "string", "description": "an address from the list"}},
            "required": ["uri"],
            "additionalProperties": False,
        },
    )
    return [
        (listing, lambda connection, _: connection.list_resources()),
        (reading, lambda connection, arguments: connection.read_resource(str(arguments.get("uri", "")))),
    ]
