"""The HTTP server of all ports, against clients that send half a request, read nothing, or sit idle."""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing

import pytest
from aiohttp import web

from agentic.net import http_server
from agentic.net.http_server import SECURITY_HEADERS, Connections, connection_limit, read_body, serve_http
from tests.support.ports import free_port

HOST, ELSEWHERE = "127.0.0.1", "127.0.0.2"
ANSWER = b"x" * 8_000_000  # more than the buffers of a connection take
LIMIT = 8


async def _post(request: web.Request) -> web.Response:
    return web.json_response({"length": len(await read_body(request))})


async def _get(_: web.Request) -> web.Response:
    return web.json_response({"status": "here"})


async def _much(_: web.Request) -> web.Response:
    return web.Response(body=ANSWER)


async def _fail(_: web.Request) -> web.Response:
    raise RuntimeError("a secret of the program")


async def _stream(request: web.Request) -> web.StreamResponse:
    """Send an event for each set of `request.app[NEXT]`, for as long as the client stays."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    while True:
        await response.write(b"data: one\n\n")
        await request.app[NEXT].wait()
        request.app[NEXT].clear()


NEXT = web.AppKey("next", asyncio.Event)


def _app() -> web.Application:
    app = web.Application(client_max_size=1_000)
    app[NEXT] = asyncio.Event()
    routes = [web.post("/", _post), web.get("/", _get), web.get("/much", _much), web.get("/fail", _fail)]
    app.add_routes([*routes, web.get("/stream", _stream)])
    return app


@pytest.fixture
def connections() -> Connections:
    return Connections(LIMIT)


@asynccontextmanager
async def serving(connections: Connections, port: int, app: web.Application | None = None) -> AsyncIterator[int]:
    async with serve_http(app or _app(), HOST, port, connections):
        yield port


@pytest.fixture
async def port(connections: Connections) -> AsyncIterator[int]:
    async with asyncio.timeout(60), serving(connections, free_port()) as port:
        yield port


async def send(port: int, data: bytes, address: str | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send from this address of the machine."""
    own = (address, 0) if address is not None else None
    reader, writer = await asyncio.open_connection(HOST, port, limit=2**16, local_addr=own)
    writer.write(data)
    return reader, writer


async def ask(port: int, data: bytes = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") -> str:
    reader, writer = await send(port, data)
    with closing(writer):
        return (await reader.read()).decode()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Return whether the server ended the connection without an answer."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


WAITING = {
    "nothing": b"",
    "half a header": b"POST / HTTP/1.1\r\nHost: a\r\nX-",
    "half a body": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\nabc",
    "half a body that nobody reads": b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\nabc",
    "an answer that is not read": b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n",
    "many answers that are not read": b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n" * 30,
    "an idle connection": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.promise(37, 522)
@pytest.mark.parametrize("data", WAITING.values(), ids=WAITING)
async def test_clients_that_wait_give_way_to_honest_ones(data: bytes, port: int, connections: Connections) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(3 * LIMIT):
            _, writer = await send(port, data)
            stack.enter_context(closing(writer))
            assert len(connections) <= LIMIT
        for _ in range(LIMIT):
            assert "here" in await ask(port)
        assert len(connections) <= LIMIT


SLOW = {name: data for name, data in WAITING.items() if name != "an idle connection"}


@pytest.mark.promise(522)
@pytest.mark.parametrize("data", SLOW.values(), ids=SLOW)
async def test_a_connection_whose_client_keeps_it_waiting_ends(
    data: bytes, port: int, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WAIT_SECONDS", "BODY_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(http_server, name, 0.1)
    monkeypatch.setattr(http_server, "CHECK_SECONDS", 0.01)
    _, writer = await send(port, data)
    with closing(writer):
        while not len(connections):  # noqa: ASYNC110
            await asyncio.sleep(0)
        while len(connections):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("beginning", [b"GET / HTTP/1.1\r\nHost: ", WAITING["half a body"]], ids=["header", "body"])
async def test_bytes_that_come_one_by_one_win_no_time(
    beginning: bytes, port: int, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WAIT_SECONDS", "BODY_SECONDS", "LINGER_SECONDS"):
        monkeypatch.setattr(http_server, name, 0.2)
    monkeypatch.setattr(http_server, "CHECK_SECONDS", 0.01)
    _, writer = await send(port, beginning)
    with closing(writer):
        while not len(connections):  # noqa: ASYNC110
            await asyncio.sleep(0)
        while len(connections):
            writer.write(b"a")
            await asyncio.sleep(0.02)


async def test_a_large_answer_is_read_to_its_end_by_a_client_that_reads_steadily(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "CHECK_SECONDS", 0.01)
    reader, writer = await send(port, b"GET /much HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    count, loop = 0, asyncio.get_running_loop()
    began = loop.time()
    with closing(writer):
        while data := await reader.read(100_000):
            count += len(data)
            await asyncio.sleep(0.01)
    assert count > len(ANSWER)
    assert loop.time() - began > 0.7, "it took longer than a stalled one is given"


async def test_a_stream_of_events_outlasts_every_deadline_and_an_attack(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(http_server, "CHECK_SECONDS", 0.01)
    app = _app()
    async with asyncio.timeout(60), serving(connections, free_port(), app) as port, AsyncExitStack() as stack:
        reader, writer = await send(port, b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
        stack.enter_context(closing(writer))
        await reader.readuntil(b"data: one\n\n")
        for _ in range(3 * LIMIT):
            half, other = await send(port, WAITING["half a header"])
            stack.enter_context(closing(other))
        assert await ended(half)
        app[NEXT].set()
        await reader.readuntil(b"data: one\n\n")


@pytest.mark.promise(553)
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has one loopback address only")
@pytest.mark.parametrize("data", WAITING.values(), ids=WAITING)
async def test_an_address_with_many_connections_ends_its_own_and_not_those_of_a_slow_client(
    data: bytes, port: int, connections: Connections
) -> None:
    async with AsyncExitStack() as stack:
        begun = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        reader, writer = await send(port, begun, ELSEWHERE)
        stack.enter_context(closing(writer))
        await reader.readuntil(b"100 Continue\r\n\r\n")
        for _ in range(3 * LIMIT):
            _, other = await send(port, data)
            stack.enter_context(closing(other))
        assert "here" in await ask(port)
        writer.write(b"abc")
        assert b'{"length": 3}' in await reader.readuntil(b"}")
        assert len(connections) <= LIMIT


async def test_two_ports_share_one_limit(port: int, connections: Connections) -> None:
    async with serving(connections, free_port()) as second, AsyncExitStack() as stack:
        for _ in range(2 * LIMIT):
            _, writer = await send(port, WAITING["half a header"])
            stack.enter_context(closing(writer))
        assert "here" in await ask(second)
        assert len(connections) <= LIMIT


ERRORS = {
    400: b"NONSENSE\r\n\r\n",
    404: b"GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    405: b"PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    413: b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1001\r\n\r\n" + b"a" * 1001,
    500: b"GET /fail HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    200: b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
}
MALFORMED = {
    "a long request line": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 500 + b"\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a bad chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n\r\n",
}


@pytest.mark.parametrize(
    ("status", "data"),
    [*ERRORS.items(), *((400, data) for data in MALFORMED.values())],
    ids=[*map(str, ERRORS), *MALFORMED],
)
async def test_every_answer_has_the_security_headers_and_no_version(
    status: int, data: bytes, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    head, _, body = (await ask(port, data)).partition("\r\n\r\n")
    assert head.split()[1] == str(status)
    for name, value in SECURITY_HEADERS.items():
        assert f"{name}: {value}" in head
    for banner in ("aiohttp", "python"):
        assert banner not in head.lower() + body.lower()
    assert "Traceback" not in body
    assert "secret" not in body
    assert ("Traceback" in caplog.text) == (status == 500), "a stranger does not fill the log"


LEAVING = {
    "a body": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\nExpect: 100-continue\r\n\r\n",
    "a chunked body": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n3\r\na",
    "a stream": b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.promise(554)
@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("data", LEAVING.values(), ids=LEAVING)
async def test_a_client_that_leaves_in_the_middle_is_no_error_in_the_log(
    data: bytes, is_reset: bool, connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    app = _app()
    async with asyncio.timeout(60), serving(connections, free_port(), app) as port:
        reader, writer = await send(port, data)
        await reader.readuntil(b"\r\n\r\n")  # so its handler runs
        if is_reset:
            client = writer.get_extra_info("socket")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        while len(connections):
            app[NEXT].set()
            await asyncio.sleep(0)
    assert not caplog.records


@pytest.mark.parametrize(("files", "least", "most"), [(64, 8, 16), (256, 32, 64), (1_024, 100, 256), (10**6, 100, 256)])
def test_the_limit_leaves_most_files_to_the_program(
    files: int, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert least <= connection_limit() <= most


def test_no_limit_of_files_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert connection_limit() == http_server.MAX_CONNECTIONS
