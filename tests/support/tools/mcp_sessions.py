"""An MCP server over streamable HTTP with sessions, byte for byte as the package mcp 1.30 answers (read off FastMCP).

The official package in version 2 has no such server any more, and two versions cannot be installed side by side.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

# status, content type and body for a session that the server does not know
Rejection = tuple[int, str, bytes]
PYTHON: Rejection = (
    404,
    "application/json",
    b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}',
)

Answer = Callable[[asyncio.StreamWriter, Any], Awaitable[None]]  # with the id of the request


@dataclass
class SessionServer:
    """`calls` are the tool calls that ran. `before_call` may answer a call itself: it returns None or an answer."""

    tools: list[str] = field(default_factory=lambda: ["say"])
    rejection: Rejection = PYTHON
    status: int | None = None  # of every answer, if it is set
    has_stream: bool = True
    calls: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    before_call: Callable[[], Answer | None] = lambda: None
    port: int = 0
    _sessions: set[str] = field(default_factory=set)
    _made: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def __aenter__(self) -> SessionServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """End as a killed process does: every connection is cut, every session is gone."""
        assert self._server is not None
        self._server.close()
        self.forget()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def forget(self) -> None:
        """Forget the sessions, as a server does with idle ones."""
        self._sessions.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(writer, first.split()[0], headers, json.loads(body) if body else {})
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.transport.abort()
        finally:
            self._open.discard(task)

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, headers: dict[str, str], message: dict[str, Any]
    ) -> None:
        name, number, session = message.get("method", method), message.get("id"), headers.get("mcp-session-id")
        self.requests.append(name)
        if self.status is not None:
            return await reply(writer, self.status, "text/plain", b"")
        if session is not None and session not in self._sessions:
            return await reply(writer, *self.rejection)
        if name == "initialize":
            self._made += 1
            session = f"session-{id(self)}-{self._made}"
            self._sessions.add(session)
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": False}},
                "serverInfo": {"name": "old", "version": "1.30.0"},
            }
            return await _reply_event(writer, {"jsonrpc": "2.0", "id": number, "result": result}, session)
        if session is None:
            error = {"code": -32600, "message": "Bad Request: Missing session ID"}
            body = json.dumps({"jsonrpc": "2.0", "id": "server-error", "error": error}).encode()
            return await reply(writer, 400, "application/json", body)
        if method == "GET":
            if not self.has_stream:
                return await reply(writer, 405, "text/plain", b"Method Not Allowed")
            writer.write(_EVENTS.encode() + b"\r\n")
            await asyncio.Event().wait()  # until the connection is cut
        if method == "DELETE":
            self._sessions.discard(session)
            return await reply(writer, 200, "application/json", b"")
        if number is None:
            return await reply(writer, 202, "application/json", b"")
        if name == "tools/list":
            tools = [{"name": tool, "inputSchema": {"type": "object"}} for tool in self.tools]
            return await _reply_event(writer, {"jsonrpc": "2.0", "id": number, "result": {"tools": tools}}, session)
        own = self.before_call()
        if own is not None:
            return await own(writer, number)
        self.calls.append(message["params"]["name"])
        result = {"content": [{"type": "text", "text": f"run {len(self.calls)}"}], "isError": False}
        return await _reply_event(writer, {"jsonrpc": "2.0", "id": number, "result": result}, session)


_EVENTS = (
    "HTTP/1.1 200 OK\r\ncache-control: no-cache, no-transform\r\ncontent-type: text/event-stream\r\n"
    "transfer-encoding: chunked\r\n"
)


async def reply(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes) -> None:
    head = f"HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _reply_event(writer: asyncio.StreamWriter, message: dict[str, Any], session: str) -> None:
    event = f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n".encode()
    head = f"{_EVENTS}mcp-session-id: {session}\r\n\r\n".encode()
    writer.write(head + f"{len(event):x}\r\n".encode() + event + b"\r\n0\r\n\r\n")
    await writer.drain()


async def cut_in_mid_answer(writer: asyncio.StreamWriter, number: Any) -> None:
    """Begin an answer and cut the connection."""
    writer.write(_EVENTS.encode() + b"\r\n")
    await writer.drain()
    raise ConnectionResetError


async def accept_without_answer(writer: asyncio.StreamWriter, number: Any) -> None:
    await reply(writer, 202, "application/json", b"")
