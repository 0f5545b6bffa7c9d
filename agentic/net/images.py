"""Fetches, identifies, and scales images.

A picture's type and size are read from its first bytes; names and HTTP headers are strangers' claims and ignored.
Pictures with more pixels than any model accepts are rejected.

PictureFetcher fetches people's attachments in Discord. It only requests a few exact hosts, over https on the usual
port, and redirects must stay on them; URLs outside Discord go through fetch.PublicFetcher. Several bots read the same
message, so results are cached for a while, and concurrent requests for a URL share one fetch.

Scaler scales down pictures that a provider would reject, or scale down itself at our cost. The header shows whether a
picture fits, and most do. A decompression bomb would explode while decoding: only pictures that `as_picture` accepted
get there, and Pillow's own limit stays on. Decoding runs in a thread, few at once. Results are cached by content,
because Discord's URLs keep changing.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import struct
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import aiohttp
from cachetools import LRUCache
from yarl import URL

from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused, parsed_url
from agentic.net.fetch import MAX_AT_ONCE, MAX_BYTES, TIMEOUT_SECONDS, download, fetching_within

if TYPE_CHECKING:
    from PIL import Image

DISCORD_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")
ALL_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_SIDE = 8000  # pixels; Anthropic's limit, the lowest of the providers'
MAX_PIXELS = 40_000_000
MAX_DECODED_AT_ONCE = 2  # a decoded picture takes up to 160 MB
CACHE_BYTES = 24_000_000
QUALITIES = (88, 75, 60)  # of JPEG, until it is small enough
SMALLER = 0.7  # the factor for the sides if no quality is enough
_ACCEPT = "image/png,image/jpeg,image/gif,image/webp,text/*,*/*;q=0.1"
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length

Size = tuple[int, int]  # width and height in pixels


class PictureFetcher:
    """Fetches pictures with a session that it doesn't own.

    `extra_origins`, such as "http://127.0.0.1:8080", are trusted like Discord's hosts, even without https: for a
    stand-in on loopback. `timeout`: seconds for a whole fetch.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        extra_origins: Collection[str] = (),
        max_bytes: int = MAX_BYTES,
        timeout: float = TIMEOUT_SECONDS,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._session = session
        self._origins = frozenset(URL(origin).origin() for origin in extra_origins)
        self._max_bytes, self._timeout = max_bytes, timeout
        self._cache: LRUCache[str, bytes] = LRUCache(cache_bytes, len)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._at_once = asyncio.Semaphore(MAX_AT_ONCE)

    async def fetch(self, url: str) -> Picture:
        """Return the picture at this URL. Raises FetchRefused, including for connection errors and timeouts."""
        return as_picture(await self.fetch_bytes(url, self._max_bytes))

    async def fetch_bytes(self, url: str, max_bytes: int) -> bytes:
        """Return the bytes at this URL. Raises FetchRefused, as for more than `max_bytes`, and after a timeout."""
        address = self._allowed(url)
        async with fetching_within(self._timeout), self._locks.setdefault(url, asyncio.Lock()):
            data = self._cache.get(url)
            if data is None:
                async with self._at_once:
                    found = await download(
                        self._session, address, allowed=self._allowed, max_bytes=max_bytes, accept=_ACCEPT
                    )
                data = found.data
                with suppress(ValueError):  # larger than the whole cache
                    self._cache[url] = data
            elif len(data) > max_bytes:
                raise FetchRefused("too large")
            return data

    def _allowed(self, url: str) -> URL:
        address = parsed_url(url)
        try:
            origin = address.origin()
        except ValueError:  # a scheme without origins, such as data:
            raise FetchRefused("not an address") from None
        if origin in self._origins:
            return address
        if address.scheme != "https" or address.port != 443:
            raise FetchRefused("not https")
        if address.raw_host not in DISCORD_HOSTS:
            raise FetchRefused("not one of Discord's hosts")
        return address


def as_picture(data: bytes) -> Picture:
    """Check that the bytes are a picture that models accept. Raises FetchRefused."""
    media_type = media_type_of(data)
    if media_type is None:
        raise FetchRefused("not a picture")
    width, height = size_of(data, media_type) or (0, 0)
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise FetchRefused("too many pixels")
    return Picture(data, media_type)


def media_type_of(data: bytes) -> str | None:
    """Return image/png, image/jpeg, image/gif, or image/webp, or None if it is none of these."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def size_of(data: bytes, media_type: str) -> Size | None:
    """Return the size in the header, or None if it has none."""
    try:
        if media_type == "image/png":
            width, height = struct.unpack_from(">II", data, 16)
            return (width, height) if data[12:16] == b"IHDR" else None
        if media_type == "image/gif":
            width, height = struct.unpack_from("<HH", data, 6)
            return width, height
        return _webp_size(data) if media_type == "image/webp" else _jpeg_size(data)
    except (struct.error, IndexError):
        return None  # the header is cut off


def _webp_size(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = struct.unpack_from("<3s3s", data, 24)
        return int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg_size(data: bytes) -> Size | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == 0xFF or marker in _JPEG_BARE:
            at += 1 if marker == 0xFF else 2
        else:
            at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])
    return None


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """A provider's limits: longest side in pixels, bytes, and media types."""

    longest_side: int = 2048
    max_bytes: int = 3_900_000
    media_types: frozenset[str] = ALL_TYPES


class Scaler:
    """Scales pictures and caches the results, shared by all bots of a process."""

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self._cache: LRUCache[tuple[bytes, ImageLimits], Picture] = LRUCache(cache_bytes, lambda kept: len(kept.data))
        self._at_once = asyncio.Semaphore(MAX_DECODED_AT_ONCE)

    async def fit(self, picture: Picture, limits: ImageLimits) -> Picture:
        """Return the picture scaled to `limits`. Raises FetchRefused if it can't be read or made small enough."""
        if fits(picture, limits):
            return picture
        key = (hashlib.sha256(picture.data).digest(), limits)
        known = self._cache.get(key)
        if known is not None:
            return known
        async with self._at_once:
            scaled = await asyncio.to_thread(scale, picture.data, limits)
        with suppress(ValueError):  # larger than the whole cache
            self._cache[key] = scaled
        return scaled


def fits(picture: Picture, limits: ImageLimits) -> bool:
    """Return whether the picture needs no scaling. Without a size in its header it does."""
    size = size_of(picture.data, picture.media_type)
    return (
        size is not None
        and max(size) <= limits.longest_side
        and len(picture.data) <= limits.max_bytes
        and picture.media_type in limits.media_types
    )


def scale(data: bytes, limits: ImageLimits) -> Picture:
    """Decode, scale, and encode a picture: as JPEG, or as PNG if it is transparent and small enough. Only the first
    frame is kept, without metadata. Raises FetchRefused."""
    from PIL import Image, ImageOps  # 60 ms, and rarely needed

    try:
        with Image.open(io.BytesIO(data)) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise FetchRefused("too many pixels")
            opened.draft("RGB", (limits.longest_side, limits.longest_side))  # decode a JPEG at a smaller size
            image: Image.Image = ImageOps.exif_transpose(opened)
            if image.mode in ("P", "1"):  # a palette is scaled without smoothing
                image = image.convert("RGBA" if image.has_transparency_data else "RGB")
            image.thumbnail((limits.longest_side, limits.longest_side))
            return _encode(image, limits)
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise FetchRefused("not a whole picture") from error


def _encode(image: Image.Image, limits: ImageLimits) -> Picture:
    from PIL import Image

    transparent = image.has_transparency_data
    if (transparent or "image/jpeg" not in limits.media_types) and "image/png" in limits.media_types:
        png = _write(image.convert("RGBA" if transparent else "RGB"), "PNG")
        if len(png) <= limits.max_bytes:
            return Picture(png, "image/png")
    if transparent:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        image = white
    flat = image.convert("RGB")
    for _ in range(9):
        for quality in QUALITIES:
            jpeg = _write(flat, "JPEG", quality)
            if len(jpeg) <= limits.max_bytes:
                return Picture(jpeg, "image/jpeg")
        flat = flat.resize((max(1, int(flat.width * SMALLER)), max(1, int(flat.height * SMALLER))))
    raise FetchRefused("too large even after scaling")


def _write(image: Image.Image, form: str, quality: int | None = None) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **({"quality": quality} if quality is not None else {"optimize": False}))
    return out.getvalue()
