"""A real MCP server, made with the official package.

`python support/tools/mcp_server.py` speaks over standard streams, with a port over HTTP on loopback. `http_server()`
serves the same in the running loop, `http_program()` in a child process that can be killed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100"
    "18dd8db00000000049454e44ae426082"
)


def make_server() -> MCPServer:
    server = MCPServer("tests")
    _add_plain_tools(server)
    _add_odd_tools(server)

    @server.resource("notes://today", name="today", description="what is planned", mime_type="text/plain")
    def today() -> str:
        return "nothing <planned>"

    @server.resource("notes://picture", name="picture", mime_type="image/png")
    def picture() -> bytes:
        return PNG

    @server.resource("notes://of/{day}", name="of a day")
    def of_a_day(day: str) -> str:
        return f"notes of {day}"

    return server


def _add_plain_tools(server: MCPServer) -> None:
    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @server.tool()
    def say(text: str) -> str:
        """Says it again."""
        return text

    @server.tool()
    def refuse() -> str:
        """Fails."""
        raise ValueError("not today")

    @server.tool()
    def environment() -> str:
        """The names of the settings that it sees."""
        return " ".join(sorted(os.environ))

    @server.tool()
    async def hang() -> str:
        """Answers after a long time."""
        await asyncio.sleep(3600)
        return "late"


def _add_odd_tools(server: MCPServer) -> None:
    @server.tool()
    def crash() -> str:
        """Ends the program."""
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(7)

    @server.tool(structured_output=False)
    def draw() -> Image:
        """A picture."""
        return Image(data=PNG, format="jpeg")

    @server.tool()
    def everything() -> CallToolResult:
        """One of each kind."""
        embedded = TextResourceContents(uri="notes://a", text="embedded", mime_type="text/plain")
        blob = BlobResourceContents(uri="notes://b", blob="AAAA", mime_type="application/x-thing")
        return CallToolResult(
            content=[
                TextContent(text="words"),
                AudioContent(data="AAAA", mime_type="audio/wav"),
                ResourceLink(uri="notes://today", name="today", description="what is\nplanned"),
                EmbeddedResource(resource=embedded),
                EmbeddedResource(resource=blob),
            ],
            structured_content={"answer": 42},
        )

    @server.tool()
    def flood(size: int) -> str:
        """So many characters."""
        return "x" * size

    @server.tool()
    async def grow(context: Context) -> str:
        """Makes a new tool, and says so."""
        server.add_tool(_grown, name="grown")
        await context.notify_tools_changed()
        await context.session.send_tool_list_changed()
        return "grown"


def _grown() -> str:
    """New."""
    return "new"


@asynccontextmanager
async def http_server(server: MCPServer | None = None, port: int = 0) -> AsyncIterator[str]:
    """Its address. `port` 0 is any free one."""
    import uvicorn

    listening = socket.create_server(("127.0.0.1", port))
    app = (server or make_server()).streamable_http_app()
    uvicorn_server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=0))
    serving = asyncio.create_task(uvicorn_server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        uvicorn_server.should_exit = True
        await serving


@asynccontextmanager
async def http_program(port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """The server as a child process that answers on `port`. It is killed at the end."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, __file__, str(port), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except OSError:
                assert program.returncode is None
                await asyncio.sleep(0.05)
        yield program
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        make_server().run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        make_server().run("stdio")
