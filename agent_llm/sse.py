"""Server-sent events, out of the bytes of a response: https://html.spec.whatwg.org/multipage/server-sent-events.html

Only `data` matters to us; event names, ids and comments (keep-alives) are passed over. Bytes may be split anywhere,
also within a character.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

from agent_llm import stainless
from agent_llm.errors import BadAnswer
from agent_llm.reading import json_object

# A server that babbles on without end is cut here.
MOST_BYTES = 16 * 1024 * 1024
DONE = "[DONE]"


class Decoder:
    """Bytes in, the data of whole events out. Raises BadAnswer beyond MOST_BYTES in all."""

    def __init__(self) -> None:
        self._unread = b""
        self._data: list[str] = []
        self._seen = 0

    def feed(self, chunk: bytes) -> Iterator[str]:
        """The events that this chunk completes."""
        self._seen += len(chunk)
        if self._seen > MOST_BYTES:
            raise BadAnswer("a stream without end")
        lines = (self._unread + chunk).replace(b"\r\n", b"\n").split(b"\n")
        self._unread = lines.pop()
        for line in lines:
            if line:
                self._read(line.decode("utf-8", "replace").rstrip("\r"))
            elif self._data:
                yield "\n".join(self._data)
                self._data.clear()

    def _read(self, line: str) -> None:
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))


async def objects(
    client: Any, path: str, request: Mapping[str, Any], seconds: float
) -> AsyncGenerator[Mapping[str, Any]]:
    """The JSON objects that the answer to a POST streams, up to [DONE] or the connection's end.

    `client` is OpenAI's SDK's, for its authentication and its errors; it raises what `stainless.post` does, and
    BadAnswer for data that is none. To be closed (`contextlib.aclosing`), so that the connection goes with it.
    """
    response = await stainless.begin(client, path, request, seconds)
    decoder = Decoder()
    try:
        async for chunk in response.aiter_bytes():
            for data in decoder.feed(chunk):
                if data == DONE:
                    return
                yield json_object(data)
    finally:
        await response.aclose()
