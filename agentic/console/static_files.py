"""Serves the files of the console's pages. They contain no data, and are read once, at the start."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from agentic.console.scripts import join_scripts
from agentic.console.security import CSP, hash_source

FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
AHEAD = "ahead.js"  # is served as a part of the HTML


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    compressed: bytes
    media_type: str
    etag: str

    @classmethod
    def of(cls, address: str, content: bytes) -> StaticFile:
        media_type = TYPES[Path(address).suffix or ".html"]
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        return cls(content, gzip.compress(content, mtime=0), media_type, etag)


@cache
def read_files(first: str = "live") -> Mapping[str, StaticFile]:
    """Read all files of known types as path → file. Only these paths exist, so none leads out of the folder. `first` is
    the page that is shown at an address without a page."""
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("js/*.js")}
    found = {f"/js/{name}.js": text.encode() for name, text in join_scripts(scripts).items()}
    for path in FOLDER.iterdir():
        if path.name == "index.html":
            found["/"] = write_frame(path.read_text(encoding="utf-8"), first)
        elif path.name == "app.css":
            found["/app.css"] = join_styles(path)
        elif path.suffix in TYPES and path.name != AHEAD:
            found[f"/{path.name}"] = path.read_bytes()
    return {address: StaticFile.of(address, content) for address, content in found.items()}


def join_styles(path: Path) -> bytes:
    """Return a style sheet with the contents of the sheets that it imports, so that a browser asks for one file."""
    text = path.read_text(encoding="utf-8")
    return re.sub(
        r'@import "([^"]+)";', lambda found: (path.parent / found[1]).read_text(encoding="utf-8"), text
    ).encode()


def write_frame(page: str, first: str) -> bytes:
    """Return the HTML with the script that asks ahead for what the page at the browser's address needs, and with the
    icon, which would take one of a browser's six connections."""
    script = (FOLDER / AHEAD).read_text(encoding="utf-8")
    page = page.replace(f'<script src="{AHEAD}"></script>', f"<script>{script}</script>")
    page = page.replace("icon.svg", f"data:image/svg+xml,{quote((FOLDER / 'icon.svg').read_text(encoding='utf-8'))}")
    return page.replace('data-first="live"', f'data-first="{first}"').encode()


def file_routes(files: Mapping[str, StaticFile]) -> Iterator[web.RouteDef]:
    """Yield a route for each file. The browser caches the files, and asks each time whether they have changed."""
    script = hash_source(files["/"].content.decode(), "script")
    policy = CSP.replace("script-src 'self'", f"script-src 'self' {script}")

    async def serve(request: web.Request) -> web.Response:
        file = files[request.path]
        headers = {
            "Content-Type": file.media_type,
            "ETag": file.etag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
        }
        if request.path == "/":
            headers["Content-Security-Policy"] = policy
        if file.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=file.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=file.content, headers=headers)

    for address in files:
        yield web.get(address, serve)
