"""A small web on loopback for searches: the engine Tavily, sites with pictures, and ddgs's search for pictures."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer

from agentic.net.addresses import is_public
from agentic.net.fetch import PublicFetcher
from agentic.tools.toolset import Keyless
from tests.support.asking import picture

LOOPBACK = "127.0.0.1"
PHOTO = picture("photo.png", "green", size=(300, 200))[1]
PAGES = (
    {"title": "Trees of the world", "url": "https://trees.example/tall", "content": "The tallest is Hyperion."},
    {"title": "Wood", "url": "https://wood.example/news", "content": "Hyperion has grown."},
)


class Loopback(AbstractResolver):
    """Every name is this machine."""

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        return [{"hostname": host, "host": LOOPBACK, "port": port, "family": family, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        pass


def open_to(port: int) -> Callable[[], PublicFetcher]:
    """A fetcher that takes loopback for a public place where a name leads there; everything else as it is."""
    here = ipaddress.ip_address(LOOPBACK)
    return partial(
        PublicFetcher, ports={port}, resolver=Loopback(), may_connect=lambda number: number == here or is_public(number)
    )


class SearchWeb:
    """`queries` came to the engine, `asked_pictures` to the search for pictures, `fetched` are paths of pictures.

    `pages` are what the engine finds; None: it answers HTTP 500. `hangs`: it never answers. `pictures` are the
    addresses that the search for pictures finds, where {web} is this server under a public name; an exception is
    raised.
    """

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.asked_pictures: list[str] = []
        self.fetched: list[str] = []
        self.pages: Sequence[dict[str, str]] | None = PAGES
        self.pictures: Sequence[str] | Exception = ("{web}/photo.png",)
        self.hangs = False
        self.port = 0
        self._over = asyncio.Event()

    @property
    def setup(self) -> dict[str, Any]:
        """Fields of a flow's set-up."""
        return {
            "pages": open_to(self.port),
            "keyless": Keyless(text=lambda *_: [], images=self._images),
            "search_bases": {"tavily": f"http://{LOOPBACK}:{self.port}"},
        }

    def _images(self, query: str, count: int, seconds: float) -> list[dict[str, Any]]:
        self.asked_pictures.append(query)
        if isinstance(self.pictures, Exception):
            raise self.pictures
        here = f"http://photos.example:{self.port}"
        return [{"title": "a picture", "image": address.format(web=here)} for address in self.pictures]

    async def _search(self, request: web.Request) -> web.Response:
        self.queries.append((await request.json())["query"])
        if self.hangs:
            await self._over.wait()
        if self.pages is None:
            return web.Response(status=500)
        return web.json_response({"results": list(self.pages)})

    async def _photo(self, request: web.Request) -> web.StreamResponse:
        self.fetched.append(request.path)
        if request.path == "/huge.png":  # 50 MB, of whose length it says nothing
            huge = web.StreamResponse()
            await huge.prepare(request)
            await huge.write(PHOTO)
            for _ in range(50):
                await huge.write(b"\0" * 1_000_000)
            return huge
        if request.path == "/slow.png":
            await self._over.wait()
        if request.path == "/inside.png":
            raise web.HTTPFound(f"http://{LOOPBACK}:{self.port}/photo.png")
        return web.Response(body=PHOTO if request.path == "/photo.png" else b"<html>")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[SearchWeb]:
        app = web.Application()
        app.router.add_post("/search", self._search)
        app.router.add_get("/{path:.*}", self._photo)
        async with TestServer(app, host=LOOPBACK) as server:
            assert server.port is not None
            self.port = server.port
            try:
                yield self
            finally:
                self._over.set()


def search_web() -> Any:
    """`async with search_web() as there`."""
    return SearchWeb().serving()
