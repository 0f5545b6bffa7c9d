"""Text files that people attach, as text for a model.

A file's name and media type suggest that it is a text; its bytes decide.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cachetools import LRUCache

from agent_context.entries import Attachment, Entry
from agent_net.addresses import FetchRefused
from agent_net.picture_fetcher import FetchedPicture

MAX_BYTES = 1_000_000
MAX_FILES = 8  # of a turn, the newest
READ_TIMEOUT = 4.0  # seconds for each
CACHE_BYTES = 8_000_000

_TYPES = frozenset(
    f"application/{kind}"
    for kind in ("json", "xml", "yaml", "x-yaml", "toml", "javascript", "typescript", "x-sh", "sql", "x-ndjson", "csv")
)
_SUFFIXES = frozenset({
    "txt", "md", "markdown", "rst", "log", "csv", "tsv", "json", "jsonl", "ndjson", "yaml", "yml", "toml", "ini", "cfg",
    "conf", "xml", "html", "htm", "css", "js", "mjs", "ts", "tsx", "jsx", "py", "pyi", "rb", "go", "rs", "c", "h", "cc",
    "cpp", "hpp", "cs", "java", "kt", "swift", "php", "lua", "pl", "r", "jl", "sh", "bash", "zsh", "ps1", "bat", "sql",
    "tex", "srt", "vtt", "diff", "patch", "dockerfile", "makefile", "gitignore",
})  # fmt: skip
_CONTROL = frozenset(range(32)) - {9, 10, 12, 13, 27}

log = logging.getLogger(__name__)


class Fetcher(Protocol):
    """Reads what people attach, by its address. Each service has its own rules for addresses: Discord's are
    agent_net.picture_fetcher's. Raises FetchRefused."""

    async def fetch(self, url: str) -> FetchedPicture: ...
    async def fetch_bytes(self, url: str, max_bytes: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class TextFile:
    """The beginning of a file's text. `left_out` counts the characters after it that are not shown."""

    name: str
    text: str
    left_out: int = 0


class TextReader:
    """Reads attached texts through its service's fetcher; an unreadable one is left out and logged."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        # By attachment, which never changes.
        self._cache: LRUCache[int, str] = LRUCache(CACHE_BYTES, lambda text: 4 * len(text))

    async def read(
        self, entries: Sequence[Entry], *, max_characters: int, most: int = MAX_FILES
    ) -> Mapping[int, TextFile]:
        """Text files by attachment id: the newest `most` among the entries, oldest first. Of files with the same text
        only the oldest is included."""
        files = [file for entry in entries for file in entry.attachments if is_text(file)]
        wanted = files[max(0, len(files) - most) :]
        texts = await asyncio.gather(*(self._read_one(attachment) for attachment in wanted))
        found: dict[int, TextFile] = {}
        seen: set[bytes] = set()
        for attachment, text in zip(wanted, texts, strict=True):
            digest = hashlib.sha256((text or "").encode()).digest()
            if text and digest not in seen:
                seen.add(digest)
                cut = text[:max_characters]
                found[attachment.id] = TextFile(attachment.filename, cut, len(text) - len(cut))
        return found

    async def _read_one(self, attachment: Attachment) -> str | None:
        known = self._cache.get(attachment.id)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                text = as_text(await self._fetcher.fetch_bytes(attachment.url, MAX_BYTES))
        except (FetchRefused, TimeoutError) as error:
            log.info("file %d could not be read (%s), it is left out", attachment.id, error or "too slow")
            return None
        self._cache[attachment.id] = text
        return text


def is_text(attachment: Attachment) -> bool:
    """Whether name or media type claim a text, of a size that is read."""
    suffix = attachment.filename.lower().rpartition(".")[2]
    kind = attachment.media_type.lower()
    claims = kind.startswith("text/") or kind in _TYPES or (suffix in _SUFFIXES and not kind.startswith("image/"))
    return claims and 0 < attachment.size <= MAX_BYTES


def as_text(data: bytes) -> str:
    """Decodes UTF-8, UTF-16 with a byte order mark, else Latin-1. Raises FetchRefused for binary data."""
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        if not _CONTROL.isdisjoint(data):
            raise FetchRefused("not a text")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return data.decode("latin-1")
    except UnicodeDecodeError:
        raise FetchRefused("not a text") from None
