"""People's attachments, as pictures and texts for a model.

A file's name and media type are only its sender's claims: they decide which files are worth a download
(agentic.context.blocks). The file's bytes decide what it really is.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import LRUCache

from agentic.context.blocks import MAX_BYTES, is_candidate, is_text
from agentic.context.entries import Attachment, Entry
from agentic.llm.types import Picture
from agentic.net.addresses import FetchRefused
from agentic.net.images import ImageLimits, Scaler, as_picture, media_type_of

MAX_PICTURES = 4
MAX_FILES = 8  # of a turn, the newest, besides the files that claim to be pictures
MAX_TEXT = 100_000  # of a text; the option max_file_characters is never higher
ANY_MODEL = ImageLimits()
READ_TIMEOUT = 4.0  # seconds for each
CACHE_BYTES = 8_000_000
SAMPLE = 10_000  # bytes or characters that tell a text's encoding
MAX_UNREADABLE = 10_000  # files that are known to be neither picture nor text

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")  # no ESC: logs have colors
_CONTROL_BYTES = bytes(code for code in range(32) if _CONTROL.match(chr(code)))
_CHARACTERS_FOR_CONTROL = 50  # a text has at most one control character for so many others, and one more
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}

log = logging.getLogger(__name__)


class Fetcher(Protocol):
    """Reads an attachment by its address. Each service has its own rules for addresses; Discord's are in
    agentic.net.images. Raises FetchRefused."""

    async def fetch(self, url: str) -> Picture: ...
    async def fetch_bytes(self, url: str, max_bytes: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class AttachmentLimits:
    """How many pictures a model is shown, the newest first, of what size and format; and how many characters of text
    files."""

    pictures: int = MAX_PICTURES
    fit: ImageLimits = ANY_MODEL
    characters: int = 8_000


@dataclass(frozen=True, slots=True)
class TextFile:
    """The beginning of a file's text. `left_out` counts the characters after it that aren't shown."""

    name: str
    text: str
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Attached:
    """Pictures by message id, texts by attachment id. `shown`: the attachments whose content is among them."""

    pictures: Mapping[int, tuple[Picture, ...]] = field(default_factory=dict)
    texts: Mapping[int, TextFile] = field(default_factory=dict)
    shown: frozenset[int] = frozenset()


DEFAULT_LIMITS = AttachmentLimits()
NOTHING_ATTACHED = Attached()


@dataclass(frozen=True, slots=True)
class _Text:
    beginning: str
    characters: int

    def cut(self, name: str, characters: int) -> TextFile:
        shown = self.beginning[:characters]
        return TextFile(name, shown, self.characters - len(shown))


class AttachmentReader:
    """Reads attachments through its service's fetcher; an unreadable one is left out and logged."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher, self._scaler = fetcher, Scaler()
        # By attachment, which never changes.
        self._texts: LRUCache[int, _Text] = LRUCache(CACHE_BYTES, lambda text: 4 * len(text.beginning) + 1)
        self._unreadable: LRUCache[int, bool] = LRUCache(MAX_UNREADABLE)

    async def read(self, entries: Sequence[Entry], limits: AttachmentLimits = DEFAULT_LIMITS) -> Attached:
        """Read the newest attachments of the entries. Of files with the same text, only the oldest is included."""
        files = [(entry.id, file) for entry in entries for file in entry.attachments if is_candidate(file)]
        likely = [pair for pair in files if pair[1].is_picture]
        others = [pair for pair in files if not pair[1].is_picture]
        wanted = [*likely[max(0, len(likely) - limits.pictures) :], *others[-MAX_FILES:]]
        if not wanted:
            return NOTHING_ATTACHED
        wanted.sort(key=files.index)
        found = await asyncio.gather(*(self._read_one(file, limits.fit) for _, file in wanted))
        read = list(zip(wanted, found, strict=True))
        # What a file was said to be doesn't matter here.
        pictures = [(message_id, file, one) for (message_id, file), one in read if isinstance(one, Picture)]
        pictures = pictures[max(0, len(pictures) - limits.pictures) :]
        texts = _texts(read, limits.characters)
        quoted = {one for (_, file), one in read if file.id in texts}
        shown = {file.id for _, file, _ in pictures} | {file.id for (_, file), one in read if one in quoted}
        by_message: dict[int, tuple[Picture, ...]] = {}
        for message_id, _, picture in pictures:
            by_message[message_id] = (*by_message.get(message_id, ()), picture)
        return Attached(by_message, texts, frozenset(shown))

    async def original(self, attachment: Attachment) -> Picture | None:
        try:
            return await self._fetcher.fetch(attachment.url)
        except FetchRefused as error:
            log.info("could not read picture %d: %s; leaving it out", attachment.id, error)
            return None

    async def fitted(self, picture: Picture, fit: ImageLimits) -> Picture | None:
        try:
            return await self._scaler.fit(as_picture(picture.data), fit)
        except FetchRefused as error:
            log.info("could not convert a tool's picture: %s; leaving it out", error)
            return None

    async def _read_one(self, attachment: Attachment, fit: ImageLimits) -> Picture | _Text | None:
        if attachment.id in self._unreadable:
            return None
        if (known := self._texts.get(attachment.id)) is not None:
            return known
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                data = await self._fetcher.fetch_bytes(attachment.url, MAX_BYTES)
                if media_type_of(data) is not None:
                    return await self._scaler.fit(as_picture(data), fit)
        except (FetchRefused, TimeoutError) as error:
            log.info("could not read file %d: %s; leaving it out", attachment.id, error or "too slow")
            return None
        text = as_text(data)
        if text is None:
            log.info("file %d is neither a picture nor a text; leaving it out", attachment.id)
            self._unreadable[attachment.id] = True
            return None
        kept = self._texts[attachment.id] = _Text(text[:MAX_TEXT], len(text))
        return kept


_Read = Sequence[tuple[tuple[int, Attachment], Picture | _Text | None]]


def _texts(read: _Read, characters: int) -> dict[int, TextFile]:
    """Return the texts by attachment id. Files that don't claim to be texts share the room that the others leave."""
    first: dict[_Text, Attachment] = {}
    for (_, file), one in read:
        if isinstance(one, _Text) and one.characters:
            first.setdefault(one, file)
    texts = {file.id: (file, text) for text, file in first.items()}
    found = {key: text.cut(file.filename, characters) for key, (file, text) in texts.items() if is_text(file)}
    left = characters - sum(len(file.text) for file in found.values())
    for key, (file, text) in reversed(texts.items()):
        if key not in found and left > 0:
            found[key] = text.cut(file.filename, left)
            left -= len(found[key].text)
    return {key: found[key] for key in texts if key in found}


def as_text(data: bytes) -> str | None:
    """Decode UTF-8, UTF-16, UTF-32, or else Windows' Latin letters, without control characters; None for binary
    data."""
    if data.startswith(b"%PDF-"):
        return None
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), _encoding_of(data))
    try:
        text = data.decode(encoding, "replace" if encoding == "utf-8-sig" else "strict")
    except UnicodeDecodeError:
        return None
    if "\ufffd" in text:
        if _CONTROL.search(text):
            return None
        beginning = text[:SAMPLE]
        if sum(char > "\x7f" for char in beginning) < 2 * beginning.count("\ufffd"):  # most of them are no UTF-8
            text = data.decode("cp1252", "replace")
    encoded = text.encode()  # bytes are quick to filter
    clean = encoded.translate(None, _CONTROL_BYTES)
    return clean.decode() if len(encoded) - len(clean) <= 1 + len(text) // _CHARACTERS_FOR_CONTROL else None


def _encoding_of(data: bytes) -> str:
    """Return a UTF-16 encoding if every second byte is mostly zero, as in European texts, or else UTF-8."""
    sample = data[:SAMPLE]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if len(data) % 2 == 0 and max(even, odd) > len(sample) * 0.3 and min(even, odd) <= len(sample) // 50:
        return "utf-16-le" if odd > even else "utf-16-be"
    return "utf-8-sig"
