"""The stream of events to open pages: server-sent events, each encoded once for all readers.

Events have ids, `{start}-{number}`; the newest are kept, so that a page that lost its connection goes on where it was.
Where that is no longer possible, or the program was restarted, it gets a `reset` and asks for everything again.
A reader has a queue with a bound. One that does not read is cut off: it neither holds the loop nor grows memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import deque
from collections.abc import Callable
from typing import Any

KEPT = 500  # events that a page may have missed
MOST_WAITING = 200  # frames for one reader
MOST_READERS = 200
CHUNK = 16_384  # bytes, about, that are written at once

log = logging.getLogger(__name__)


class TooManyReaders(Exception):
    """As many pages are open as may be."""


class Reader:
    """An open page. `cut` is called once, when the reader is too slow; it should end the connection."""

    def __init__(self, first: list[bytes], cut: Callable[[], None]) -> None:
        self._frames, self._cut = deque(first), cut
        self._more = asyncio.Event()
        self._ended = False

    async def next(self, patience: float) -> bytes | None:
        """Frames that wait, joined up to a size; b"" if none comes for `patience` seconds, None at the end."""
        if not self._frames and not self._ended:
            try:
                async with asyncio.timeout(patience):
                    await self._more.wait()
            except TimeoutError:
                return b""
        if self._ended:
            return None
        chunk = b""
        while self._frames and len(chunk) < CHUNK:
            chunk += self._frames.popleft()
        if not self._frames:
            self._more.clear()
        return chunk

    def put(self, frame: bytes) -> bool:
        """False, and the end, where too many wait already."""
        if len(self._frames) >= MOST_WAITING:
            self.end()
            self._cut()
            return False
        self._frames.append(frame)
        self._more.set()
        return True

    def end(self) -> None:
        self._ended = True
        self._frames.clear()
        self._more.set()


class Hub:
    """Publishes events to all readers."""

    def __init__(self, *, kept: int = KEPT, most_readers: int = MOST_READERS) -> None:
        self._start = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[bytes] = deque(maxlen=kept)  # the last one has `_number`
        self._readers: set[Reader] = set()
        self._most = most_readers
        self._closed = False
        self.watched = asyncio.Event()  # set while a page is open

    @property
    def cursor(self) -> str:
        """The id of the newest event: a page that has asked for everything now goes on after it."""
        return f"{self._start}-{self._number}"

    @property
    def readers(self) -> int:
        return len(self._readers)

    def publish(self, event: str, data: Any) -> None:
        """Send an event, and keep it for pages that are away for a moment."""
        self._number += 1
        frame = f"id: {self.cursor}\n".encode() + _frame(event, data)
        self._kept.append(frame)
        self._send(frame)

    def show(self, event: str, data: Any) -> None:
        """Send an event that the next of its kind replaces: it has no id and is not kept."""
        self._send(_frame(event, data))

    def open(self, after: str, cut: Callable[[], None], *first: tuple[str, Any]) -> Reader:
        """A reader that first gets what it missed since the event `after` ("" for a page that missed nothing), then
        the events `first`. Raises TooManyReaders."""
        if len(self._readers) >= self._most or self._closed:
            raise TooManyReaders
        reader = Reader([*self._missed(after), *(_frame(event, data) for event, data in first)], cut)
        self._readers.add(reader)
        self.watched.set()
        return reader

    def leave(self, reader: Reader) -> None:
        reader.end()
        self._readers.discard(reader)
        if not self._readers:
            self.watched.clear()

    def close(self) -> None:
        """End all readers; no new one is let in."""
        self._closed = True
        for reader in list(self._readers):
            self.leave(reader)

    def _missed(self, after: str) -> list[bytes]:
        if not after:
            return []
        start, _, number = after.partition("-")
        missed = self._number - int(number) if number.isdecimal() and len(number) < 16 else -1
        if start != self._start or not 0 <= missed <= len(self._kept):
            return [f"id: {self.cursor}\n".encode() + _frame("reset", {})]
        return list(self._kept)[len(self._kept) - missed :]

    def _send(self, frame: bytes) -> None:
        slow = [reader for reader in self._readers if not reader.put(frame)]
        for reader in slow:
            log.info("an open page of the console does not read and is cut off; it comes back by itself")
            self.leave(reader)


def _frame(event: str, data: Any) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode(
        "utf-8", "replace"
    )
