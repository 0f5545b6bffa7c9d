"""What people attach, as pictures and texts for a model.

A file's name and media type are its sender's claims: they only decide which files are worth a download
(agent_context.selecting.attachment_choice). What a file is, its bytes decide, here.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import LRUCache

from agent_context.entries import Attachment, Entry
from agent_context.selecting.attachment_choice import MAX_BYTES, is_candidate, is_text
from agent_llm.types import Picture
from agent_net.addresses import FetchRefused
from agent_net.picture_fetcher import FetchedPicture, as_picture
from agent_net.picture_headers import media_type_of
from agent_net.picture_scaling import Fit, Scaler

MAX_PICTURES = 4
MAX_FILES = 8  # of a turn that are no claimed pictures, the newest
MAX_TEXT = 100_000  # characters that are kept of a text; the option max_file_characters is never higher
ANY_MODEL = Fit()
READ_TIMEOUT = 4.0  # seconds for each
CACHE_BYTES = 8_000_000
MAX_UNREADABLE = 10_000  # files that are known to be neither picture nor text

_CONTROL = r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]"  # no ESC: logs have colors
_CONTROL_BYTE, _CONTROL_CHARACTER = re.compile(_CONTROL.encode()), re.compile(_CONTROL)
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

log = logging.getLogger(__name__)


class Fetcher(Protocol):
    """Reads what people attach, by its address. Each service has its own rules for addresses: Discord's are
    agent_net.picture_fetcher's. Raises FetchRefused."""

    async def fetch(self, url: str) -> FetchedPicture: ...
    async def fetch_bytes(self, url: str, max_bytes: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class AttachmentLimits:
    """How many pictures a model is shown, the newest first, and of what size and format; and how many characters of
    text files."""

    pictures: int = MAX_PICTURES
    fit: Fit = ANY_MODEL
    characters: int = 8_000


@dataclass(frozen=True, slots=True)
class TextFile:
    """The beginning of a file's text. `left_out` counts the characters after it that are not shown."""

    name: str
    text: str
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Attached:
    """Pictures by message id, texts by attachment id."""

    pictures: Mapping[int, tuple[Picture, ...]] = field(default_factory=dict)
    texts: Mapping[int, TextFile] = field(default_factory=dict)


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

    def __init__(self, fetcher: Fetcher, scaler: Scaler | None = None) -> None:
        self._fetcher, self._scaler = fetcher, scaler or Scaler()
        # By attachment, which never changes.
        self._texts: LRUCache[int, _Text] = LRUCache(CACHE_BYTES, lambda text: 4 * len(text.beginning) + 1)
        self._unreadable: LRUCache[int, bool] = LRUCache(MAX_UNREADABLE)

    async def read(self, entries: Sequence[Entry], limits: AttachmentLimits = DEFAULT_LIMITS) -> Attached:
        """Read the newest attachments of the entries. Of files with the same text only the oldest is included."""
        files = [(entry.id, file) for entry in entries for file in entry.attachments if is_candidate(file)]
        pictures = [pair for pair in files if pair[1].is_picture]
        others = [pair for pair in files if not pair[1].is_picture]
        wanted = [*pictures[max(0, len(pictures) - limits.pictures) :], *others[-MAX_FILES:]]
        if not wanted:
            return NOTHING_ATTACHED
        wanted.sort(key=files.index)
        found = await asyncio.gather(*(self._read_one(file, limits.fit) for _, file in wanted))
        read = list(zip(wanted, found, strict=True))
        return Attached(_pictures(read, limits.pictures), _texts(read, limits.characters))

    async def original(self, attachment: Attachment) -> Picture | None:
        """Return the picture as it was posted; None if it can't be read."""
        try:
            fetched = await self._fetcher.fetch(attachment.url)
        except FetchRefused as error:
            log.info("picture %d could not be read (%s), it is not shown", attachment.id, error)
            return None
        return Picture(fetched.data, fetched.media_type)

    async def fitted(self, picture: Picture, fit: Fit) -> Picture | None:
        """Return a tool's picture scaled and converted to `fit`; None if that fails."""
        try:
            made = await self._scaler.fit(as_picture(picture.data), fit)
        except FetchRefused as error:
            log.info("a tool's picture cannot be converted (%s), it is left out", error)
            return None
        return Picture(made.data, made.media_type)

    async def _read_one(self, attachment: Attachment, fit: Fit) -> Picture | _Text | None:
        if attachment.id in self._unreadable:
            return None
        if (known := self._texts.get(attachment.id)) is not None:
            return known
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                data = await self._fetcher.fetch_bytes(attachment.url, MAX_BYTES)
                if media_type_of(data) is not None:
                    made = await self._scaler.fit(as_picture(data), fit)
                    return Picture(made.data, made.media_type)
        except (FetchRefused, TimeoutError) as error:
            log.info("file %d could not be read (%s), it is left out", attachment.id, error or "too slow")
            return None
        text = as_text(data)
        if text is None:
            log.info("file %d is neither a picture nor a text, it is left out", attachment.id)
            self._unreadable[attachment.id] = True
            return None
        kept = self._texts[attachment.id] = _Text(text[:MAX_TEXT], len(text))
        return kept


_Read = Sequence[tuple[tuple[int, Attachment], Picture | _Text | None]]


def _pictures(read: _Read, most: int) -> dict[int, tuple[Picture, ...]]:
    """Return the newest pictures by message id, whatever their files were said to be."""
    found: dict[int, tuple[Picture, ...]] = {}
    pictures = [(message_id, one) for (message_id, _), one in reversed(read) if isinstance(one, Picture)]
    for message_id, picture in pictures[: max(0, most)][::-1]:
        found[message_id] = (*found.get(message_id, ()), picture)
    return found


def _texts(read: _Read, characters: int) -> dict[int, TextFile]:
    """Return the texts by attachment id. Those that were not said to be texts share the room that the others leave."""
    seen: set[bytes] = set()
    texts: dict[int, tuple[Attachment, _Text]] = {}
    for (_, file), one in read:
        if isinstance(one, _Text) and one.characters:
            digest = hashlib.sha256(one.beginning.encode()).digest()
            if digest not in seen:
                seen.add(digest)
                texts[file.id] = (file, one)
    found = {key: text.cut(file.filename, characters) for key, (file, text) in texts.items() if is_text(file)}
    left = characters - sum(len(file.text) for file in found.values())
    for key, (file, text) in reversed(texts.items()):
        if key not in found and left > 0:
            found[key] = text.cut(file.filename, left)
            left -= len(found[key].text)
    return {key: found[key] for key in texts if key in found}


def as_text(data: bytes) -> str | None:
    """Decode UTF-8, UTF-16 with a byte order mark, else Latin-1; None for binary data."""
    if data.startswith(b"%PDF-"):
        return None
    if data.startswith(_UTF_16):
        try:
            text = data.decode("utf-16")
        except UnicodeDecodeError:
            return None
        return text if _CONTROL_CHARACTER.search(text) is None else None
    if _CONTROL_BYTE.search(data):
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
