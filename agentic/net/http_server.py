"""Serves HTTP so that no client can block the program. The health, events, and console ports all use this.

A client that sends half a request, doesn't read the answer, or sits idle uses a file descriptor. `Connections` limits
their number over all ports, so that the rest of the program has enough. When it is full, a new connection is accepted
and another is closed: of the connections that wait for their client, the oldest of the address with the most. So nobody
is locked out, and a single address only closes its own connections.

    WAIT_SECONDS   for the headers, then for the body, then for each part of an answer; then the connection is aborted
    BODY_SECONDS   for a whole body, read by `read_body`; then 408
    IDLE_SECONDS   between two requests of a connection
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import logging
import resource
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

from aiohttp import StreamReader, web
from aiohttp.typedefs import Handler

from agentic.net.addresses import client_network

WAIT_SECONDS = 12.0
BODY_SECONDS = 10.0
IDLE_SECONDS = 75.0
CHECK_SECONDS = 1.0
LINGER_SECONDS = 5.0  # after an early answer, for the rest of a body
SHUTDOWN_SECONDS = 1.0  # for open requests, when the program ends
MIN_CONNECTIONS, MAX_CONNECTIONS = 8, 256
FILES_PER_CONNECTION = 4  # so that the rest of the program has most file descriptors
MAX_HEADERS = 64
MAX_HEADER_BYTES = 8_190  # of one header, or of the request line
ACCEPT_AT_ONCE = 16  # connections accepted in one iteration of the loop, before others can be closed
SEND_BUFFER = 65_536  # bytes; the kernel would otherwise buffer megabytes for a client that doesn't read
BACKLOG = 512  # connections that the kernel holds until they are accepted

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
SERVER = "agentic-discord"  # aiohttp would send its version and Python's

log = logging.getLogger(__name__)


class Connections:
    """The open connections of a process's servers, in the order of how long they have waited for their client.

    By default `limit` depends on the process's file descriptors.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit or connection_limit()
        self._open: dict[_Connection, None] = {}
        self._counts: Counter[str] = Counter()  # by address

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: _Connection) -> None:
        """Add a new connection. If there are too many, close another."""
        if len(self._open) >= self.limit:
            # Close the connection that has waited longest for its client, of the address with the most connections. If
            # none waits, close one with a running request.
            waiting = [each for each in self._open if each.waits_for_client]
            ended = max(waiting or self._open, key=lambda each: self._counts[each.address])
            self.remove(ended)
            ended.abort()
        self._open[connection] = None
        self._counts[connection.address] += 1

    def move_to_end(self, connection: _Connection) -> None:
        """Note that something happened on the connection."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def remove(self, connection: _Connection) -> None:
        if connection in self._open:
            del self._open[connection]
            self._counts[connection.address] -= 1
            if not self._counts[connection.address]:
                del self._counts[connection.address]


def connection_limit() -> int:
    """Return how many connections the process's file descriptors allow."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, files // FILES_PER_CONNECTION))


class _Connection(web.RequestHandler):
    """A connection that is aborted if its client keeps it waiting. Between requests aiohttp closes it."""

    def __init__(self, connections: Connections, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # None switches it off
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            auto_decompress=False,  # nothing is decompressed for strangers
        )
        self._connections, self._timers = connections, loop
        self.address = ""  # the client's network
        self._socket: asyncio.Transport | None = None
        self._check_handle: asyncio.TimerHandle | None = None
        self._since = loop.time()  # when something last happened
        self._is_idle = False  # between two requests, before the next one's first byte
        self._is_working = False  # on a request
        self._body: StreamReader | None = None  # of the last request
        self._unsent = 0  # bytes of an answer, at the last check

    @property
    def waits_for_client(self) -> bool:
        """Whether nothing can happen before the client sends or reads something."""
        return not self._is_working or self._has_unfinished_transfer

    @property
    def _has_unfinished_transfer(self) -> bool:
        return self._unsent_bytes > 0 or (self._body is not None and not self._body.is_eof())

    @property
    def _unsent_bytes(self) -> int:
        return self._socket.get_write_buffer_size() if self._socket is not None else 0

    def begin_request(self, request: web.Request) -> None:
        self._body, self._is_working, self._is_idle = request.content, True, False
        self._note_progress()

    def end_request(self) -> None:
        self._is_working, self._is_idle = False, True
        self._note_progress()

    def abort(self) -> None:
        if self._socket is not None:
            self._socket.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        if (client := transport.get_extra_info("socket")) is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if peer := transport.get_extra_info("peername"):
            self.address = client_network(peer[0])
        self._connections.add(self)
        self._check_handle = self._timers.call_later(CHECK_SECONDS, self._check)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.remove(self)
        if self._check_handle is not None:
            self._check_handle.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._is_idle = False
            self._note_progress()
        super().data_received(data)

    def resume_writing(self) -> None:
        self._note_progress()
        super().resume_writing()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer a malformed or failed request without details."""
        if isinstance(exc, ConnectionError) and (request.transport is None or request.transport.is_closing()):
            log.debug("client gone during %s %s: %s", request.method, request.path, exc)
        elif status >= 500:
            log.error("request failed: %s %s", request.method, request.path, exc_info=exc)
        else:
            log.debug("malformed request from %s: %s", request.remote, message)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has already begun")
        text = HTTPStatus(status).phrase.lower()
        response = web.json_response({"error": text}, status=status, headers={**SECURITY_HEADERS, "Server": SERVER})
        response.force_close()
        return response

    def _note_progress(self) -> None:
        self._since = self._timers.time()
        self._connections.move_to_end(self)

    def _check(self) -> None:
        now, unsent_before = self._timers.time(), self._unsent
        self._unsent = self._unsent_bytes
        if not self.waits_for_client or self._unsent < unsent_before:
            self._since = now
        elif now - self._since > WAIT_SECONDS and (not self._is_idle or self._has_unfinished_transfer):
            self.abort()
            return
        self._check_handle = self._timers.call_later(CHECK_SECONDS, self._check)


def explain_port(setting: str, host: str, error: OSError) -> tuple[str, str]:
    """Return why the port of a setting can't be served, as the end of a sentence about it, and what to do."""
    match error.errno:
        case errno.EADDRINUSE:
            return "is in use by another program", "choose another port"
        case errno.EACCES:
            return "is only for root", "choose a port from 1024 on"
        case errno.EADDRNOTAVAIL | socket.EAI_NONAME:
            host_setting = setting.replace("PORT", "HOST")
            return f"can't be served at {host}, which isn't an address of this machine", f"correct {host_setting}"
    return f"can't be served at {host} ({error.strerror or error})", "choose another port or address"


@asynccontextmanager
async def serve_if_free(
    app: web.Application, host: str, port: int, connections: Connections, *, setting: str, consequence: str
) -> AsyncIterator[bool]:
    """Serve during the `with` block, and yield whether it is served. A port that can't be served, for example because
    another process with the same .env uses it, is only a warning with the `consequence`: the bots matter more."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serve_http(app, host, port, connections))
            is_served = True
        except OSError as error:
            reason, advice = explain_port(setting, host, error)
            log.warning("%s %d %s, so %s; %s", setting, port, reason, consequence, advice)
            is_served = False
        yield is_served


@asynccontextmanager
async def serve_http(app: web.Application, host: str, port: int, connections: Connections) -> AsyncIterator[int]:
    """Serve the application during the `with` block, and yield the port (0: any free port). Raises OSError."""
    app.middlewares.insert(0, _track_request)
    app.on_response_prepare.insert(0, _add_headers)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    loop, server = asyncio.get_running_loop(), runner.server
    assert server is not None, "the runner is set up"
    try:
        listener = await loop.create_server(
            lambda: _Connection(connections, server, loop), host, port, backlog=ACCEPT_AT_ONCE
        )
        try:
            for listening in listener.sockets:
                with listening.dup() as same:  # asyncio accepts `backlog` at once, but the kernel may hold more
                    same.listen(BACKLOG)
            yield listener.sockets[0].getsockname()[1]
        finally:
            listener.close()
    finally:
        await runner.cleanup()


@web.middleware
async def _track_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    connection = request.protocol
    assert isinstance(connection, _Connection)
    connection.begin_request(request)
    try:
        return await handler(request)
    finally:
        connection.end_request()


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)


def is_same_secret(expected: str, given: str) -> bool:
    """Compare without showing, by the time it takes, how much is right."""
    return hmac.compare_digest(expected.encode(), given.encode(errors="replace"))


async def read_body(request: web.Request) -> bytes:
    """Return the whole body. Raises HTTPRequestEntityTooLarge or HTTPRequestTimeout."""
    if (length := request.content_length or 0) > request.client_max_size:
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, length)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="the body took too long") from None
