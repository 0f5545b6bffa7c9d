"""The server of the chat of lines, and the people in it.

Each line is a JSON object. The server greets with its rooms, gives each message a time of its own, and sends every
line to everybody:

    {"rooms": ["kitchen"]}
    {"room": "kitchen", "at": 1764190000001, "author": "Anna", "text": "hello", "reply_to": null}
    {"room": "kitchen", "at": 1764190000001, "author": "Anna", "text": "hello!", "edited": true}
    {"room": "kitchen", "at": 1764190000001, "author": "Anna", "deleted": true}
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


class LineServer:
    """What was said, by its time, and who listens."""

    def __init__(self, *rooms: str) -> None:
        self.rooms, self.said = rooms, dict[int, dict[str, Any]]()
        self.port = 0
        self._at = int(time.time() * 1000) - 100_000
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LineServer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps({"rooms": self.rooms}).encode() + b"\n")
        self._writers.add(writer)
        try:
            async for line in reader:
                self.say(**json.loads(line))
        finally:
            self._writers.discard(writer)
            writer.close()

    @property
    def listeners(self) -> int:
        return len(self._writers)

    def say(self, room: str, author: str, text: str, reply_to: int | None = None, key: str = "") -> int:
        """Somebody writes; the time by which everybody knows the message."""
        self._at += 1
        line = {"room": room, "at": self._at, "author": author, "text": text, "reply_to": reply_to, "key": key}
        self.said[self._at] = line
        self._send(line)
        return self._at

    def edit(self, at: int, text: str) -> None:
        self.said[at]["text"] = text
        self._send({**self.said[at], "edited": True})

    def delete(self, at: int) -> None:
        self._send({**self.said.pop(at), "text": "", "deleted": True})

    def _send(self, line: dict[str, Any]) -> None:
        for writer in self._writers:
            writer.write(json.dumps(line).encode() + b"\n")
