from __future__ import annotations

import asyncio
import gzip
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.net.images import PictureFetcher, as_picture

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\x10\0\0\0\x10" + b"rest"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[tuple[PictureFetcher, str]]:
    """A fetcher and the origin of a local server that it trusts."""
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    async with TestServer(app, host="127.0.0.1") as server, aiohttp.ClientSession() as session:
        origin = f"http://127.0.0.1:{server.port}"
        yield PictureFetcher(session, extra_origins=[origin], **options), origin


def answering(body: bytes = PNG, **more: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, **more)

    return handler


async def refusal(fetcher: PictureFetcher, url: str) -> str:
    with pytest.raises(FetchRefused) as caught:
        await fetcher.fetch(url)
    return caught.value.reason


async def test_a_picture_is_fetched_and_told_by_its_bytes() -> None:
    async with serving(answering(content_type="text/html")) as (fetcher, origin):
        assert await fetcher.fetch(f"{origin}/a.jpg?ex=1") == Picture(PNG, "image/png")


@pytest.mark.promise(25)
@pytest.mark.parametrize(
    "url",
    [
        "http://cdn.discordapp.com/a.png",
        "https://cdn.discordapp.com:8443/a.png",
        "https://cdn.discordapp.com./a.png",
        "https://cdn.discordapp.com.example.org/a.png",
        "https://example.org/cdn.discordapp.com/a.png",
        "https://cdn.discordapp.com@example.org/a.png",
        "https://user@cdn.discordapp.com/a.png",
        "https://evil.cdn.discordapp.com/a.png",
        "https://cdn.discordapp.com\\@example.org/a.png",
        "https://127.0.0.1/a.png",
        "http://127.0.0.1/a.png",
        "https://[::1]/a.png",
        "https://2130706433/a.png",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "ftp://cdn.discordapp.com/a.png",
        "data:image/png;base64,AAAA",
        "//cdn.discordapp.com/a.png",
        "/a.png",
        "https://",
        "https://[/a.png",
        "",
    ],
)
async def test_other_addresses_are_refused_without_asking_anybody(url: str) -> None:
    class NoSession:
        def get(self, *_: object, **__: object) -> None:
            raise AssertionError("asked")

    await refusal(PictureFetcher(NoSession()), url)  # type: ignore[arg-type]


@pytest.mark.promise(25)
async def test_discords_hosts_are_asked_over_https() -> None:
    asked: list[str] = []

    class NobodyThere:
        def get(self, address: object, **_: object) -> None:
            asked.append(str(address))
            raise aiohttp.ClientConnectionError

    fetcher = PictureFetcher(NobodyThere())  # type: ignore[arg-type]
    urls = ["https://cdn.discordapp.com/attachments/1/2/a.png?ex=a&hm=b", "https://MEDIA.discordapp.net/a.png"]
    assert [await refusal(fetcher, url) for url in urls] == ["no connection"] * 2
    assert asked == [urls[0], "https://media.discordapp.net/a.png"]


@pytest.mark.promise(27)
async def test_a_redirect_is_followed_only_to_an_allowed_place() -> None:
    targets = {"/here": "/there", "/away": "http://localhost:1/x", "/loop": "/loop", "/file": "file:///etc/passwd"}

    async def handler(request: web.Request) -> web.Response:
        if request.path in targets:
            return web.Response(status=302, headers={"Location": targets[request.path]})
        return web.Response(status=307) if request.path == "/nowhere" else web.Response(body=PNG)

    async with serving(handler) as (fetcher, origin):
        assert (await fetcher.fetch(f"{origin}/here")).data == PNG
        assert await refusal(fetcher, f"{origin}/away") == "not https"
        assert await refusal(fetcher, f"{origin}/loop") == "too many redirects"
        assert await refusal(fetcher, f"{origin}/nowhere") == "too many redirects"
        await refusal(fetcher, f"{origin}/file")


@pytest.mark.promise(28)
async def test_a_stream_is_cut_at_the_limit_whatever_its_header_says() -> None:
    sent = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()  # chunked: no Content-Length
        await response.prepare(request)
        with suppress(ConnectionError):
            while sent < 500:
                await response.write(PNG + bytes(100_000))
                sent += 1
        return response

    async with serving(handler, max_bytes=200_000) as (fetcher, origin):
        assert await refusal(fetcher, f"{origin}/a.png") == "too large"
    assert sent < 500


@pytest.mark.promise(28)
async def test_an_announced_length_over_the_limit_is_refused_at_once() -> None:
    async with serving(answering(PNG + bytes(1000)), max_bytes=1000) as (fetcher, origin):
        assert await refusal(fetcher, f"{origin}/a.png") == "too large"


@pytest.mark.promise(29)
async def test_a_compressed_answer_is_refused() -> None:
    bomb = answering(gzip.compress(PNG + bytes(1_000_000)), headers={"Content-Encoding": "gzip"})
    async with serving(bomb) as (fetcher, origin):
        assert await refusal(fetcher, f"{origin}/a.png") == "a compressed answer"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not a picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture"),
        (b"RIFF\0\0\0\0WAVE", "not a picture"),
        (PNG.replace(b"\0\0\0\x10", b"\0\0\xff\xff"), "too many pixels"),
    ],
)
async def test_what_no_model_takes_is_refused(body: bytes, reason: str) -> None:
    async with serving(answering(body, content_type="image/png")) as (fetcher, origin):
        assert await refusal(fetcher, f"{origin}/a.png") == reason


async def test_a_failure_names_its_status_and_is_not_kept() -> None:
    statuses = [404, 200]

    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=statuses.pop(0), body=PNG)

    async with serving(handler) as (fetcher, origin):
        assert await refusal(fetcher, f"{origin}/a.png") == "HTTP 404"
        assert (await fetcher.fetch(f"{origin}/a.png")).data == PNG


async def test_a_silent_server_is_given_up() -> None:
    release = asyncio.Event()

    async def handler(_: web.Request) -> web.Response:
        await release.wait()
        return web.Response(body=PNG)

    async with serving(handler, timeout=0.05) as (fetcher, origin):
        assert await refusal(fetcher, f"{origin}/a.png") == "it took too long"
        release.set()


async def test_several_bots_at_once_cause_one_request() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=PNG)

    async with serving(handler) as (fetcher, origin):
        await asyncio.gather(*(fetcher.fetch(f"{origin}/a.png") for _ in range(4)))
        await fetcher.fetch(f"{origin}/b.png")
    assert asked == ["/a.png", "/b.png"]


async def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(body=PNG)

    async with serving(handler, cache_bytes=2 * len(PNG)) as (fetcher, origin):
        for name in ("a", "b", "a", "c", "a", "b"):
            await fetcher.fetch(f"{origin}/{name}")
    assert asked == ["/a", "/b", "/c", "/b"]


@pytest.mark.parametrize(("width", "height", "taken"), [(7000, 5000, True), (8001, 10, False), (7000, 7000, False)])
def test_a_picture_has_a_longest_side_and_a_largest_area(width: int, height: int, taken: bool) -> None:
    data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + bytes(8)
    if taken:
        assert as_picture(data).media_type == "image/png"
    else:
        with pytest.raises(FetchRefused, match="pixels"):
            as_picture(data)
