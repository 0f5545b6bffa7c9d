"""Text files that people attach, as text for a model: data, each one once.

A file's name, or what Discord says of it, suggests what it is; its bytes decide.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from agent_context.entries import Attachment, Entry
from agent_net.addresses import FetchRefused
from agent_net.picture_fetcher import PictureFetcher

MAX_BYTES = 1_000_000
MAX_FILES = 8  # of a turn, newest first
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


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's words. `left_out` counts the characters behind them that are not shown."""

    name: str
    text: str
    left_out: int = 0


class TextReader:
    """Reads through the one fetcher; what cannot be read is left out with a log line."""

    def __init__(self, fetcher: PictureFetcher) -> None:
        self._fetcher = fetcher
        self._cache: LRUCache[int, str] = LRUCache(
            CACHE_BYTES, lambda text: 4 * len(text)
        )  # an attachment never changes

    async def read(
        self, entries: Sequence[Entry], *, max_characters: int, most: int = MAX_FILES
    ) -> Mapping[int, TextFile]:
        """Text files by attachment id: the newest `most` among the entries, oldest first. Of files with the same text
        only the oldest is there."""
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
            log.info("file %d is not shown to the model: %s", attachment.id, error or "too slow")
            return None
        self._cache[attachment.id] = text
        return text


def is_text(attachment: Attachment) -> bool:
    """Whether it claims to be a text of a size that is read."""
    suffix = attachment.filename.lower().rpartition(".")[2]
    kind = attachment.media_type.lower()
    claims = kind.startswith("text/") or kind in _TYPES or (suffix in _SUFFIXES and not kind.startswith("image/"))
    return claims and 0 < attachment.size <= MAX_BYTES


def as_text(data: bytes) -> str:
    """UTF-8, UTF-16 where a mark says so, else Latin-1. Raises FetchRefused for what is no text at all."""
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
