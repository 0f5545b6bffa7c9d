"""Server-sent events from the bytes of a response: https://html.spec.whatwg.org/multipage/server-sent-events.html

Only `data` matters here; event names, ids and comments (keep-alives) are skipped. Bytes may be split anywhere, also
within a character.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any

from agentic.llm import sdk_http
from agentic.llm.errors import BadAnswer
from agentic.llm.lenient_json import json_object

# Limits for a server that never stops: in all, and of one line, whose parsing blocks the event loop.
MOST_BYTES = 16 * 1024 * 1024
MOST_LINE_BYTES = 2 * 1024 * 1024
DONE = "[DONE]"
REST_SECONDS = 0.2


class Decoder:
    """Turns bytes into the data of whole events. Raises BadAnswer above MOST_BYTES and MOST_LINE_BYTES."""

    def __init__(self) -> None:
        self._unread = b""
        self._seen = 0
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the events that this chunk completes."""
        for line in self._lines(chunk):
            if line:
                self._read(line)
            elif self._data:
                yield "\n".join(self._data)
                self._data.clear()

    def _lines(self, chunk: bytes) -> Iterator[str]:
        self._seen += len(chunk)
        if self._seen > MOST_BYTES:
            raise BadAnswer("a stream without end")
        lines = (self._unread + chunk).replace(b"\r\n", b"\n").split(b"\n")
        self._unread = lines.pop()
        if len(self._unread) > MOST_LINE_BYTES:
            raise BadAnswer("a line without end")
        for line in lines:
            yield line.decode("utf-8", "replace").rstrip("\r")

    def _read(self, line: str) -> None:
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))


async def objects_in(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the JSON objects in a response's body, up to [DONE] or its end. Raises BadAnswer for other data."""
    decoder = Decoder()
    async for chunk in chunks:
        for data in decoder.feed(chunk):
            if data == DONE:
                await rest(chunks)
                return
            yield json_object(data)


async def rest(chunks: AsyncIterator[Any]) -> None:
    """Read past the last event: only a connection that was read to its end is reused.

    The answer is complete, so errors no longer matter.
    """
    with suppress(BadAnswer, *sdk_http.transport_errors()):
        async with asyncio.timeout(REST_SECONDS):
            async for _ in chunks:
                pass


async def objects(
    client: Any, path: str, request: Mapping[str, Any], seconds: float
) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the JSON objects that the answer to a POST streams.

    `client` is OpenAI's SDK client, for its authentication and errors; also raises what `sdk_http.post` raises. Close
    the generator (`contextlib.aclosing`) to release the connection.
    """
    response = await sdk_http.begin(client, path, request, seconds)
    try:
        async with aclosing(objects_in(response.aiter_bytes())) as events:
            async for event in events:
                yield event
    finally:
        await response.aclose()
