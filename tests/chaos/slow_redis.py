"""A way to Redis that takes its time: what is asked arrives at once and is carried out, the answer comes late."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path


class SlowRedis:
    """`async with SlowRedis(socket) as way`: `way.url` leads there; `way.delay`, in seconds, may change at any time."""

    def __init__(self, socket: Path) -> None:
        self.delay = 0.0
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
        there, back = await asyncio.open_unix_connection(self._socket)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, back, late=False))
                both.create_task(self._carry(there, writer, late=True))
        except* (ConnectionError, EOFError):
            pass  # one side is gone, so the other one goes too
        finally:
            for end in (writer, back):
                end.close()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, late: bool) -> None:
        """Each piece as late as the delay was when it came, in order and however many follow it."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        sending = asyncio.create_task(self._send(pieces, target))
        try:
            while piece := await source.read(65536):
                pieces.put_nowait((loop.time() + (self.delay if late else 0.0), piece))
            raise EOFError
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await sending

    async def _send(self, pieces: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(due - loop.time())
            target.write(piece)
            await target.drain()
