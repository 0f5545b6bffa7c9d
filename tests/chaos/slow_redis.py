"""A way to Redis on which what is asked arrives at once and is carried out, and the answer comes late or never."""

from __future__ import annotations

import asyncio
import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Line:
    """One connection; `cut`: the answer to what was asked last does not come through."""

    cut: bool = False


class SlowRedis:
    """`async with SlowRedis(socket) as way`: `way.url` leads there; `way.delay`, in seconds, may change at any time.

    For each of `way.cuts`, words of a command or of its script, the connection on which the next such command comes is
    cut between its execution and its reply; `way.cut` has those that were.
    """

    def __init__(self, socket: Path) -> None:
        self.delay = 0.0
        self.cuts: list[str] = []
        self.cut: list[str] = []
        self._scripts: dict[bytes, bytes] = {}  # by their digests
        self._socket = socket
        self._path = socket.with_name("slow.sock")
        self.url = f"unix://{self._path}"
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> SlowRedis:
        self._server = await asyncio.start_unix_server(self._serve, self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        line = Line()
        there, back = await asyncio.open_unix_connection(self._socket)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, back, line, asked=True))
                both.create_task(self._carry(there, writer, line, asked=False))
        except* (ConnectionError, EOFError):
            pass  # one side is gone, so the other one goes too
        finally:
            for end in (writer, back):
                end.close()

    async def _carry(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, line: Line, *, asked: bool
    ) -> None:
        """Each piece as late as the delay was when it came, in order and however many follow it."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(self._send(pieces, target))
        try:
            while piece := await source.read(65536):
                if asked:
                    self._look(piece, line)
                elif line.cut:
                    break
                pieces.put_nowait((loop.time() + (0.0 if asked else self.delay), piece))
            raise EOFError
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await sending

    def _look(self, piece: bytes, line: Line) -> None:
        for found in re.finditer(rb"\$4\r\nEVAL\r\n\$(\d+)\r\n", piece):
            text = piece[found.end() : found.end() + int(found[1])]
            self._scripts[hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()] = text
        for digest in re.findall(rb"\$7\r\nEVALSHA\r\n\$40\r\n(\w+)", piece):
            piece += self._scripts.get(digest, b"")
        for words in [words for words in self.cuts if words.encode() in piece]:
            self.cuts.remove(words)
            self.cut.append(words)
            line.cut = True

    async def _send(self, pieces: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(due - loop.time())
            target.write(piece)
            await target.drain()
