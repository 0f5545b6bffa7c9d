"""Serves the page's own files, from memory: an address is looked up in a table, so none leads out of the folder.

They hold no data and need no token: the page itself asks for it.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
INDEX = "/"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file's content, plain and compressed."""

    content: bytes
    compressed: bytes
    media_type: str
    etag: str


def read_files(folder: Path = FOLDER) -> Mapping[str, StaticFile]:
    """Address → file, of all files of a known type."""
    files = {f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.suffix in TYPES}
    found = {address: _read(path) for address, path in files.items()}
    return {**found, INDEX: found.pop("/index.html")}


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return StaticFile(content, gzip.compress(content, mtime=0), TYPES[path.suffix], etag)


def file_routes(files: Mapping[str, StaticFile]) -> Iterator[web.RouteDef]:
    """A route a file. The browser keeps them, and asks each time whether they are still the same."""

    async def serve(request: web.Request) -> web.Response:
        file = files[request.path]
        headers = {
            "Content-Type": file.media_type,
            "ETag": file.etag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
        }
        if file.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=file.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=file.content, headers=headers)

    for address in files:
        yield web.get(address, serve)
