"""A streamed answer of Gemini's: each event is an answer of its own with the next parts of the one candidate.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from agent_llm.base import StreamListener
from agent_llm.errors import ConnectionFailed
from agent_llm.transport import sse
from agent_llm.wire.lenient_json import part, parts, text


class ErrorWithin(Exception):
    """An error that came as an event. `told` is its object, of Google's usual shape."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__("an error within the stream")
        self.told = told


class Gathering:
    """The events so far. `answer` has the shape of a whole one; `said` is its text; `ended` once it has its end."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._pieces: list[dict[str, Any]] = []
        self.said = ""
        self.ended = False

    @property
    def answer(self) -> dict[str, Any]:
        """Without a candidate where none has come: the prompt was blocked."""
        if not self._candidate:
            return self._answer
        content = {"role": "model", "parts": self._pieces}
        return {**self._answer, "candidates": [{**self._candidate, "content": content}]}

    def add(self, event: Mapping[str, Any]) -> None:
        """One event. Counts of tokens are totals, so that the last ones hold."""
        if "error" in event:
            raise ErrorWithin(part(event, "error"))
        self._answer |= {key: value for key, value in event.items() if key != "candidates"}
        for candidate in parts(event, "candidates")[:1]:
            self._candidate |= {key: value for key, value in candidate.items() if key != "content"}
            for piece in parts(part(candidate, "content"), "parts"):
                self._append(piece)
        self.ended = "finishReason" in self._candidate or bool(text(part(event, "promptFeedback"), "blockReason"))

    def _append(self, piece: Mapping[str, Any]) -> None:
        """Texts that follow each other are one part, unless something is said about one of them."""
        if not piece.get("thought"):
            self.said += text(piece, "text")
        last = self._pieces[-1] if self._pieces else {}
        plain = {"text", "thought"}
        if last.keys() == piece.keys() and "text" in piece and piece.keys() <= plain:
            self._pieces[-1] = {**last, "text": text(last, "text") + text(piece, "text")}
        else:
            self._pieces.append(dict(piece))


async def gathered(
    chunks: AsyncIterator[bytes], told: Callable[[Mapping[str, Any]], None], listener: StreamListener
) -> Mapping[str, Any]:
    """The whole answer. `told` hears it each time its cost is told anew.

    What follows the end is read for a moment: counts and sources may come last. Raises ConnectionFailed where the
    stream ends before the answer does, and ErrorWithin.
    """
    gathering = Gathering()
    try:
        async with aclosing(sse.objects_in(chunks)) as events, asyncio.timeout(None) as rest:
            async for event in events:
                gathering.add(event)
                if "usageMetadata" in event:
                    told(gathering.answer)
                listener(gathering.said)
                if gathering.ended and rest.when() is None:
                    rest.reschedule(asyncio.get_running_loop().time() + sse.REST_SECONDS)
    except TimeoutError:
        if not gathering.ended:
            raise
    if not gathering.ended:
        raise ConnectionFailed("cut in mid-answer")
    return gathering.answer
