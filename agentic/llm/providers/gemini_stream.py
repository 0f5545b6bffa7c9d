"""A streamed answer of Gemini's: each event is an answer of its own with the next parts of the one candidate.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from agentic.llm import http as sse
from agentic.llm.errors import ConnectionFailed
from agentic.llm.model import StreamListener
from agentic.llm.schemas import part, parts, text


class ErrorWithin(Exception):
    """An error that came as an event. `details` is its object, in Google's usual shape."""

    def __init__(self, details: Mapping[str, Any]) -> None:
        super().__init__("an error within the stream")
        self.details = details


class StreamedAnswer:
    """Collects the events. `answer` has the shape of a whole one, `said` is its text, `ended` says whether it is
    complete."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._pieces: list[dict[str, Any]] = []
        self.said = ""
        self.ended = False

    @property
    def answer(self) -> dict[str, Any]:
        """The answer. It has no candidate if none has come, as for a blocked prompt."""
        if not self._candidate:
            return self._answer
        content = {"role": "model", "parts": self._pieces}
        return {**self._answer, "candidates": [{**self._candidate, "content": content}]}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add one event. Counts of tokens are totals, so the last ones are kept."""
        if "error" in event:
            raise ErrorWithin(part(event, "error"))
        self._answer |= {key: value for key, value in event.items() if key != "candidates"}
        for candidate in parts(event, "candidates")[:1]:
            self._candidate |= {key: value for key, value in candidate.items() if key != "content"}
            for piece in parts(part(candidate, "content"), "parts"):
                self._append(piece)
        self.ended = "finishReason" in self._candidate or bool(text(part(event, "promptFeedback"), "blockReason"))

    def _append(self, piece: Mapping[str, Any]) -> None:
        """Add a part. Consecutive texts become one part, unless one of them carries further fields."""
        if not piece.get("thought"):
            self.said += text(piece, "text")
        last = self._pieces[-1] if self._pieces else {}
        plain = {"text", "thought"}
        if last.keys() == piece.keys() and "text" in piece and piece.keys() <= plain:
            self._pieces[-1] = {**last, "text": text(last, "text") + text(piece, "text")}
        else:
            self._pieces.append(dict(piece))


async def gathered(
    chunks: AsyncIterator[bytes], on_usage: Callable[[Mapping[str, Any]], None], listener: StreamListener
) -> Mapping[str, Any]:
    """Return the whole answer. `on_usage` gets the answer each time new counts come.

    After the end the stream is read for another moment, since counts and sources may come last. Raises ConnectionFailed
    if the stream ends before the answer does, and ErrorWithin.
    """
    streamed = StreamedAnswer()
    try:
        async with aclosing(sse.objects_in(chunks)) as events, asyncio.timeout(None) as rest:
            async for event in events:
                streamed.add(event)
                if "usageMetadata" in event:
                    on_usage(streamed.answer)
                listener(streamed.said)
                if streamed.ended and rest.when() is None:
                    rest.reschedule(asyncio.get_running_loop().time() + sse.REST_SECONDS)
    except TimeoutError:
        if not streamed.ended:
            raise
    if not streamed.ended:
        raise ConnectionFailed("cut in mid-answer")
    return streamed.answer
