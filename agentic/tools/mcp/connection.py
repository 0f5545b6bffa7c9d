"""Connect to an MCP server with the official SDK (mcp 2): over a program's standard streams, or streamable HTTP.

This module turns the SDK's errors into McpFailure, and answers into text and pictures for models. It limits what a
server can send: the number of tools, and the sizes of schemas, descriptions, and answers. The client accepts no
requests from the server: no sampling at our cost, no questions to people, no folders.

A restarted HTTP server doesn't know our session. `_HttpClient` notices that by the status of an answer and ends the
connection. The call raises CallNotRun, and servers.py repeats it in a new session. Servers with the protocol of
2026-07-28 report changed tools on a stream that the client opens (`listen`), older servers with a notification.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client import Transport
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agentic.llm.types import Picture, Tool
from agentic.net.addresses import FetchRefused
from agentic.net.images import as_picture, size_of
from agentic.process.tasks import cancel_and_wait
from agentic.tools.mcp.config import ServerConfig
from agentic.tools.mcp.process import ServerProcess
from agentic.tools.mcp.servers import CallNotRun, Connect, McpFailure, Offer, Watch
from agentic.tools.tool import ToolOutput

MAX_CHARACTERS = 50_000  # of a result, to save memory; the tool loop has a lower limit
MAX_PICTURES = 4
MAX_PICTURE_BYTES = 5_000_000
MAX_LISTED = 200
_NAME_CHARACTERS, _LINK_CHARACTERS = 200, 500
MAX_TOOLS = 128  # per server: the most that every provider accepts
MAX_PAGES = 50
MAX_SCHEMA = 20_000  # characters
MAX_DESCRIPTION = 2_000
MAX_ANSWER = 8 * 1024 * 1024  # bytes
MAX_RESOURCES = 1_000
RELISTEN = 5.0  # seconds
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 300.0  # the longest silence of a stream
CLOSE_SECONDS = 5.0  # to end a session
SETTLE_SECONDS = 1.0  # for answers to other calls of a lost session
NOT_RUN = 46_000  # our error code for a request that never reached the server's tools; outside of JSON-RPC's range
SESSION_STATUSES = (400, 404, 410)
KEY_STATUSES = (401, 403, 407)  # our key for the server or a proxy is missing or wrong
# JSON-RPC codes that servers send for an unknown session. Any other code with the id of the request is the answer to
# that request: mcp 2 also sends its errors with status 400 or 404.
SESSION_CODES = (types.INVALID_REQUEST, types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT)
_HANDSHAKE = ("initialize", "server/discover")  # the SDK needs the errors of these two to negotiate
_CLOSED = "Connection closed"  # the SDK's text, in jsonrpc_dispatcher.py
_CUT = "SSE stream"  # the start of the SDK's errors for an incomplete answer, in streamable_http.py

log = logging.getLogger(__name__)

T = TypeVar("T")
P = TypeVar("P", bound=types.PaginatedResult)


def connector(environment: Mapping[str, str]) -> Connect:
    """Return a function that opens connections. Programs get the variables in `process.INHERITED`."""

    @asynccontextmanager
    async def connect(config: ServerConfig, watch: Watch) -> AsyncIterator[SdkConnection]:
        async def on_message(message: IncomingMessage) -> None:
            if isinstance(message, types.ToolListChangedNotification | types.ResourceListChangedNotification):
                watch.change()

        async with AsyncExitStack() as stack:
            http: _HttpClient | None = None
            transport: Transport
            if config.url is None:
                transport = ServerProcess(config, environment, watch.end)
            else:
                timeout = httpx2.Timeout(CONNECT_SECONDS, read=max(config.call_seconds, SILENCE_SECONDS))
                headers = {"Accept-Encoding": "identity", **config.headers}
                http = _HttpClient(watch, headers=headers, timeout=timeout, event_hooks={"response": [_bounded]})
                await stack.enter_async_context(http)
                transport = streamable_http_client(config.url, http_client=http, max_sse_event_size=MAX_ANSWER)
            about = types.Implementation(name="agentic-discord", version="1")
            client = Client(transport, message_handler=on_message, client_info=about, cache=None)
            await stack.enter_async_context(client)
            listening = asyncio.create_task(_listen(client, watch), name=f"mcp {config.name} listen")
            try:
                yield SdkConnection(client, config, watch)
            finally:
                if http is not None:
                    await http.settle()
                await cancel_and_wait(listening)

    return connect


class _HttpClient(httpx2.AsyncClient):
    """The SDK's HTTP client. It ends the connection if the server is unreachable or doesn't know the session anymore.

    A rejected request becomes a JSON-RPC error, which the SDK passes to the call that made the request. The SDK's own
    client has the same text for most statuses, and ends all calls if one of them can't connect.
    """

    def __init__(self, watch: Watch, **options: Any) -> None:
        super().__init__(**options)
        self._watch = watch
        self._has_session = True  # False once the server is unreachable or doesn't know the session anymore
        self._has_stream = False  # whether the server has answered a GET, which is optional
        self._unanswered: set[asyncio.Future[None]] = set()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "DELETE":  # ends the session at the server
            if not self._has_session:
                return httpx2.Response(204, request=request)
            async with asyncio.timeout(CLOSE_SECONDS):  # the SDK logs a TimeoutError
                return await super().send(request, **options)
        if request.method != "POST":
            return await self._send(request, **options)
        answered = asyncio.get_running_loop().create_future()
        self._unanswered.add(answered)
        try:
            return await self._send(request, **options)
        finally:
            self._unanswered.discard(answered)
            answered.set_result(None)

    async def settle(self) -> None:
        """If the session is lost, wait a moment for rejections of other calls, which can then be made again."""
        if not self._has_session and self._unanswered:
            await asyncio.wait(self._unanswered, timeout=SETTLE_SECONDS)

    async def _send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        # The JSON-RPC request of a POST; None if it's a notification or our response.
        message = json.loads(request.content) if request.method == "POST" else {}
        call: Mapping[str, Any] | None = message if "id" in message and "method" in message else None
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self._end(f"it can't be reached: {error or type(error).__name__}")
            if call is None or call["method"] in _HANDSHAKE:
                raise
            return _rejection(request, 503, call, NOT_RUN, "the server can't be reached")
        status = response.status_code
        if request.method == "GET":
            self._has_stream = self._has_stream or status == 200
            if self._has_stream and status in SESSION_STATUSES:
                self._end(f"it doesn't know the session anymore (HTTP {status})")
        if status in KEY_STATUSES and call is not None and call["method"] in _HANDSHAKE:
            self._has_session = False
            self._watch.is_refused = True
            self._watch.end(f"HTTP {status} {response.reason_phrase}; check its key in config/mcp.yaml")
        if status < 400 or call is None or call["method"] in _HANDSHAKE:
            return response
        said = await _error_in(response)
        if status in SESSION_STATUSES and not (
            said is not None and said.id == call["id"] and said.error.code not in SESSION_CODES
        ):
            reason = f"it doesn't know the session anymore (HTTP {status}{': ' + said.error.message if said else ''})"
            self._end(reason)
            return _rejection(request, status, call, NOT_RUN, reason)
        if said is not None:
            return response
        return _rejection(request, status, call, types.INTERNAL_ERROR, f"HTTP {status} {response.reason_phrase}")

    def _end(self, reason: str) -> None:
        self._has_session = False
        self._watch.end(reason)


async def _error_in(response: httpx2.Response) -> types.JSONRPCError | None:
    """Read a rejection to its end. Return its JSON-RPC error, None if it has none."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(await response.aread(), by_name=False)
    except (httpx2.StreamError, httpx2.TransportError, ValidationError):
        return None
    finally:
        await response.aclose()
    return message if isinstance(message, types.JSONRPCError) else None


def _rejection(
    request: httpx2.Request, status: int, call: Mapping[str, Any], code: int, message: str
) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": call["id"], "error": {"code": code, "message": message}}
    return httpx2.Response(status, json=error, request=request)


async def _bounded(response: httpx2.Response) -> None:
    """Limit the size of an answer, unless it's an event stream, whose events the SDK limits."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("a compressed answer, which wasn't requested")
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_ANSWER:
                raise httpx2.StreamError(f"more than {MAX_ANSWER} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _listen(client: Client, watch: Watch) -> None:
    """Report changes that a server sends on a stream. Reopen the stream when it ends."""
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    while True:
        try:
            async with client.listen(tools_list_changed=True, resources_list_changed=True) as changes:
                async for _ in changes:
                    watch.change()
        except SubscriptionLost:
            log.debug("an MCP server's stream of changes was lost; reopening it")
        except (ListenNotSupportedError, MCPError, TimeoutError) as error:
            log.debug("an MCP server doesn't report changes: %s", error)
            return
        await asyncio.sleep(RELISTEN)
        watch.change()  # there may have been changes in between


class SdkConnection:
    """Implements `servers.McpConnection` with the SDK."""

    def __init__(self, client: Client, config: ServerConfig, watch: Watch) -> None:
        self._client, self._config, self._watch = client, config, watch
        self._capabilities = client.server_capabilities

    async def offer(self) -> Offer:
        tools: list[types.Tool] = []
        if self._capabilities.tools is not None:
            pages = await self._asked(self._pages(self._client.list_tools))
            tools = [tool for page in pages for tool in page.tools]
        found = tuple(usable for tool in tools if (usable := self._usable(tool)) is not None)
        if len(found) > MAX_TOOLS:
            text = "MCP server %s has %d tools; only the first %d are used"
            log.warning(text, self._config.name, len(found), MAX_TOOLS)
        has_resources = False
        if self._capabilities.resources is not None:
            try:
                has_resources = any(await self._resources())
            except McpFailure as failure:
                log.debug("MCP server %s: listing its resources failed: %s", self._config.name, failure)
        return Offer(found[:MAX_TOOLS], has_resources)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except (ValueError, TypeError, RecursionError):
            raise McpFailure("the arguments can't be written as JSON") from None
        return output_of(await self._asked(self._client.call_tool(name, dict(arguments))))

    async def list_resources(self) -> ToolOutput:
        return output_of_listing(*await self._resources())

    async def read_resource(self, uri: str) -> ToolOutput:
        return output_of_resource(await self._asked(self._client.read_resource(uri)))

    async def _resources(self) -> tuple[list[types.Resource], list[types.ResourceTemplate]]:
        pages = await self._asked(self._pages(self._client.list_resources))
        resources = [one for page in pages for one in page.resources]
        try:
            more = await self._asked(self._pages(self._client.list_resource_templates))
        except McpFailure:
            return resources[:MAX_RESOURCES], []  # not every server supports templates
        templates = [one for page in more for one in page.resource_templates]
        return resources[:MAX_RESOURCES], templates[:MAX_RESOURCES]

    async def _pages(self, fetch: Callable[..., Awaitable[P]]) -> list[P]:
        pages: list[P] = []
        cursor = None
        while not pages or (cursor is not None and len(pages) < MAX_PAGES):
            pages.append(await fetch(cursor=cursor))
            cursor = pages[-1].next_cursor
        return pages

    async def _asked(self, answer: Awaitable[T]) -> T:
        """Return the answer. Raises McpFailure for all errors of the SDK."""
        try:
            return await answer
        except MCPError as error:
            if error.code == NOT_RUN and self._config.url is not None:
                raise CallNotRun(error.message) from error
            if error.code == types.CONNECTION_CLOSED and error.message.startswith(_CUT):
                raise McpFailure("the server's answer was incomplete; the call may have run") from error
            if error.code == types.CONNECTION_CLOSED and error.message == _CLOSED:
                self._watch.end("the connection was lost")
            if self._watch.ended is not None:
                raise McpFailure("the connection to the server was lost; it is being restarted") from error
            raise McpFailure(f"the server says: {error.message}") from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.HTTPError, OSError) as error:
            self._watch.end(str(error) or "the connection was lost")
            raise McpFailure("the connection to the server was lost; it is being restarted") from error
        except (ValidationError, RuntimeError, ValueError) as error:
            log.debug("MCP server %s: unreadable answer: %s", self._config.name, error)
            raise McpFailure("the server's answer couldn't be read") from error

    def _usable(self, tool: types.Tool) -> Tool | None:
        """Return the tool for models; None if its schema isn't for an object, or too large."""
        schema = {"type": "object", "properties": {}, **tool.input_schema}
        size = len(json.dumps(schema, ensure_ascii=False, default=str))
        if schema["type"] != "object" or size > MAX_SCHEMA:
            log.warning("MCP server %s: skipped tool %.100r: its schema is unusable", self._config.name, tool.name)
            return None
        description = " ".join((tool.description or tool.title or "").split(" "))
        return Tool(tool.name, description[:MAX_DESCRIPTION], schema)


def output_of(result: types.CallToolResult) -> ToolOutput:
    builder = _OutputBuilder()
    for block in result.content:
        builder.add(block)
    value = result.structured_content
    if value is not None and not any(_is_json_of(text, value) for text in builder.texts):
        builder.add_text(json.dumps(value, ensure_ascii=False, default=str))
    return builder.output(result.is_error)


def output_of_resource(result: types.ReadResourceResult) -> ToolOutput:
    builder = _OutputBuilder()
    for contents in result.contents:
        builder.add_contents(contents, named=len(result.contents) > 1)
    return builder.output()


def output_of_listing(resources: Sequence[types.Resource], templates: Sequence[types.ResourceTemplate]) -> ToolOutput:
    """List resources, one per line: address, name, description."""
    lines = [_describe(each.uri, each) for each in resources]
    lines += [_describe(f"{each.uri_template} (replace the parts in braces)", each) for each in templates]
    left = len(lines) - MAX_LISTED
    if left > 0:
        lines = [*lines[:MAX_LISTED], f"[and {left} more]"]
    builder = _OutputBuilder()
    builder.add_text("\n".join(lines) or "[no resources]")
    return builder.output()


class _OutputBuilder:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self._room = MAX_CHARACTERS
        self._cut = False
        self._pictures: list[Picture] = []

    def add(self, block: types.ContentBlock) -> None:
        match block:
            case types.TextContent():
                self.add_text(block.text)
            case types.ImageContent():
                self._add_picture(block.data, "picture")
            case types.AudioContent():
                self.add_text(f"[sound, {_short(block.mime_type)}: it can't be played here]")
            case types.ResourceLink():
                self.add_text(f"[resource {_describe(block.uri, block)}]")
            case types.EmbeddedResource():
                self.add_contents(block.resource, named=True)

    def add_text(self, text: str) -> None:
        self._cut = self._cut or len(text) > self._room
        text = text[: self._room]
        self._room -= len(text)
        if text:
            self.texts.append(text)

    def add_contents(self, contents: types.TextResourceContents | types.BlobResourceContents, *, named: bool) -> None:
        name = f"resource {_short(contents.uri, _LINK_CHARACTERS)}"
        if isinstance(contents, types.BlobResourceContents):
            self._add_picture(contents.blob, name, contents.mime_type or "unknown kind")
            return
        if named:
            self.add_text(f"[{name}]")
        self.add_text(contents.text)

    def _add_picture(self, data: str, what: str, kind: str = "") -> None:
        """Add a picture in base64, or a note about it if it can't be used."""
        size = len(data) * 3 // 4
        if len(self._pictures) == MAX_PICTURES:
            self.add_text(f"[{what}: left out, there are {MAX_PICTURES} already]")
        elif size > MAX_PICTURE_BYTES:
            self.add_text(f"[{what}: left out, {size} bytes are too many]")
        elif (picture := _picture(data)) is None:
            self.add_text(f"[{what}: {_short(kind) or 'no picture that can be shown'}, {size} bytes]")
        else:
            self._pictures.append(picture)

    def output(self, is_error: bool = False) -> ToolOutput:
        if self._cut:
            self.texts.append(f"[cut here, at {MAX_CHARACTERS} characters]")
        text = "\n".join(self.texts)
        return ToolOutput(text or ("" if self._pictures else "[nothing]"), tuple(self._pictures), is_error)


def _picture(data: str) -> Picture | None:
    """Decode a picture; None if it isn't base64 of a whole picture, or too large: a provider would reject it."""
    try:
        found = as_picture(base64.b64decode(data, validate=True))
    except (ValueError, FetchRefused):
        return None
    return found if size_of(found.data, found.media_type) is not None else None


def _is_json_of(text: str, value: object) -> bool:
    """Whether a text is the value as JSON. The official server wraps values other than objects as {"result": …}."""
    if value == {"result": text}:
        return True
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return bool(parsed == value or {"result": parsed} == value)


def _describe(address: str, resource: types.Resource | types.ResourceTemplate) -> str:
    parts: Iterable[str | None] = (resource.title or resource.name, resource.mime_type, resource.description)
    about = ", ".join(_short(part) for part in parts if part)
    return f"{_short(address, _LINK_CHARACTERS)}: {about}" if about else _short(address, _LINK_CHARACTERS)


def _short(text: str, limit: int = _NAME_CHARACTERS) -> str:
    return " ".join(text.split())[:limit]
