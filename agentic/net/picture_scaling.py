"""Scale pictures down that a provider would refuse, or would scale down itself at our cost.

The header says whether a picture fits; most do and are passed on unchanged. Decoding is where a decompression bomb
would go off: only pictures that `picture_fetcher` accepted get here (at most `MAX_PIXELS`), and Pillow's own limit
stays on. Decoding runs in a thread, few at once. Results are cached by content, because Discord's addresses keep
changing.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache

from agentic.net.addresses import FetchRefused
from agentic.net.picture_fetcher import MAX_PIXELS, FetchedPicture
from agentic.net.picture_headers import size_of

if TYPE_CHECKING:
    from PIL import Image

ALL_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
CACHE_BYTES = 24_000_000
AT_ONCE = 2  # a decoded picture takes up to 160 MB
QUALITIES = (88, 75, 60)  # of JPEG, until it is small enough
SMALLER = 0.7  # then the sides, again and again
TRIES = 9


@dataclass(frozen=True, slots=True)
class Fit:
    """The limits of a provider: longer side in pixels, bytes, media types."""

    longest_side: int = 2048
    max_bytes: int = 3_900_000
    media_types: frozenset[str] = ALL_TYPES


class Scaler:
    """Scales and caches; shared by all bots of a process."""

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self._cache: LRUCache[tuple[bytes, Fit], FetchedPicture] = LRUCache(cache_bytes, lambda kept: len(kept.data))
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def fit(self, picture: FetchedPicture, fit: Fit) -> FetchedPicture:
        """Return the picture scaled to `fit`. Raises FetchRefused if it cannot be read or made small enough."""
        if fits(picture, fit):
            return picture
        key = (hashlib.sha256(picture.data).digest(), fit)
        known = self._cache.get(key)
        if known is not None:
            return known
        async with self._at_once:
            scaled = await asyncio.to_thread(scale, picture.data, fit)
        with suppress(ValueError):  # larger than all that is kept
            self._cache[key] = scaled
        return scaled


def fits(picture: FetchedPicture, fit: Fit) -> bool:
    """Whether the picture needs no scaling. One whose header has no size does."""
    size = size_of(picture.data, picture.media_type)
    return (
        size is not None
        and max(size) <= fit.longest_side
        and len(picture.data) <= fit.max_bytes
        and picture.media_type in fit.media_types
    )


def scale(data: bytes, fit: Fit) -> FetchedPicture:
    """Decode, scale and encode: JPEG, or PNG if it is transparent and small enough. Raises FetchRefused.

    Only the first frame is kept, and no metadata.
    """
    from PIL import Image, ImageOps  # 60 ms, and rarely needed

    try:
        with Image.open(io.BytesIO(data)) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise FetchRefused("too many pixels")
            opened.draft("RGB", (fit.longest_side, fit.longest_side))  # decode a JPEG at a smaller size
            image: Image.Image = ImageOps.exif_transpose(opened)
            if image.mode in ("P", "1"):  # a palette is scaled without smoothing
                image = image.convert("RGBA" if image.has_transparency_data else "RGB")
            image.thumbnail((fit.longest_side, fit.longest_side))
            return _encoded(image, fit)
    except (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError) as error:
        raise FetchRefused("not a whole picture") from error


def _encoded(image: Image.Image, fit: Fit) -> FetchedPicture:
    transparent = image.has_transparency_data
    if (transparent or "image/jpeg" not in fit.media_types) and "image/png" in fit.media_types:
        png = _as(image.convert("RGBA" if transparent else "RGB"), "PNG")
        if len(png) <= fit.max_bytes:
            return FetchedPicture(png, "image/png")
    flat = _on_white(image)
    for _ in range(TRIES):
        for quality in QUALITIES:
            jpeg = _as(flat, "JPEG", quality)
            if len(jpeg) <= fit.max_bytes:
                return FetchedPicture(jpeg, "image/jpeg")
        flat = flat.resize((max(1, int(flat.width * SMALLER)), max(1, int(flat.height * SMALLER))))
    raise FetchRefused("too large even after scaling")


def _on_white(image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB")
    from PIL import Image

    coloured = image.convert("RGBA")
    white = Image.new("RGBA", coloured.size, "white")
    white.alpha_composite(coloured)
    return white.convert("RGB")


def _as(image: Image.Image, form: str, quality: int | None = None) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **({"quality": quality} if quality is not None else {"optimize": False}))
    return out.getvalue()
